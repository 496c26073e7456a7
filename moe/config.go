// Package moe is the mixture-of-experts layer: router, auxiliary losses, permutation and
// grouped experts, forward and backward written out.
//
// Letters: T tokens of the microbatch, D model width, E experts, K chosen per token,
// R = T·K routed rows, F hidden width of an expert.
package moe

import "fmt"

// Config is the shape of a mixture-of-experts layer and the constants of its router.
type Config struct {
	Experts      int     `json:"experts"`
	TopK         int     `json:"top_k"`
	Hidden       int     `json:"hidden"`        // F of a routed expert
	SharedHidden int     `json:"shared_hidden"` // F of the shared expert; 0: none
	Router       string  `json:"router"`        // sigmoid or softmax
	RouterDtype  string  `json:"router_dtype"`  // format the logits are rounded to: fp32, or bf16, where exact ties are common
	Scaling      float64 `json:"scaling"`       // routed scaling factor
	AuxCoeff     float64 `json:"aux_coeff"`     // load-balancing loss
	ZCoeff       float64 `json:"z_coeff"`       // z-loss
	BiasRate     float64 `json:"bias_rate"`     // expert-bias update; 0: the bias stays
	TileM        int     `json:"tile_m"`        // rows of a tile of the grouped product
	TileN        int     `json:"tile_n"`        // columns of a tile
	TileSub      int     `json:"tile_sub"`      // columns of a sub-tile
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
	case c.Router != "sigmoid" && c.Router != "softmax":
		return fmt.Errorf("model.moe.router: %q: must be sigmoid or softmax", c.Router)
	case c.RouterDtype != "fp32" && c.RouterDtype != "bf16":
		return fmt.Errorf("model.moe.router_dtype: %q: must be fp32 or bf16", c.RouterDtype)
	case c.TileSub > c.TileN:
		return fmt.Errorf("model.moe.tile_sub: %d: must be at most model.moe.tile_n (%d)", c.TileSub, c.TileN)
	case !(c.Scaling > 0):
		return fmt.Errorf("model.moe.scaling: %g: must be above 0", c.Scaling)
	case !(c.AuxCoeff >= 0 && c.ZCoeff >= 0 && c.BiasRate >= 0):
		return fmt.Errorf("model.moe: aux_coeff, z_coeff and bias_rate must be 0 or more")
	}
	return nil
}
