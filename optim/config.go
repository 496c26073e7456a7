// Package optim is AdamW over full-precision masters, global-norm clipping and the schedule of the
// learning rate.
package optim

import (
	"fmt"
	"math"
	"slices"

	"firstbit/spell"
)

// Config is the optimizer's constants.
type Config struct {
	LR     float64 `json:"lr"`     // the peak
	MinLR  float64 `json:"min_lr"` // where the decay ends
	Warmup int     `json:"warmup"` // steps from 0 to LR
	Decay  string  `json:"decay"`  // constant; linear or cosine, from Warmup to the last step; or wsd: constant until the last WSDSteps
	Beta1  float64 `json:"beta1"`  //
	Beta2  float64 `json:"beta2"`  //
	Eps    float64 `json:"eps"`    //
	Weight float64 `json:"weight"` // decoupled weight decay
	Clip   float64 `json:"clip"`   // global gradient norm; 0: no clipping

	WSDSteps int    `json:"wsd_steps"` // wsd: the steps of the decay, the last of the run
	WSDDecay string `json:"wsd_decay"` // wsd: linear, cosine, exponential or minus_sqrt

	// Replicated: every data-parallel rank has all masters and moments of its weights and updates them by itself, from gradients that are
	// all-reduced. Otherwise each has a shard of them.
	Replicated bool `json:"replicated"`

	LossScale LossScaleConfig `json:"loss_scale"` // fp16
}

// Validate reports the first field that cannot be.
func (c Config) Validate() error {
	bad := func(field string, v float64, allowed string) error {
		return fmt.Errorf("optim.%s: %g: must be %s", field, v, allowed)
	}
	unit := func(v float64) bool { return v >= 0 && v < 1 }
	switch {
	case !(c.LR > 0) || math.IsInf(c.LR, 0):
		return bad("lr", c.LR, "above 0")
	case !(c.MinLR >= 0 && c.MinLR <= c.LR):
		return bad("min_lr", c.MinLR, "from 0 to optim.lr")
	case c.Warmup < 0:
		return bad("warmup", float64(c.Warmup), "0 or more")
	case !slices.Contains(Decays, c.Decay):
		return fmt.Errorf("optim.decay: %q: %s", c.Decay, spell.OneOf(c.Decay, Decays))
	case c.Decay == "wsd" && c.WSDSteps < 1:
		return bad("wsd_steps", float64(c.WSDSteps), "1 or more with optim.decay wsd")
	case c.Decay != "wsd" && c.WSDSteps != 0:
		return bad("wsd_steps", float64(c.WSDSteps), "0 with optim.decay "+c.Decay)
	case !slices.Contains(WSDDecays, c.WSDDecay):
		return fmt.Errorf("optim.wsd_decay: %q: %s", c.WSDDecay, spell.OneOf(c.WSDDecay, WSDDecays))
	case !unit(c.Beta1):
		return bad("beta1", c.Beta1, "in [0, 1)")
	case !unit(c.Beta2):
		return bad("beta2", c.Beta2, "in [0, 1)")
	case !(c.Eps > 0):
		return bad("eps", c.Eps, "above 0")
	case !(c.Weight >= 0):
		return bad("weight", c.Weight, "0 or more")
	case !(c.Clip >= 0):
		return bad("clip", c.Clip, "0 (no clipping) or more")
	}
	return c.LossScale.validate()
}
