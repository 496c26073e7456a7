package device

import "firstbit/state"

// Held is a piece of the run's state, and the tensor that has it.
type Held struct {
	state.Item
	*Tensor
}

// OpenState is OpenKind for a Call that shows or restores a piece of state under its name.
func (d *Device) OpenState(kind Kind, h Held, k *Kernel) *Call {
	c := d.OpenKind(kind, h.Name, k)
	c.State = &h.Item
	return c
}
