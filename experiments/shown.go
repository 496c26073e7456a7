package experiments

import (
	"fmt"
	"slices"
	"strings"

	"firstbit/parallel"
	"firstbit/spell"
	"firstbit/train"
)

// everyPrecision lists those that causes are shown in. fp64 is for references.
var everyPrecision = []string{"fp32", "bf16", "fp16", "fp8", "mxfp8", "nvfp4"}

// products are the Calls that multiply matrices, any of which may be the first to show another kernel of them where a format rounds the difference away.
var products = []string{"*.in_proj*", "*.out_proj*", "*.attn.w?*", "*.mlp.w?*", "*.shared.w?*", "*.experts.*", "*.router.*", "*logits*", "*.proj*"}

// On is the cause shown on another layout.
func (c *Cause) On(layout string) (*Cause, error) {
	l, err := parallel.ParseLayout(layout)
	if err != nil {
		return nil, err
	}
	if err := c.config().CheckLayout(l); err != nil {
		return nil, fmt.Errorf("%s: %w", c.ID, err)
	}
	other := *c
	other.Layouts = []string{layout}
	other.flips = c.flips && layout == c.Layouts[0] // elsewhere other bits differ, and need not reach a route
	return &other, nil
}

// In is the cause shown in another precision.
func (c *Cause) In(precision string) (*Cause, error) {
	if !slices.Contains(everyPrecision, precision) {
		return nil, fmt.Errorf("--precision %q: %s", precision, spell.OneOf(precision, everyPrecision))
	}
	if !slices.Contains(c.Precisions, precision) {
		return nil, fmt.Errorf("--precision %s: %s occurs in %s: %s", precision, c.ID, strings.Join(c.Precisions, ", "), c.Only)
	}
	other := *c
	if precision != c.config().Precision { // other bits differ there, and need not reach a route, or a decimal as late
		other.flips, other.unprinted, other.elsewhere = false, 0, true
		other.config = func() train.Config {
			config := c.config()
			config.Precision = precision
			return config
		}
	}
	return &other, nil
}

// With is the cause shown on a changed configuration, where other bits differ and need not reach a route, or a decimal as late.
// The runs must be valid, and long enough for all that the cause does at a step.
func (c *Cause) With(change func(*train.Config) error) (*Cause, error) {
	config := c.config()
	if err := change(&config); err != nil {
		return nil, err
	}
	if last := max(c.stop+c.around, c.seen); config.Steps <= last {
		return nil, fmt.Errorf("steps: %d: must be over %d: %s restores or shows it there", config.Steps, last, c.ID)
	}
	other := *c
	other.flips, other.unprinted, other.elsewhere = false, 0, true
	other.config = func() train.Config { return config }
	for side := range other.vary {
		s := other.spec(other.broken, side)
		s.Strict = c.stop == 0 // what acts on a restore is at home in one
		if err := s.Check(); err != nil {
			return nil, fmt.Errorf("%s: %w", c.ID, err)
		}
	}
	return &other, nil
}

// Far is the cause with runs of at least 50 steps.
func (c *Cause) Far() *Cause {
	other := *c
	other.config = func() train.Config {
		config := c.config()
		config.Steps = max(config.Steps, 50)
		return config
	}
	return &other
}

func init() {
	for _, c := range catalog {
		if c.Precisions == nil {
			c.Precisions = everyPrecision
		}
	}
}
