package kernel

import (
	"firstbit/lowp"
	"firstbit/reduce"
)

func inOrder(n int) Fold { return Fold{Program: reduce.Seq.Program(n), Acc: lowp.FP32} }

func foldOf(order string, n int) Fold {
	return Fold{Program: reduce.MustOrder(order).Program(n), Acc: lowp.FP32}
}
