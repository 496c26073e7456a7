package corrupt

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/rng"
	"firstbit/train"
)

// What the same place does not repeat is transient; what another place does not repeat is persistent; an error ends the question.
func TestAttribution(t *testing.T) {
	gives := func(s string) func() (string, error) { return func() (string, error) { return s, nil } }
	never := func() (string, error) { return "", errors.New("was run") }
	for _, c := range []struct {
		inPlace, elsewhere func() (string, error)
		want               Verdict
	}{{gives("b"), never, Transient}, {gives("a"), gives("b"), Persistent}, {gives("a"), gives("a"), Correct}} {
		got, err := attribute("a", c.inPlace, c.elsewhere)
		require.NoError(t, err)
		require.Equal(t, c.want, got)
	}
	_, err := attribute("a", gives("a"), never)
	require.Error(t, err)
}

func TestSuspiciousLosses(t *testing.T) {
	steps := func(losses ...float64) (all []train.Result) {
		for _, l := range losses {
			all = append(all, train.Result{Metrics: []train.Metric{{Name: "grad_norm", Value: 1e9}, {Name: "loss", Value: l}}})
		}
		return all
	}
	for _, c := range []struct {
		losses []float64
		want   bool
	}{{[]float64{5}, false}, {[]float64{5, 50}, false}, {[]float64{5, 51}, true}, {[]float64{7, 5, 51}, false}, {[]float64{math.NaN()}, true}, {[]float64{5, math.Inf(1)}, true}} {
		require.Equal(t, c.want, suspicious(steps(c.losses...), len(c.losses)-1), "%v", c.losses)
	}
}

// Faults have the shares that they are said to have, and act on Calls of the run.
func TestDraw(t *testing.T) {
	w, _, err := runTraced(world("dp=2", "bf16"), nil)
	require.NoError(t, err)
	const n = 4000
	d, set, single, strided, lasts := rng.New(1, "test"), 0, 0, 0, 0
	for range n {
		f := draw(d, w.trace)
		require.GreaterOrEqual(t, f.Step, firstFault)
		if f.Lasting {
			lasts++
		}
		if strings.Contains(f.how, "stride=32") {
			strided++
		}
		if f.kind == "set" {
			set++
			continue
		}
		_, mask, _ := strings.Cut(f.how, "mask=")
		mask, _, _ = strings.Cut(mask, " ")
		m, err := strconv.ParseUint(mask, 16, 64)
		require.NoError(t, err)
		if bits.OnesCount64(m) == 1 {
			single++
		}
	}
	share := func(k int) float64 { return float64(k) / n }
	require.InDelta(t, nonFinite, share(set), 0.006)
	require.InDelta(t, singleBit+0.02, share(single), 0.03, "a mask of several bits may have drawn one twice")
	require.InDelta(t, alongWarp, share(strided), 0.03)
	require.InDelta(t, lasting, share(lasts), 0.03)
}

// Bisection names the Call in which two places first part, in as many replays as halving the Calls of a rank takes, and none where they do not.
func TestBisect(t *testing.T) {
	healthy := world("dp=2,tp=2", "fp32")
	for _, site := range []Site{{3, "bwd", "layers.0.ssm.in_proj.dw"}, {2, "opt", "grads.bucket.1"}} {
		f := Fault{Lasting: true, Step: 2, Site: site, kind: "flip", how: "bit=20"}
		broken := healthy
		broken.Faults = f.during(2)
		b, err := bisect(broken, healthy, 2)
		require.NoError(t, err)
		require.True(t, b.ok)
		require.Equal(t, site, b.site)
		require.LessOrEqual(t, b.replays, 10, "of some 200 Calls")
		require.Less(t, b.part, float64(b.replays))
	}
	b, err := bisect(healthy, healthy, 2)
	require.NoError(t, err)
	require.False(t, b.ok)
	require.Equal(t, 1, b.replays)
}

// A fault acts in the steps that it has, up to any of them.
func TestDuring(t *testing.T) {
	f := Fault{Step: 3, Site: Site{1, "bwd", "x"}, kind: "flip", how: "bit=1"}
	require.Empty(t, f.during(2))
	require.Equal(t, []string{"flip@x phase=bwd rank=1 step=3 bit=1"}, f.during(4))
	f.Lasting = true
	require.Equal(t, []string{"flip@x phase=bwd rank=1 step=3-4 bit=1"}, f.during(4))
}

// The result follows from the seed, on any number of processors; a second run, which sees every bit, misses nothing here.
func TestRun(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	of := func() *Result {
		r, err := Run(context.Background(), Options{Seed: 1, N: 2})
		require.NoError(t, err)
		return r
	}
	one := of()
	runtime.GOMAXPROCS(2)
	require.Equal(t, one, of())
	require.Equal(t, 2, one.Transient+one.Lasting)
	for _, f := range one.Finders {
		require.LessOrEqual(t, f.Call, f.Rank)
		require.LessOrEqual(t, f.Rank, f.Named)
		missed := 0
		for _, n := range f.Missed {
			missed += n
		}
		require.Equal(t, 2, missed+f.Transient+f.Lasting, f.Name)
		if f.Name == secondRun {
			require.Equal(t, 2, f.Call)
		}
	}
	stopped, stop := context.WithCancelCause(context.Background())
	stop(fmt.Errorf("enough"))
	_, err := Run(stopped, Options{Seed: 1, N: 5})
	require.EqualError(t, err, "enough")
}
