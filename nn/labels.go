package nn

import "firstbit/device"

// Labels is a number of labels that losses or gradients are divided by: at least 1, so that a step without any divides by no zero.
//
// Source: Megatron's finalize_model_grads clamps it so.
func Labels(n *device.Tensor) float64 { return float64(max(n.I32()[0], 1)) }
