package optim

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
)

func TestRate(t *testing.T) {
	with := func(decay string, warmup int) Config {
		c := base
		c.LR, c.MinLR, c.Decay, c.Warmup = 1, 0.2, decay, warmup
		return c
	}
	wsd := func(decay string) Config {
		c := with("wsd", 4)
		c.WSDSteps, c.WSDDecay = 8, decay
		return c
	}
	for _, c := range []struct {
		name        string
		c           Config
		step, steps int
		want        float64
	}{
		{"warmup is linear from the first step", with("cosine", 4), 1, 20, 0.25},
		{"warmup", with("cosine", 4), 3, 20, 0.75},
		{"its end is the peak", with("cosine", 4), 4, 20, 1},
		{"cosine at a quarter", with("cosine", 4), 8, 20, 0.2 + 0.8*0.5*(1+math.Sqrt2/2)},
		{"cosine at half", with("cosine", 4), 12, 20, 0.6},
		{"cosine at the end", with("cosine", 4), 20, 20, 0.2},
		{"past the end", with("cosine", 4), 25, 20, 0.2},
		{"linear at a quarter", with("linear", 4), 8, 20, 0.8},
		{"linear at the end", with("linear", 4), 20, 20, 0.2},
		{"linear past the end", with("linear", 4), 30, 20, 0.2},
		{"constant", with("constant", 4), 17, 20, 1},
		{"wsd in the warmup", wsd("linear"), 2, 20, 0.5},
		{"wsd, stable", wsd("linear"), 12, 20, 1},
		{"wsd, linear at a quarter", wsd("linear"), 14, 20, 0.8},
		{"wsd, cosine at a quarter", wsd("cosine"), 14, 20, 0.2 + 0.8*0.5*(1+math.Sqrt2/2)},
		{"wsd, exponential at half", wsd("exponential"), 16, 20, 0.2 + 0.8*(math.Sqrt2-1)},
		{"wsd, minus_sqrt at a quarter", wsd("minus_sqrt"), 14, 20, 0.6},
		{"wsd, linear at the end", wsd("linear"), 20, 20, 0.2},
		{"wsd, exponential at the end", wsd("exponential"), 20, 20, 0.2},
		{"wsd, minus_sqrt past the end", wsd("minus_sqrt"), 23, 20, 0.2},
		{"wsd that decays from before its warmup ends", wsd("linear"), 5, 8, 0.5},
		{"no warmup", with("constant", 0), 1, 20, 1},
		{"no warmup, linear", with("linear", 0), 10, 20, 0.6},
		{"a run that is all warmup", with("cosine", 4), 4, 4, 1},
		{"a run shorter than its warmup", with("cosine", 4), 2, 2, 0.5},
		{"resumed past a short run", with("cosine", 4), 9, 3, 1},
	} {
		require.InDelta(t, c.want, c.c.Rate(int64(c.step), c.steps), 1e-15, c.name)
	}
}

// The rate rises through the warmup, then falls, and stays within its bounds.
func TestRateIsMonotone(t *testing.T) {
	for _, decay := range []string{"linear", "cosine"} {
		c := base
		c.Decay, c.Warmup = decay, 10
		last := 0.0
		for step := 1; step <= 100; step++ {
			r := c.Rate(int64(step), 100)
			if step <= 10 {
				require.Greater(t, r, last)
			} else {
				require.Less(t, r, last)
				require.GreaterOrEqual(t, r, c.MinLR-1e-15)
			}
			last = r
		}
	}
}

// The rate follows the position, which steps that are taken move, and nothing else.
func TestPosition(t *testing.T) {
	c := base
	c.Decay = "linear"
	s, dev := NewSchedule(c, 20), device.New(device.Options{})
	for step := int64(1); step <= 20; step++ {
		require.Equal(t, c.Rate(step, 20), s.Rate())
		require.Equal(t, s.Rate(), s.Rate(), "asking moves nothing")
		dev.At(int(step), 0, device.Opt)
		s.Advance(dev)
	}
	require.Equal(t, int64(20), s.Position.Number())
	s.Position.SetNumber(1<<32 + 7)
	dev.At(21, 0, device.Opt)
	s.Advance(dev)
	require.Equal(t, int64(1<<32+8), s.Position.Number())
	require.Equal(t, c.MinLR, s.Rate())
}

// Each refusal names its field, the value and what is allowed.
func TestValidate(t *testing.T) {
	require.NoError(t, base.Validate())
	nan, inf := math.NaN(), math.Inf(1)
	for want, values := range map[string][]func(*Config){
		"optim.lr":        {func(c *Config) { c.LR = 0 }, func(c *Config) { c.LR = -1 }, func(c *Config) { c.LR = nan }, func(c *Config) { c.LR = inf }},
		"optim.min_lr":    {func(c *Config) { c.MinLR = -1 }, func(c *Config) { c.MinLR = 1 }, func(c *Config) { c.MinLR = nan }},
		"optim.warmup":    {func(c *Config) { c.Warmup = -1 }},
		"optim.decay":     {func(c *Config) { c.Decay = "exp" }, func(c *Config) { c.Decay = "" }},
		"optim.wsd_steps": {func(c *Config) { c.Decay = "wsd" }, func(c *Config) { c.WSDSteps = 3 }},
		"optim.wsd_decay": {func(c *Config) { c.WSDDecay = "sqrt" }},
		"optim.beta1":     {func(c *Config) { c.Beta1 = 1 }, func(c *Config) { c.Beta1 = -0.1 }, func(c *Config) { c.Beta1 = nan }},
		"optim.beta2":     {func(c *Config) { c.Beta2 = 1 }, func(c *Config) { c.Beta2 = nan }},
		"optim.eps":       {func(c *Config) { c.Eps = 0 }, func(c *Config) { c.Eps = nan }},
		"optim.weight":    {func(c *Config) { c.Weight = -1 }, func(c *Config) { c.Weight = nan }},
		"optim.loss_scale.initial": {func(c *Config) { c.LossScale.Initial = 0 }, func(c *Config) { c.LossScale.Initial = -2 }, func(c *Config) { c.LossScale.Initial = 1000 },
			func(c *Config) { c.LossScale.Initial = 0x1p127 }, func(c *Config) { c.LossScale.Initial = 0x1p-127 }, func(c *Config) { c.LossScale.Initial = nan }, func(c *Config) { c.LossScale.Initial = inf }},
		"optim.loss_scale.min":             {func(c *Config) { c.LossScale.Min = 1 << 17 }, func(c *Config) { c.LossScale.Min = 3 }},
		"optim.loss_scale.growth_interval": {func(c *Config) { c.LossScale.GrowthInterval = 0 }, func(c *Config) { c.LossScale.GrowthInterval = 1 << 31 }},
		"optim.loss_scale.hysteresis":      {func(c *Config) { c.LossScale.Hysteresis = 0 }},
		"optim.clip":                       {func(c *Config) { c.Clip = -1 }, func(c *Config) { c.Clip = nan }},
	} {
		for _, change := range values {
			c := base
			change(&c)
			require.ErrorContains(t, c.Validate(), want+":")
			require.NotContains(t, c.Validate().Error(), "\n")
		}
	}
}
