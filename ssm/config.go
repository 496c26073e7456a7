// Package ssm is the Mamba-2 layer, forward and backward written out.
//
// Letters: B sequences, T steps, D model width, H heads of width P, N state per channel, G groups
// of heads that share b and c, K taps of the convolution, I = H·P inner width, C = I + 2·G·N
// channels of the convolution.
package ssm

import "fmt"

// Config is the shape of a Mamba-2 layer.
type Config struct {
	Heads   int     `json:"heads"`    // H
	HeadDim int     `json:"head_dim"` // P
	State   int     `json:"state"`    // N
	Groups  int     `json:"groups"`   // G, dividing H
	Conv    int     `json:"conv"`     // K
	DTMin   float64 `json:"dt_min"`   // least step size; 0: none, as in Mamba; Hugging Face's time_step_min
}

// Inner is I.
func (c Config) Inner() int { return c.Heads * c.HeadDim }

// Channels is C.
func (c Config) Channels() int { return c.Inner() + 2*c.Groups*c.State }

// Projected is the width of the input projection: z, x, b, c and dt.
func (c Config) Projected() int { return c.Inner() + c.Channels() + c.Heads }

// Columns is, of each column of the input projection, its index where all of z come first, then all of x, b, c and dt.
// Here they lie group by group, so that the part of a tensor-parallel rank, which is some of the groups, is one run.
func (c Config) Columns() []int {
	shared := c.Groups * c.State
	return byGroup(c.Groups, c.Inner(), c.Inner(), shared, shared, c.Heads)
}

// ConvChannels is the same of the channels of the convolution: x, b and c.
func (c Config) ConvChannels() []int {
	shared := c.Groups * c.State
	return byGroup(c.Groups, c.Inner(), shared, shared)
}

// CheckContext says why a part of so many steps of each sequence cannot be a rank's; nil: it can. The convolution reads what
// lies before a part from the one before it, and no further back.
func (c Config) CheckContext(steps int) error {
	if steps < max(c.Conv-1, 1) {
		return fmt.Errorf("model.ssm.conv: %d: a context-parallel rank has %d steps: must be at least %d, the steps that the first of the next rank sees", c.Conv, steps, max(c.Conv-1, 1))
	}
	return nil
}

// byGroup lists the indices of a group's share of each part, group after group.
func byGroup(groups int, widths ...int) []int {
	var indices []int
	for g := range groups {
		at := 0
		for _, w := range widths {
			share := w / groups
			for i := range share {
				indices = append(indices, at+g*share+i)
			}
			at += w
		}
	}
	return indices
}

// Params counts the weights of a layer on a model of width d.
func (c Config) Params(d int64) int64 {
	return d*int64(c.Projected()) + int64(c.Channels()*(c.Conv+1)+3*c.Heads+c.Inner()) + d*int64(c.Inner())
}

// Validate reports the first field that cannot be.
func (c Config) Validate() error {
	for _, f := range []struct {
		name   string
		v, max int
	}{{"heads", c.Heads, 1 << 12}, {"head_dim", c.HeadDim, 1 << 12}, {"state", c.State, 1 << 12}, {"groups", c.Groups, 1 << 12}, {"conv", c.Conv, 64}} {
		if f.v < 1 || f.v > f.max {
			return fmt.Errorf("model.ssm.%s: %d: must be from 1 to %d", f.name, f.v, f.max)
		}
	}
	switch {
	case c.Heads%c.Groups != 0:
		return fmt.Errorf("model.ssm.groups: %d: must divide model.ssm.heads (%d)", c.Groups, c.Heads)
	case !(c.DTMin >= 0 && c.DTMin < 1e3):
		return fmt.Errorf("model.ssm.dt_min: %g: must be 0 (none) or a step size below 1000", c.DTMin)
	}
	return nil
}
