package verify

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/parallel"
	"firstbit/run"
	"firstbit/train"
	"firstbit/tune"
)

// lowBits is a model whose parts on two ranks are whole blocks.
func lowBits(pattern, precision string) train.Config {
	c := globalConfig(pattern, precision)
	c.Steps, c.Batch, c.Seq = 2, 4, 64
	m := &c.Model
	m.Vocab, m.Width, m.Heads, m.KVHeads, m.HeadDim, m.Hidden = 256, 32, 4, 2, 32, 64
	m.SSM.Heads, m.SSM.HeadDim, m.SSM.State, m.SSM.Groups = 32, 2, 8, 2
	m.MoE.Experts, m.MoE.TopK, m.MoE.Hidden, m.MoE.SharedHidden = 4, 2, 64, 64
	return c
}

// Copies in few bits do not depend on the layout either: scales are of sequences or of the global batch, blocks are of tokens.
func TestLowBits(t *testing.T) {
	layouts := map[string][]string{
		"fp8": {"tp=2,ep=4", "dp=2,cp=2,ep=2"}, "fp8 delayed": {"dp=2,tp=2,pp=2,ep=2"}, "mxfp8": {"dp=4,ep=4", "tp=2,cp=2,ep=4"}, "nvfp4": {"tp=2,pp=2,ep=2", "dp=4,ep=2", "cp=4"},
	}
	for name, over := range layouts {
		c := lowBits("M*E-/*E", name)
		switch name {
		case "fp8 delayed":
			c.Precision, c.Quant.Scaling, c.Quant.History = "fp8", "delayed", 2
		case "mxfp8":
			c.Model.MoE.Latent, c.Seq, c.Quant.Rule = 64, 128, "floor"
		case "nvfp4":
			c.Model.Recompute, c.Model.MTP.Depths, c.Model.MTP.Repeated = true, 2, true
		}
		want := trained(t, c, 1)
		if !*exhaustive {
			over = over[:1]
		}
		for _, l := range append(over, "dp=4") {
			require.Empty(t, want.Differ(withMicrobatches(t, c, l)), "%s %s", name, l)
		}
	}
}

// withMicrobatches is over, two microbatches a rank where there are so many sequences.
func withMicrobatches(t *testing.T, c train.Config, layout string) Values {
	t.Helper()
	l := must(parallel.ParseLayout(layout))
	if n := c.Batch / l.DP; n > 1 && l.CP == 1 {
		c.Batch, c.Micro = c.Batch/2, 2
	}
	return over(t, c, layout)
}

// Each rule for copies in few bits is needed: without it two layouts differ. A plan undoes a rule, or a fault has ranks not join what they have.
func TestEveryRuleOfLowBitsIsNeeded(t *testing.T) {
	for _, r := range []struct{ what, precision, layout, pattern, plan, fault string }{
		{"scales are powers of two", "fp8", "tp=2", "-", "*.quant scale=exact", ""},
		{"scales are powers of two", "nvfp4", "tp=2", "-", "*.quant scale=exact", ""},
		{"delayed scales are", "fp8 delayed", "tp=2", "-", "*.scale scale=exact", ""},
		{"of a sequence, not a microbatch", "fp8", "dp=4", "-", "*.x.amax over=tensor", ""},
		{"of a sequence, not a microbatch", "nvfp4", "dp=4", "-", "*.quant.dw scale=exact|*.amax.dw over=tensor", ""},
		{"of experts' rows too", "fp8", "dp=4", "E", "*.experts.*.x.amax over=tensor", ""},
		{"joined over the parts of a sum", "fp8", "tp=2", "-", "", "drop@*.w2.x.amax.max"},
		{"joined over the parts of a sequence", "fp8", "cp=2", "-", "*.quant scale=exact", "drop@layers.*.amax.max"},
		{"joined over the owners of experts", "fp8", "ep=2", "E", "*.experts.*.quant scale=exact", "drop@*.experts.*.amax.max"},
		{"joined along the tokens", "nvfp4", "cp=2", "-", "*.quant.dw scale=exact", "drop@*.amax.max.dw"},
		{"delayed: of the global batch", "fp8 delayed", "dp=2", "-", "", "drop@quant.amax"},
		{"blocks are of tokens", "mxfp8", "dp=4", "E", "*.experts.blocks cut=present", ""},
		{"groups of a Hadamard transform are of tokens", "nvfp4", "dp=4", "E", "*.experts.blocks cut=present", ""},
		{"what is rounded by is the token's", "nvfp4", "dp=4", "-", "*.words by=place", ""},
	} {
		found := false
		for seed := uint64(0); seed < 60 && !found; seed++ { // a sum is rounded to bf16, where most differences vanish
			c := lowBits(r.pattern, r.precision)
			c.Seed = seed
			if r.precision == "fp8 delayed" {
				c.Precision, c.Quant.Scaling, c.Quant.History = "fp8", "delayed", 2
			}
			s := run.Spec{Config: c, Recipe: tune.Canonical, Schedule: device.Schedule{Seed: 1}}
			if r.plan != "" {
				s.Plans = strings.Split(r.plan, "|") // exact scales show every difference of an amax, and no layout without tp sees them
			}
			differs := func(fault string) bool {
				s := s
				one, err := Run(s)
				require.NoError(t, err, r.what)
				s.Layout = must(parallel.ParseLayout(r.layout))
				s.Config.Batch /= s.Layout.DP
				if s.Layout.CP > 1 {
					s.Config.Batch, s.Config.Micro = 1, s.Config.Batch
				}
				if fault != "" {
					s.Faults = []string{fault}
				}
				many, err := Run(s)
				if err != nil { // ranks are left with other copies of one weight
					require.ErrorContains(t, err, "hold other copies", r.what)
				}
				return err != nil || one.Differ(many) != ""
			}
			require.False(t, r.fault != "" && differs(""), "%s: without the fault", r.what)
			found = differs(r.fault)
		}
		require.True(t, found, "%s: %s", r.what, r.precision)
	}
}
