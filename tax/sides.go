package tax

import (
	"fmt"
	"slices"
	"strings"

	"firstbit/device"
	"firstbit/kernel"
	"firstbit/reduce"
	"firstbit/run"
)

// way is a nondeterministic way to train: threads share some of the sums, and bring what they add together as a kernel.Race does.
type way struct {
	name string
	race kernel.Race
	cuts int // contributions to a product, or to a sum over rows
	sums sums
}

// sums are kinds of sums that threads share.
type sums uint8

const (
	products  sums = 1 << iota // gradients of weights, in the matrix product
	rows                       // sums over rows: gradients of norms, convolutions and experts
	scattered                  // rows that are added to those of a table or of a token
	epilogue                   // of the grouped product
	every     = products | rows | scattered | epilogue
)

// ways are those that are tried. Those that share all sums say what each way costs; the others whether racing pays for some of the sums.
var ways = []way{
	{"atomic adds", kernel.Atomic, 4, every},
	{"worker-local sums", kernel.Local, 8, every},
	{"work stealing", kernel.Steal, 8, every},
	{"atomic adds but in products", kernel.Atomic, 4, rows | scattered | epilogue},
	{"atomic adds in the epilogue", kernel.Atomic, 4, epilogue},
	{"worker-local sums over rows", kernel.Local, 8, rows},
	{"work stealing in products", kernel.Steal, 8, products},
	{"work stealing but over rows", kernel.Steal, 8, products | scattered | epilogue},
}

// productKernel has the sums that are products: its plan's name for them is that of every product.
const productKernel = "matmul.wgrad"

// racing is how a plan says that a sum of a name is shared, in kernels whose threads can.
type racing struct {
	sum    string
	kernel string // alone; empty: all that have a sum of the name
	of     sums
	plan   string // %s: the cut
}

var racings = []racing{
	{"k", productKernel, products, "k:%s"},
	{"rows", "", rows, "rows:%s"},
	{"tokens", "", scattered, "tokens:arrival"},
	{"slots", "", scattered, "slots:arrival"},
	{"tiles", "", epilogue, "tiles:arrival; sched=dynamic"},
}

// racingOf is how the plan of a Call says that threads share its sum; nil: it has none that they can.
func racingOf(kernel string, plan reduce.Plan) *racing {
	for _, r := range plan.Reductions() {
		for i := range racings {
			if k := &racings[i]; k.sum == r.Name && (k.kernel == "" || k.kernel == kernel) {
				return k
			}
		}
	}
	return nil
}

// among are the kinds of sums that a run has.
func among(calls []run.CallKind) (all sums) {
	for _, c := range calls {
		if r := racingOf(c.Kernel, c.Plan); r != nil {
			all |= r.of
		}
	}
	return all
}

// spec is a run by the way. calls are those of the run's first step.
func (w way) spec(s run.Spec, calls []run.CallKind) run.Spec {
	s.Schedule = device.Schedule{Real: true, Race: w.race}
	cut := fmt.Sprintf("splitk(%d,arrival)", w.cuts)
	given := s.Plans
	s.Plans = nil
	for _, c := range calls {
		if r := racingOf(c.Kernel, c.Plan); r != nil && w.sums&r.of != 0 {
			s.Plans = append(s.Plans, c.Name+" "+strings.Replace(r.plan, "%s", cut, 1))
		}
	}
	s.Plans = append(s.Plans, given...) // which go over them
	return s
}

// waysOf are the ways that share any sums of a run, each as what it shares of them; of two that are the same then, the first.
func waysOf(calls []run.CallKind) (of []way) {
	for _, w := range ways {
		w.sums &= among(calls)
		same := func(v way) bool { return v.race == w.race && v.sums == w.sums }
		if w.sums != 0 && !slices.ContainsFunc(of, same) {
			of = append(of, w)
		}
	}
	return of
}
