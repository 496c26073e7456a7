package inject

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/lowp"
	"firstbit/trace"
	"firstbit/tune"
)

func TestParse(t *testing.T) {
	f, err := Parse("flip@layers.1.moe.router.logits rank=1 step=3 elem=17 bit=0 phase=bwd micro=2 out=y at=rest")
	require.NoError(t, err)
	where := tune.Everywhere(device.Bwd)
	where.Steps, where.Rank, where.Micro, where.First = trace.Set{{Lo: 3, Hi: 3}}, 1, 2, true
	require.Equal(t, Selector{Globs: []string{"layers.1.moe.router.logits"}, Where: where, Rest: true}, f.Selector)
	require.Equal(t, &flip{output: output{"y"}, elements: elements{first: 17, stride: 1, row: tune.Every}, stuck: tune.Every}, f.action)
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
		"flip@a.b tp=1 rank=0":                       "flip@a.b rank=0 tp=1",
		"flip@a.b at=rest bit=3 micro=1 step=3-5,7":  "flip@a.b step=3-5,7 micro=1 bit=3 at=rest",
		"flip@a.b stuck=1 mask=0F row=2 count=1":     "flip@a.b count=1 row=2 mask=f stuck=1",
		"order@*.dprob tiles=arrival step=3- grid=4": "order@*.dprob step=3- tiles=arrival grid=4",
		"order@* micro=arrival/bf16 micro=1":         "order@* micro=1 micro=arrival/bf16",
		"alias@a rank=0 with=b":                      "alias@a rank=0 with=b",
		"live@*.mask step=1":                         "live@*.mask step=1",
		"rebuild@quant.* source=bf16":                "rebuild@quant.* source=bf16",
		"drop@rng.* ep=1 cp=0 pp=2 dp=3 tp=4":        "drop@rng.* tp=4 dp=3 pp=2 cp=0 ep=1",
		"unwritten@x rows=3-,1 out=y":                "unwritten@x rows=3-,1 out=y",
		"repeat@x n=1 phase=opt":                     "repeat@x phase=opt",
		"early@x in=a":                               "early@x in=a",
		"late@x micro=0":                             "late@x micro=0",
		"set@x elem=2 value=-1.50":                   "set@x value=-1.5 elem=2",
		"set@x value=nan row=0":                      "set@x value=NaN row=0",
		"set@x value=-inf phase=load":                "set@x phase=load value=-Inf",
		"copy@x from=0 rank=1":                       "copy@x rank=1 from-rank=0",
		"copy@x from-step=3 from-rank=2":             "copy@x from-rank=2 from-step=3",
		"seed@x when=after":                          "seed@x",
		"draw@x rank=2 when=before":                  "draw@x rank=2 when=before",
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
	require.Equal(t, "repeat@GLOB [n=N]: a Call runs N more times", strings.Split(documented[5].Syntax, ": what")[0])
	require.Equal(t, "order@GLOB NAME=VALUE …: sets items of the plan: reductions to an ORDER, choices to a value; in restores too", documented[2].Syntax)
	require.True(t, strings.HasPrefix(Where(), "KIND@GLOB [step=SET] [micro=M] [phase=P] [rank=R] [tp=I] [dp=I] [pp=I] [cp=I] [ep=I] …: "), Where())
}

// Where a run continues, some kinds act on the restore, unless it is said when they act.
func TestFaultsOfRestores(t *testing.T) {
	for text, phase := range map[string]device.Phase{
		"drop@rng.*": device.Load, "set@x value=-1.5 elem=2 rank=1": device.Load, "copy@x": device.Load, "seed@x": device.Load, "draw@x when=before": device.Load,
		"drop@x tp=1": device.Load, "drop@x step=3": tune.StepPhases, "set@x value=1 micro=0": tune.StepPhases, "drop@x phase=bwd": device.Bwd, "drop@x phase=load step=3": device.Load,
		"seed@x step=3": device.Fwd, "draw@x micro=1": device.Fwd, "draw@x phase=bwd": device.Bwd, "flip@x": device.Fwd, "repeat@x": tune.StepPhases, "alias@a with=b": tune.EveryPhase,
	} {
		f, err := Parse(text)
		require.NoError(t, err, text)
		f.Settle(true)
		require.Equal(t, phase, f.Phase, text)
		again, err := Parse(text)
		require.NoError(t, err)
		again.Settle(false)
		if phase == device.Load && !strings.Contains(text, "phase=") {
			require.NotEqual(t, phase, again.Phase, "of a run that begins there is no restore")
		} else {
			require.Equal(t, phase, again.Phase)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for bad, want := range map[string]string{
		"drop@x when=1":             `unknown key "when": must be one of step, micro, phase, rank, tp, dp, pp, cp, ep`,
		"drop@x rank":               `"rank": must be KEY=VALUE`,
		"drop@x tp=-1":              `tp: "-1": must be a number from 0`,
		"drop@x tp=1 tp=2":          "tp: given twice",
		"set@x":                     "value: must be given",
		"set@x value=one":           `value: "one": must be a number, nan, inf or -inf`,
		"set@x value=1 elem=-1":     `elem: "-1": must be a number from 0`,
		"set@x value=1 count=0":     `count: "0": must be a number from 1`,
		"flip@x mask=0":             `mask: "0": must be bits in hexadecimal`,
		"flip@x mask=xy":            `mask: "xy": must be bits`,
		"flip@x mask=3 bit=1":       "name mask or bit",
		"flip@x stuck=2":            `stuck: "2": must be a number from 0 to 1`,
		"unwritten@x":               "rows: must be given",
		"unwritten@x rows=5-3":      `rows: "5-3": must be a list`,
		"repeat@x n=0":              `n: "0": must be a number from 1`,
		"copy@x from=no":            `from: "no": must be a number from 0`,
		"copy@x from=1 from-rank=1": "from-rank: given twice",
		"seed@x when=later":         `when: "later": did you mean after? must be one of before, after`,
		"order@x micro=1":           "names nothing to set",
		"order@x micro=x k=seq":     `micro: "x": must be a number from 0`,
		"set@x value=":              "value: empty: must be KEY=VALUE",
		"set@x value=1 value=2":     "value: given twice",
		"lose@x":                    "must be one of flip, set, order, drop, unwritten, repeat, early, late, alias, copy, seed, draw, live, rebuild",
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
	i := &Injector{Faults: []*Fault{f}}
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
		{"flip@a.b elem=2 mask=81", lowp.INT32, 128},
		{"flip@a.b elem=2 mask=c0000000", lowp.FP32, -float64(math.Float32frombits(0x7f800000))},
		{"flip@a.b elem=2 mask=8080", lowp.BF16, -0.5},
		{"flip@a.b elem=2 bit=0 stuck=0", lowp.INT32, 0},
		{"flip@a.b elem=2 mask=6 stuck=1", lowp.INT32, 7},
		{"flip@a.b bit=1 count=2 stride=2", lowp.INT32, 3},
		{"flip@a.b bit=1 count=4", lowp.INT32, 3},
		{"flip@a.b bit=1 row=2", lowp.INT32, 3},
		{"flip@a.b elem=2 bit=63 stuck=1 tp=0 pp=0", lowp.FP64, -1},
	} {
		got, f := run(t, c.fault, c.format)
		require.Equal(t, c.want, got, c.fault)
		require.Equal(t, 1, changes(f))
	}
	for _, fault := range []string{"flip@a.c elem=2", "flip@a.b elem=2 step=4", "flip@a.b elem=2 rank=1", "flip@a.b elem=2 phase=bwd", "flip@a.b elem=2 micro=1", "flip@a.b elem=2 tp=1"} {
		got, f := run(t, fault, lowp.FP32)
		require.Equal(t, 1.0, got, fault)
		require.Zero(t, changes(f), "a fault that changed nothing was not injected")
	}
	for fault, want := range map[string]string{"flip@a.b elem=4": "4 elements", "flip@a.b bit=33": "bit=33: must be from 0 to 31", "flip@a.b out=z": `no output "z": must be y`,
		"flip@a.b bit=33 step=4": "bit=33: must be from 0 to 31", "flip@a.b mask=1ffffffff": "mask=1ffffffff: must be of bits from 0 to 31",
		"flip@a.b row=4": "row=4: the output has 4 rows", "flip@a.b row=1 elem=1": "elem=1: the row has 1 elements", "flip@a.b elem=1 count=3 stride=2": "elem=1 count=3 stride=2: the last is 5"} { // which is known before step 4
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
		f.Add(k.Example + " step=1,3- micro=1 phase=opt rank=2 tp=0 dp=1 pp=0 cp=0 ep=1")
	}
	for _, more := range []string{"flip@x mask=f0 stuck=0 row=1 elem=2 count=3 stride=4 out=y at=rest", "set@x value=-inf row=3", "unwritten@x rows=1-2,5- out=y", "copy@x from=1 from-step=2 out=z",
		"order@x micro=arrival micro=1", "early@x in=a", "draw@x when=before"} {
		f.Add(more)
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
