package inject

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/lowp"
	"firstbit/trace"
)

func TestParse(t *testing.T) {
	f, err := Parse("flip@layers.1.moe.router.logits rank=1 step=3 elem=17 bit=0 phase=bwd micro=2 out=y at=rest")
	require.NoError(t, err)
	require.Equal(t, Selector{Globs: []string{"layers.1.moe.router.logits"}, Steps: trace.Set{{Lo: 3, Hi: 3}}, Rank: 1, Micro: 2, Phase: device.Bwd, Rest: true}, f.Selector)
	require.Equal(t, &flip{out: "y", elem: 17}, f.action)
	require.Nil(t, f.Policy())
	f, err = Parse("order@*.dprob tiles=arrival sched=dynamic step=3-")
	require.NoError(t, err)
	require.Equal(t, "tiles:arrival/fp32; sched=dynamic", f.Policy().Plan.String())
	require.True(t, f.Policy().Steps.Has(99) && !f.Policy().Steps.Has(2))
}

// What is printed reads as the same fault, and says nothing that is so by default.
func TestFaultsPrint(t *testing.T) {
	for text, want := range map[string]string{
		"flip@a.b bit=0 rank=0 micro=0 phase=fwd":    "flip@a.b",
		"flip@a.b at=rest bit=3 micro=1 step=3-5,7":  "flip@a.b step=3-5,7 micro=1 bit=3 at=rest",
		"order@*.dprob tiles=arrival step=3- grid=4": "order@*.dprob step=3- tiles=arrival grid=4",
		"alias@a rank=0 with=b":                      "alias@a with=b rank=0",
		"live@*.mask step=1":                         "live@*.mask step=1",
		"rebuild@quant.* source=bf16":                "rebuild@quant.* source=bf16",
		"drop@rng.*":                                 "drop@rng.*",
		"set@x elem=2 value=-1.50":                   "set@x value=-1.5 elem=2",
		"copy@x from=0 rank=1":                       "copy@x rank=1",
		"seed@x when=after":                          "seed@x",
		"draw@x rank=2 when=before":                  "draw@x when=before rank=2",
	} {
		f, err := Parse(text)
		require.NoError(t, err, text)
		require.Equal(t, want, f.String())
	}
	documented := Kinds()
	require.Len(t, documented, len(kinds))
	for _, k := range documented { // every example parses, and is of its kind
		f, err := Parse(k.Example)
		require.NoError(t, err, k.Example)
		require.Equal(t, k.Name, f.Kind())
		require.NotEmpty(t, f.Noun())
	}
	require.Equal(t, "flip@GLOB [step=SET] [rank=R] [micro=M] [phase=P] [out=NAME] [elem=I] [bit=B] [at=rest]: flips bit B of element I of an output, as the kernel writes it, or with at=rest in memory after the Call", documented[0].Syntax)
	require.Equal(t, "order@GLOB [step=SET] NAME=VALUE …: sets items of the plan: reductions to an ORDER, choices to a value", documented[1].Syntax)
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
	c := dev.In("a").Open("b", &device.Kernel{Name: "one", Out: device.Names("y"), Run: func(c *device.Call) {
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
	for _, k := range Kinds() {
		f.Add(k.Example)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if fault, err := Parse(s); err == nil {
			require.NotEmpty(t, fault.Globs[0])
			again, err := Parse(fault.String())
			require.NoError(t, err)
			require.Equal(t, fault.String(), again.String())
		}
	})
}
