package train

import (
	"firstbit/checkpoint"
	"firstbit/device"
	"firstbit/state"
)

// load takes over the weights of a folder, if the run begins with some, and shows each.
func (t *Trainer) load() error {
	if t.Weights == "" {
		return nil
	}
	if err := checkpoint.LoadDir(t.Weights, t.Model); err != nil {
		return err
	}
	t.dev.At(0, 0, device.Load)
	for _, s := range t.States(state.Role.Decides) {
		c := t.dev.OpenState(device.Loading, s, loadKernel)
		c.Update("value", s.Tensor)
		c.Do()
	}
	return nil
}
