package verify

import "flag"

// The exhaustive forms of tests take minutes: `make matrix`.
var exhaustive = flag.Bool("matrix", false, "run tests in their exhaustive forms")

// few are the variants of the matrix that tests run unless they are exhaustive: the whole hybrid on packed documents and with steps that are skipped, and a pattern of one kind of layer.
func few() []variant {
	if *exhaustive {
		return variants()
	}
	return []variant{{"M*EM*EM*/*E", "bf16", packed}, {"M*EM*EM*/*E", "fp16", skipping}, {"*-*-*-*-", "fp32", replicated}}
}
