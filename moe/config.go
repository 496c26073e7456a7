// Package moe is the mixture-of-experts layer: router, auxiliary losses, permutation and
// grouped experts, forward and backward written out.
//
// Letters: T tokens of the microbatch, D model width, E experts, K chosen per token,
// R = T·K routed rows, F hidden width of an expert, L width of the latent, G groups of experts.
package moe

import (
	"errors"
	"fmt"

	"firstbit/spell"
)

// Config is the shape of a mixture-of-experts layer and the constants of its router.
type Config struct {
	Experts      int     `json:"experts"`
	TopK         int     `json:"top_k"`
	Hidden       int     `json:"hidden"`        // F of a routed expert
	SharedHidden int     `json:"shared_hidden"` // F of the shared expert; 0: none
	Latent       int     `json:"latent"`        // L, the width the experts work at, between two projections; 0: the model's
	Router       string  `json:"router"`        // sigmoid, softmax (over all experts) or softmax_topk (over the chosen)
	RouterDtype  string  `json:"router_dtype"`  // format the logits are rounded to: fp32, or bf16, where exact ties are common
	Scaling      float64 `json:"scaling"`       // routed scaling factor
	Jitter       float64 `json:"jitter"`        // the router's input is multiplied by numbers uniform from 1−jitter to 1+jitter
	Groups       int     `json:"groups"`        // groups of consecutive experts, of which a token chooses within groups_kept; 0 or 1: none
	GroupsKept   int     `json:"groups_kept"`   // groups a token keeps
	GroupTop     int     `json:"group_top"`     // experts whose scores are their group's; 0: top_k/groups_kept, rounded down
	Aux          string  `json:"aux"`           // the load-balancing loss is of the whole batch (or empty) or of each sequence
	AuxCoeff     float64 `json:"aux_coeff"`     // load-balancing loss
	ZCoeff       float64 `json:"z_coeff"`       // z-loss
	BiasRate     float64 `json:"bias_rate"`     // expert-bias update; 0: the bias stays
	TileM        int     `json:"tile_m"`        // rows of a tile of the grouped product
	TileN        int     `json:"tile_n"`        // columns of a tile
	TileSub      int     `json:"tile_sub"`      // columns of a sub-tile

	Unfused bool `json:"unfused,omitempty"` // the gradient of the experts' activation is a kernel of its own, not the epilogue of the product before it
}

// Validate reports the first field that cannot be.
func (c Config) Validate() error {
	for _, f := range []struct {
		name string
		v    int
	}{{"experts", c.Experts}, {"top_k", c.TopK}, {"hidden", c.Hidden}, {"tile_m", c.TileM}, {"tile_n", c.TileN}, {"tile_sub", c.TileSub}} {
		if f.v < 1 || f.v > 1<<20 {
			return fmt.Errorf("model.moe.%s: %d: must be from 1 to %d", f.name, f.v, 1<<20)
		}
	}
	switch {
	case c.TopK > c.Experts:
		return fmt.Errorf("model.moe.top_k: %d: must be at most model.moe.experts (%d)", c.TopK, c.Experts)
	case c.Experts > 1024:
		return fmt.Errorf("model.moe.experts: %d: must be at most 1024", c.Experts)
	case c.SharedHidden < 0 || c.SharedHidden > 1<<20:
		return fmt.Errorf("model.moe.shared_hidden: %d: must be from 0 (no shared expert) to %d", c.SharedHidden, 1<<20)
	case c.Latent < 0 || c.Latent > 1<<20:
		return fmt.Errorf("model.moe.latent: %d: must be from 0 (no projection) to %d", c.Latent, 1<<20)
	case c.Router != "sigmoid" && c.Router != "softmax" && c.Router != "softmax_topk":
		return fmt.Errorf("model.moe.router: %q: %s", c.Router, spell.OneOf(c.Router, []string{"sigmoid", "softmax", "softmax_topk"}))
	case c.Router == "softmax_topk" && c.TopK == 1:
		return errors.New("model.moe.top_k: 1: must be at least 2 with model.moe.router softmax_topk: the softmax of one logit is 1 and has no gradient")
	case c.Aux != "" && c.Aux != "batch" && c.Aux != "sequence":
		return fmt.Errorf("model.moe.aux: %q: must be batch (or empty) or sequence", c.Aux)
	case c.RouterDtype != "fp32" && c.RouterDtype != "bf16":
		return fmt.Errorf("model.moe.router_dtype: %q: must be fp32 or bf16", c.RouterDtype)
	case c.TileSub > c.TileN:
		return fmt.Errorf("model.moe.tile_sub: %d: must be at most model.moe.tile_n (%d)", c.TileSub, c.TileN)
	case !(c.Jitter >= 0 && c.Jitter < 1):
		return fmt.Errorf("model.moe.jitter: %g: must be from 0 to below 1", c.Jitter)
	case !(c.Scaling > 0):
		return fmt.Errorf("model.moe.scaling: %g: must be above 0", c.Scaling)
	case !(c.AuxCoeff >= 0 && c.ZCoeff >= 0 && c.BiasRate >= 0):
		return fmt.Errorf("model.moe: aux_coeff, z_coeff and bias_rate must be 0 or more")
	}
	return c.validateGroups()
}

// validateGroups reports the first field of the groups that cannot be.
func (c Config) validateGroups() error {
	if c.Groups == 0 || c.Groups == 1 {
		switch {
		case c.GroupsKept != 0 && c.GroupsKept != 1:
			return fmt.Errorf("model.moe.groups_kept: %d: must be 0 or 1 without groups (model.moe.groups %d)", c.GroupsKept, c.Groups)
		case c.GroupTop != 0:
			return fmt.Errorf("model.moe.group_top: %d: must be 0 without groups (model.moe.groups %d)", c.GroupTop, c.Groups)
		}
		return nil
	}
	switch {
	case c.Groups < 0 || c.Groups > c.Experts || c.Experts%c.Groups != 0:
		return fmt.Errorf("model.moe.groups: %d: must be 0 or 1 (none), or divide model.moe.experts (%d)", c.Groups, c.Experts)
	case c.GroupsKept < 1 || c.GroupsKept > c.Groups:
		return fmt.Errorf("model.moe.groups_kept: %d: must be from 1 to model.moe.groups (%d)", c.GroupsKept, c.Groups)
	case c.TopK > c.GroupsKept*c.groupSize():
		return fmt.Errorf("model.moe.top_k: %d: must be at most the experts of the kept groups, %d·%d/%d = %d",
			c.TopK, c.GroupsKept, c.Experts, c.Groups, c.GroupsKept*c.groupSize())
	case c.GroupTop < 0 || c.GroupTop > c.groupSize():
		return fmt.Errorf("model.moe.group_top: %d: must be from 0 (top_k/groups_kept) to the experts of a group (%d)", c.GroupTop, c.groupSize())
	case c.groupTop() == 0:
		return fmt.Errorf("model.moe.group_top: 0: must be at least 1 where model.moe.top_k (%d) is below model.moe.groups_kept (%d)", c.TopK, c.GroupsKept)
	}
	return nil
}

func (c Config) grouped() bool { return c.Groups > 1 }

func (c Config) groupSize() int { return c.Experts / c.Groups }

// groupTop is how many of a group's experts make its score.
func (c Config) groupTop() int {
	if c.GroupTop > 0 {
		return c.GroupTop
	}
	return c.TopK / c.GroupsKept
}
