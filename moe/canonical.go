package moe

import (
	"fmt"

	"firstbit/parallel"
)

// CheckCanonical says why experts laid out so cannot have bits that do not depend on the layout; nil: they have.
func CheckCanonical(l parallel.Layout) error {
	l = l.Full()
	micro := l.TP * l.CP
	switch {
	case l.ETP > 1:
		return fmt.Errorf("layout etp: %d: must be 1 with recipe canonical: the sum over the columns of an expert is not cut", l.ETP)
	case l.EP%micro != 0 && micro%l.EP != 0:
		return fmt.Errorf("layout ep: %d: must divide tp·cp = %d or be a multiple of it with recipe canonical: a rank's tokens must be whole microbatches, or a whole part of one", l.EP, micro)
	}
	return nil
}
