package nn

import (
	"firstbit/kernel"
	"firstbit/lowp"
	"firstbit/reduce"
)

func inOrder(n int) kernel.Fold { return foldOf("seq", n) }

func foldOf(order string, n int) kernel.Fold {
	return kernel.Fold{Program: reduce.MustOrder(order).Program(n), Acc: lowp.FP32}
}
