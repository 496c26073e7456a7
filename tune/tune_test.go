package tune

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/lowp"
	"firstbit/reduce"
	"firstbit/trace"
)

var kernel = &device.Kernel{Name: "k", Out: device.Names("y"), Fixed: reduce.MustPlan("n:seq/fp32; tie=low|native"), Fast: reduce.MustPlan("n:arrival/fp32; tie=low|native"),
	Subkernels: []device.Subkernel{{Name: "k.part", Outs: []string{"y"}}}}

func planOf(t *testing.T, tuner *Tuner, step int) string {
	t.Helper()
	dev := device.New(device.Options{}, tuner.Middleware)
	dev.At(step, 0, device.Fwd)
	c := dev.In("scope").Open("name", kernel)
	c.Write("y", lowp.FP32, 1)
	c.Body = nil
	c.Do()
	return c.Plan.String()
}

func policy(t *testing.T, s string, steps trace.Set) *Policy {
	t.Helper()
	p, err := ParsePolicy(s)
	require.NoError(t, err)
	p.Steps = steps
	return p
}

func TestRecipesAndPolicies(t *testing.T) {
	require.Equal(t, "n:seq/fp32; tie=low", planOf(t, &Tuner{Recipe: "fixed"}, 1))
	require.Equal(t, "n:arrival/fp32; tie=low", planOf(t, &Tuner{Recipe: "fast"}, 1))
	require.Equal(t, "n:seq/fp32; tie=low", planOf(t, &Tuner{Recipe: Fused}, 1), "adds no products")
	reverse := policy(t, "*.part n:reverse", nil)
	require.Equal(t, "n:reverse/fp32; tie=low", planOf(t, &Tuner{Recipe: "fast", Policies: []*Policy{reverse}}, 1), "a part's name names its Call")
	require.Equal(t, []int{1, 1}, []int{reverse.Calls, reverse.Hits})
	later := policy(t, "scope.name tie=native", trace.Set{{Lo: 2, Hi: 9}})
	require.Equal(t, "n:seq/fp32; tie=low", planOf(t, &Tuner{Recipe: "fixed", Policies: []*Policy{later}}, 1))
	require.Equal(t, "n:seq/fp32; tie=native", planOf(t, &Tuner{Recipe: "fixed", Policies: []*Policy{later}}, 2))
	same := policy(t, "* tie=low", nil)
	planOf(t, &Tuner{Recipe: "fixed", Policies: []*Policy{same}}, 1)
	require.Equal(t, []int{1, 0}, []int{same.Calls, same.Hits}, "named, but nothing changed")
}

// A plan may follow the number of rows that a Call reads. A Call of another shape is named all the same.
func TestPoliciesByShape(t *testing.T) {
	p := policy(t, "* rows=4-6,9- n:reverse", nil)
	tuner := &Tuner{Recipe: "fixed", Policies: []*Policy{p}}
	dev := device.New(device.Options{}, tuner.Middleware)
	dev.At(1, 0, device.Fwd)
	reads := &device.Kernel{Name: "k", In: device.Names("x"), Out: device.Names("y"), Fixed: reduce.MustPlan("n:seq/fp32")}
	for rows, want := range map[int]string{3: "n:seq/fp32", 4: "n:reverse/fp32", 7: "n:seq/fp32", 9: "n:reverse/fp32"} {
		c := dev.In("scope").Open(fmt.Sprint("x", rows), reads)
		c.Read("x", device.NewTensor(lowp.FP32, rows, 2))
		c.Write("y", lowp.FP32, 1)
		c.Body = nil
		c.Do()
		require.Equal(t, want, c.Plan.String(), rows)
	}
	require.Equal(t, []int{4, 2}, []int{p.Calls, p.Hits})
	_, err := ParsePolicy("* rows=x n:reverse")
	require.ErrorContains(t, err, "rows")
}

// A weight and the product it is in have one name; a policy for the name is the product's.
func TestInitialDrawsHaveNothingToChoose(t *testing.T) {
	tuner := &Tuner{Recipe: "fixed", Policies: []*Policy{policy(t, "wq n:reverse", nil)}}
	dev := device.New(device.Options{}, tuner.Middleware)
	for phase, k := range map[device.Phase]*device.Kernel{device.Init: {Name: "normal", Out: device.Names("y")}, device.Fwd: kernel} {
		dev.At(1, 0, phase)
		c := dev.Open("wq", k)
		c.Write("y", lowp.FP32, 1)
		c.Body = nil
		c.Do()
	}
	require.NoError(t, tuner.Err())
	require.Equal(t, 1, tuner.Policies[0].Hits)
	dev.At(2, 0, device.Bwd) // negative control
	c := dev.Open("wq", &device.Kernel{Name: "no choice"})
	c.Do()
	require.ErrorContains(t, tuner.Err(), "nothing to choose")
}

// Under the GLOB * a plan goes over those of its items that a Call has, and names no Call that has none.
func TestPlansForWhateverHasTheirItems(t *testing.T) {
	tuner := &Tuner{Recipe: "fixed", Policies: []*Policy{policy(t, "* k:reverse; n:pairwise", nil), policy(t, "* k:reverse", nil)}}
	require.Equal(t, "n:pairwise/fp32; tie=low", planOf(t, tuner, 1))
	require.NoError(t, tuner.Err())
	require.Equal(t, []int{1, 0}, []int{tuner.Policies[0].Calls, tuner.Policies[1].Calls})
}

func TestMisfitsAreErrors(t *testing.T) {
	tuner := &Tuner{Recipe: "fixed", Policies: []*Policy{policy(t, "*.name k:seq", nil)}}
	planOf(t, tuner, 1)
	require.ErrorContains(t, tuner.Err(), `plan for scope.name (k): plan has no reduction "k": this kernel's plan is n:seq/fp32; tie=low`)
	for _, bad := range []string{"", "*", "* ", "* n:sideways"} {
		_, err := ParsePolicy(bad)
		require.Error(t, err, bad)
	}
	require.ErrorContains(t, ParseRecipe("loose"), "fixed, fused, fast, canonical")
}

// The canonical recipe cuts the sum over tokens by sequence, in the kernel's own format, and sets what the kernel says; of other
// kernels it leaves the fixed plan.
func TestCanonical(t *testing.T) {
	plan := func(k *device.Kernel, seq int) string {
		tuner := &Tuner{Recipe: Canonical, Seq: seq}
		tuner.Middleware(func(*device.Call) {})
		require.Equal(t, tuner.canonical(k, 1), tuner.canonical(k, 1))
		return tuner.canonical(k, 1).String()
	}
	require.Equal(t, "n:seq/fp32; tie=low", plan(kernel, 32))
	k := &device.Kernel{Name: "k", Fixed: reduce.MustPlan("p:seq/fp32; rows:seq/bf16/fma; cut=present|all"), Fast: reduce.MustPlan("p:arrival/fp32; rows:seq/fp32; cut=present|all"),
		Tokens: "rows", Canonical: reduce.MustPlan("cut=all")}
	require.Equal(t, "p:seq/fp32; rows:blocked(4)/bf16/fma; cut=all", plan(k, 32))
	require.Equal(t, "p:seq/fp32; rows:blocked(1)/bf16/fma; cut=all", plan(k, 8))
	require.Equal(t, "", plan(&device.Kernel{Name: "none"}, 8))
	for _, bad := range []*device.Kernel{
		{Name: "k", Fixed: k.Fixed, Canonical: reduce.MustPlan("by=head")}, {Name: "k", Fixed: k.Fixed, Canonical: reduce.MustPlan("tokens:seq")},
	} {
		require.Panics(t, func() { plan(bad, 8) })
	}
}

// What does not fit is known at the first step, whichever the policy's is.
func TestMisfitsAreKnownAtOnce(t *testing.T) {
	tuner := &Tuner{Recipe: "fixed", Policies: []*Policy{policy(t, "*.name k:seq", trace.Set{{Lo: 9, Hi: 9}})}}
	planOf(t, tuner, 1)
	require.ErrorContains(t, tuner.Err(), `plan has no reduction "k"`)
	require.Zero(t, tuner.Policies[0].Calls)
}

// A plan by hand that stays the same is made once a Call.
func TestAWarmPolicyAllocatesNothing(t *testing.T) {
	p, err := ParsePolicy("y sum:pairwise")
	require.NoError(t, err)
	k := &device.Kernel{Name: "k", Fixed: reduce.MustPlan("sum:seq/fp32"), Run: func(*device.Call) {}}
	tuner := &Tuner{Recipe: "fixed", Policies: []*Policy{p}}
	dev, step := device.New(device.Options{}, tuner.Middleware), 0
	run := func() {
		step++
		dev.At(step, 0, device.Fwd)
		dev.Open("y", k).Do()
	}
	run()
	require.Equal(t, "sum:pairwise/fp32", dev.Ran(device.Fwd, "y").Plan.String())
	require.Zero(t, testing.AllocsPerRun(50, run))
	require.NotZero(t, testing.AllocsPerRun(50, func() {
		tuner.named[dev.Ran(device.Fwd, "y")].made[0] = made{}
		run()
	}), "negative control")
}

// A plan by hand goes over what others left of the Call's plan, at each step anew.
func TestAPolicyGoesOverThePlanAtHand(t *testing.T) {
	var policies []*Policy
	for _, text := range []string{"y with:reverse step=2", "y sum:pairwise"} {
		p, err := ParsePolicy(text)
		require.NoError(t, err)
		policies = append(policies, p)
	}
	k := &device.Kernel{Name: "k", Fixed: reduce.MustPlan("sum:seq/fp32; with:seq/fp32"), Run: func(*device.Call) {}}
	dev := device.New(device.Options{}, (&Tuner{Recipe: "fixed", Policies: policies}).Middleware)
	for step, want := range []string{"sum:pairwise/fp32; with:seq/fp32", "sum:pairwise/fp32; with:reverse/fp32", "sum:pairwise/fp32; with:seq/fp32"} {
		dev.At(step+1, 0, device.Fwd)
		dev.Open("y", k).Do()
		require.Equal(t, want, dev.Ran(device.Fwd, "y").Plan.String(), "step %d", step+1)
	}
}
