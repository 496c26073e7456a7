package quant

import (
	"math"

	"firstbit/lowp"
)

// The quantisers read float32 and write codes: one a byte, two a byte of e2m1, the first in the low nibble.
// Every copy of a tensor is quantised from the tensor itself, never from another copy.

// currentScale is the scale of a whole tensor by its own amax, and what undoes it.
//
//	scale = max(f)/amax ;  inverse = 1/scale
//
// It is 1 when amax is 0, ∞ or NaN, and the largest float32 when amax is too small for a scale.
//
// Source: TransformerEngine, compute_scale_from_amax, without its powers of two.
func currentScale(f lowp.Format, amax float32) (scale, inverse float32) {
	scale = 1
	if amax > 0 && amax <= math.MaxFloat32 {
		scale = min(float32(f.Max())/amax, math.MaxFloat32)
	}
	return scale, 1 / scale
}

// delayedScale is the scale for the next step by the amaxes of the steps so far: history[0] is this
// step's, the rest is older. Then the history moves on: the place of the next step is 0 again.
//
//	amax = max(history), or history[0] ;  scale = max(f)·2⁻ᵐᵃʳᵍⁱⁿ/amax ;  inverse = 1/scale
//
// The scale stays what it was when amax is 0, ∞ or NaN. The history and the scale are state of training.
//
// Source: TransformerEngine, delayed_scaling.cu.
func delayedScale(f lowp.Format, history []float32, was float32, mostRecent bool, margin int) (scale, inverse float32) {
	amax := history[0]
	if !mostRecent {
		for _, a := range history[1:] {
			// Its fmaxf passes over a NaN where there is a number.
			if a > amax || amax != amax {
				amax = a
			}
		}
	}
	// history[0] becomes the last; the place of the next step is cleared.
	last := history[0]
	copy(history, history[1:])
	history[len(history)-1] = last
	history[0] = 0
	scale = was
	if amax > 0 && amax <= math.MaxFloat32 {
		scale = min(float32(math.Ldexp(f.Max(), -margin))/amax, math.MaxFloat32)
	}
	return scale, 1 / scale
}

// quantiseScaled writes the codes of x under one scale: e4m3 forward, e5m2 for gradients.
//
//	code = f(x·scale), to nearest even, saturating
//
// Shapes:  x (n) → codes (n).
// Source:  TransformerEngine, per-tensor scaling.
func quantiseScaled(f lowp.Format, codes []byte, x []float32, scale float32) {
	f.EncodeScaled(codes, x, scale)
}
