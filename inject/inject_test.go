package inject

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/lowp"
)

func TestParse(t *testing.T) {
	f, err := Parse("flip@layers.1.moe.router.logits rank=1 step=3 elem=17 bit=0 phase=bwd micro=2 out=y at=rest")
	require.NoError(t, err)
	require.Equal(t, "layers.1.moe.router.logits", f.Glob)
	require.Equal(t, []int{1, 2, 17, 0}, []int{f.Rank, f.Micro, f.Elem, f.Bit})
	require.True(t, f.Rest && f.Phase == device.Bwd && f.Out == "y" && f.Steps.Has(3) && !f.Steps.Has(4))
	require.Nil(t, f.Policy())
	f, err = Parse("order@*.dprob tiles=arrival sched=dynamic step=3-")
	require.NoError(t, err)
	require.Equal(t, "tiles:arrival/fp32; sched=dynamic", f.Policy().Plan.String())
	require.True(t, f.Policy().Steps.Has(99) && !f.Policy().Steps.Has(2))
	for _, k := range Kinds { // every documented example parses
		_, err := Parse(k.Example)
		require.NoError(t, err, k.Example)
	}
}

func TestParseRestore(t *testing.T) {
	for _, good := range []string{"drop@rng.*", "drop@rng.* rank=3", "set@x value=-1.5 elem=2 rank=1", "copy@x", "copy@x from=2 rank=0", "seed@x", "draw@x when=before"} {
		f, err := Parse(good)
		require.NoError(t, err, good)
		require.Equal(t, device.Load, f.Phase)
	}
	for bad, want := range map[string]string{
		"drop@x step=3":            `unknown key "step": must be rank`,
		"drop@x rank":              `"rank": must be KEY=VALUE`,
		"set@x":                    "value: must be given",
		"set@x value=one":          `value: "one": must be a number`,
		"set@x value=NaN":          `value: "NaN": must be a number`,
		"set@x value=1 elem=-1":    `elem: "-1": must be a number from 0`,
		"copy@x from=no":           `from: "no": must be a number from 0`,
		"seed@x when=later":        `when: "later": did you mean after? must be one of before, after`,
		"draw@x when=after elem=1": `unknown key "elem": must be one of when, rank`,
		"set@x value=":             "value: empty: must be KEY=VALUE",
		"set@x value=1 value=2":    "value: given twice",
		"lose@x":                   "must be one of flip, order, alias, live, rebuild, drop, set, copy, seed, draw",
	} {
		_, err := Parse(bad)
		require.ErrorContains(t, err, want, bad)
	}
}

// run sends one Call through the injector and returns what is in its output after it.
func run(t *testing.T, fault string, format lowp.Format) (float64, *Fault) {
	t.Helper()
	f, err := Parse(fault)
	require.NoError(t, err)
	i := Injector{Faults: []*Fault{f}}
	dev := device.New(device.Options{}, i.Memory, i.Middleware)
	dev.At(3, 0, device.Fwd)
	c := dev.In("a").Open("b", &device.Kernel{Name: "one", Run: func(c *device.Call) {
		for i := range c.Out[0].Len() {
			c.Out[0].Set(i, 1)
		}
	}})
	y := c.Write("y", format, 4)
	c.Do()
	return y.Value(2), f
}

func TestFlipFlipsOneBit(t *testing.T) {
	for _, c := range []struct {
		fault  string
		format lowp.Format
		want   float64
	}{
		{"flip@a.b elem=2 bit=0", lowp.FP32, float64(math.Nextafter32(1, 2))},
		{"flip@a.b elem=2 bit=0 at=rest", lowp.FP32, float64(math.Nextafter32(1, 2))},
		{"flip@a.b elem=2 bit=0", lowp.BF16, 1.0078125},
		{"flip@a.b elem=2 bit=15", lowp.BF16, -1},
		{"flip@a.b elem=2 bit=63", lowp.FP64, -1},
		{"flip@a.b elem=2 bit=1", lowp.INT32, 3},
		{"flip@*.b elem=2 bit=0 step=3", lowp.INT32, 0},
	} {
		got, f := run(t, c.fault, c.format)
		require.Equal(t, c.want, got, c.fault)
		require.Equal(t, 1, changes(f))
	}
	for _, fault := range []string{"flip@a.c elem=2", "flip@a.b elem=2 step=4", "flip@a.b elem=2 rank=1", "flip@a.b elem=2 phase=bwd", "flip@a.b elem=2 micro=1"} {
		got, f := run(t, fault, lowp.FP32)
		require.Equal(t, 1.0, got, fault)
		require.Zero(t, changes(f), "a fault that changed nothing was not injected")
	}
	for fault, want := range map[string]string{"flip@a.b elem=4": "4 elements", "flip@a.b bit=33": "bit=33: must be from 0 to 31", "flip@a.b out=z": `no output "z": must be y`,
		"flip@a.b bit=33 step=4": "bit=33: must be from 0 to 31"} { // which is known before step 4
		_, f := run(t, fault, lowp.FP32)
		require.ErrorContains(t, f.Err(), want)
	}
}

func changes(f *Fault) int {
	_, changed := f.Counts()
	return changed
}

func FuzzParse(f *testing.F) {
	for _, k := range Kinds {
		f.Add(k.Example)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if fault, err := Parse(s); err == nil {
			require.NotEmpty(t, fault.Glob)
			require.GreaterOrEqual(t, fault.Bit, 0)
		}
	})
}
