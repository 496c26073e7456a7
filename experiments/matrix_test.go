package experiments

import (
	"flag"
	"testing"

	"github.com/stretchr/testify/require"
)

// The exhaustive forms of tests take minutes: `make matrix`.
var matrix = flag.Bool("matrix", false, "run tests in their exhaustive forms")

// Every cause on every layout, and in every precision, in which it says that it occurs; `reproduce --all --layout each --precision each` tells both together.
func TestEveryCauseEverywhere(t *testing.T) {
	if !*matrix {
		t.Skip("make matrix")
	}
	for _, c := range Causes() {
		for i, layout := range c.Layouts {
			for _, precision := range c.Precisions {
				if own := precision == c.config().Precision; own == (i == 0) { // one of the two is another
					continue
				}
				t.Run(c.ID+"/"+layout+"/"+precision, func(t *testing.T) {
					on, err := c.On(layout)
					require.NoError(t, err)
					in, err := on.In(precision)
					require.NoError(t, err)
					r, err := short(in).Reproduce(nil)
					require.NoError(t, err)
					require.Empty(t, r.Why)
				})
			}
		}
	}
}
