package experiments

import "flag"

// The exhaustive forms of tests take minutes: `make matrix`.
var matrix = flag.Bool("matrix", false, "run tests in their exhaustive forms")
