package inject

import (
	"fmt"
	"strings"

	"firstbit/device"
	"firstbit/tune"
)

var libraryKind = &kind{Name: "library", noun: "Call", phase: tune.EveryPhase, Example: "library@layers.1.* to=sim-13.1",
	does: "kernels of another release of the library; plans by hand go over what it ships",
	make: func(*Selector) (action, []field) {
		r := &tune.Release{}
		to := field{Key: tune.Key{Name: "to", Value: strings.Join(tune.Releases(), "|"), Text: func() string { return r.Name }, Take: func(value string) error {
			r.Name = value
			if err := tune.ParseRelease(value); err != nil {
				return fmt.Errorf("%q: must be one of %s", value, strings.Join(tune.Releases(), ", "))
			}
			return nil
		}}}
		return &choosing{chooses: r}, []field{given(to)}
	}}

// choosing sets plans through the tuner, by what it finds.
type choosing struct {
	chooses  tune.Chooser
	policies *tune.Policy
}

// on leaves out the drawing of a weight, which has the name of the Call that computes with it, and nothing to choose.
func (o *choosing) on(c *device.Call) bool {
	return c.Kind != device.Module && c.ID.Phase != device.Init
}

func (o *choosing) finish(f *Fault) error {
	o.policies = &tune.Policy{Glob: f.Globs[0], Choose: o.chooses, Where: f.Where, Text: f.Text}
	return nil
}

func (o *choosing) policy() *tune.Policy { return o.policies }
