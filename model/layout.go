package model

import (
	"fmt"
	"strings"

	"firstbit/parallel"
)

// CheckLayout says why a layout cannot cut the network, and names the axis; nil: it can.
func (c Config) CheckLayout(l parallel.Layout) (axis string, err error) {
	l = l.Full()
	main, _ := c.Layers()
	has := func(letter string) bool { return strings.Contains(c.Pattern, letter) }
	for _, f := range []struct {
		axis   string
		n      int
		field  string
		extent int
		used   bool
	}{
		{"tp", l.TP, "model.vocab", c.Vocab, true},
		{"tp", l.TP, "model.kv_heads", c.KVHeads, has("*")},
		{"tp", l.TP, "model.hidden", c.Hidden, has("-")},
		{"tp", l.TP, "model.ssm.groups", c.SSM.Groups, has("M")},
		{"tp", l.TP, "model.moe.shared_hidden", c.MoE.SharedHidden, has("E")},
		{"ep", l.EP, "model.moe.experts", c.MoE.Experts, has("E")},
		{"etp", l.ETP, "model.moe.hidden", c.MoE.Hidden, has("E")},
	} {
		if f.used && f.extent%f.n != 0 {
			return f.axis, fmt.Errorf("%s=%d must divide %s (%d)", f.axis, f.n, f.field, f.extent)
		}
	}
	if n := len(c.stages()); n > 1 && l.PP*l.VPP != n && l.PP*l.VPP != 1 {
		axis := "pp"
		if l.VPP > 1 && n%l.PP == 0 {
			axis = "vpp"
		}
		return axis, fmt.Errorf("pp·vpp=%d must be the stages that model.pattern has by its | (%d), or 1", l.PP*l.VPP, n)
	}
	if l.PP*l.VPP > len(main) {
		axis := "pp"
		if l.PP <= len(main) && l.VPP > 1 {
			axis = "vpp"
		}
		return axis, fmt.Errorf("pp·vpp=%d must be at most the layers of model.pattern (%d)", l.PP*l.VPP, len(main))
	}
	return "", nil
}

// Cuts finds an extent of a linear layer of which a layout leaves a rank a part that is no multiple of size, by the axis that cuts it; empty: there
// is none.
func (c Config) Cuts(l parallel.Layout, size int) (axis, field string, part int) {
	l = l.Full()
	for _, f := range []struct {
		axis    string
		n       int
		letters string
		field   string
		extent  int
	}{
		{"tp", l.TP, "*", "attention's queries", c.Heads * c.P()},
		{"tp", l.TP, "*", "attention's keys", c.KVHeads * c.P()},
		{"tp", l.TP, "-", "model.hidden", c.Hidden},
		{"tp", l.TP, "M", "Mamba's in_proj", c.SSM.Projected()},
		{"tp", l.TP, "M", "Mamba's out_proj", c.SSM.Inner()},
		{"tp", l.TP, "E", "model.moe.shared_hidden", c.MoE.SharedHidden},
		{"etp", l.ETP, "E", "model.moe.hidden", c.MoE.Hidden},
	} {
		if f.n > 1 && strings.Contains(c.Pattern, f.letters) && f.extent/f.n%size != 0 {
			return f.axis, f.field, f.extent / f.n
		}
	}
	return "", "", 0
}
