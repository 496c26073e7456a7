package experiments

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/diff"
	"firstbit/trace"
	"firstbit/train"
)

// localized is what the localiser makes of a run and the same run with a fault.
func localized(t *testing.T, c train.Config, fault string) *diff.Report {
	t.Helper()
	dir := t.TempDir()
	run := func(side int, w diff.Window) (*trace.Trace, error) {
		s := Spec{Config: c, Digest: true, Until: w.Step}
		if side == 1 {
			s.Faults = []string{fault}
		}
		s.Trace = trace.Options{Dir: filepath.Join(dir, w.Level.String()+string(rune('a'+side))), Level: w.Level, Dump: w.Dump}
		if w.Step > 0 {
			s.Trace.Steps = trace.Set{{Lo: w.Step, Hi: w.Step}}
		}
		if _, err := Run(s); err != nil {
			return nil, err
		}
		return trace.Open(s.Trace.Dir)
	}
	r, err := diff.Localize(run, nil)
	require.NoError(t, err)
	require.False(t, r.Identical, "%s changed nothing", fault)
	return r
}

// A random stream, a bias or a weight that changes in memory is found at the next Call that reads it, and if none does in
// the step, at the step's end; the evidence names what wrote it last. A draw that is wrong itself is an origin.
func TestChangedStateIsMemory(t *testing.T) {
	c := train.Tiny()
	c.Steps, c.Batch, c.Micro = 3, 2, 2
	c.Model.Dropout, c.Model.MoE.Jitter, c.Model.Recompute = 0.1, 0.05, true
	for fault, want := range map[string][3]string{ // where, verdict, what the evidence names
		"flip@layers.0.dropout.mask out=stream at=rest step=2 bit=3":                   {"layers.1.dropout.mask", "memory", `"fwd layers.0.dropout.mask#stream"`},
		"flip@mtp.0.layers.1.dropout.mask out=stream at=rest step=2 bit=3":             {"mtp.0.layers.1.dropout.mask", "memory", `"fwd mtp.0.layers.1.dropout.mask#stream"`},
		"flip@layers.2.moe.router.jitter.mask out=stream at=rest step=2 bit=3":         {"layers.4.moe.router.jitter.mask", "memory", `"fwd layers.2.moe.router.jitter.mask#stream"`},
		"flip@layers.0.dropout.mask out=before at=rest step=2 bit=3":                   {"layers.0.dropout.mask", "memory", `"fwd layers.0.dropout.mask#before"`},
		"flip@layers.0.dropout.mask out=stream at=rest step=2 micro=1 phase=rec bit=3": {"state", "memory", `input rng.dropout.tp differs, but its producer "rec layers.0.dropout.mask#stream"`},
		"flip@layers.2.moe.router.bias at=rest step=2 phase=opt":                       {"state", "memory", `"opt layers.2.moe.router.bias#bias"`},
		"flip@layers.0.dropout.mask out=stream step=2 bit=3":                           {"layers.0.dropout.mask", "origin", "confirmed by the dumped bytes"},
		"flip@layers.0.dropout.mask out=mask step=2 phase=rec":                         {"layers.0.dropout.mask", "origin", "confirmed by the dumped bytes"},
	} {
		r := localized(t, c, fault)
		require.Equal(t, want[:2], []string{r.First.Path(), r.First.Verdict}, fault)
		require.Contains(t, strings.Join(r.Evidence, "\n"), want[2], fault)
		require.Equal(t, want[1] == "origin", r.Confirmed, fault)
		require.Equal(t, 2, r.First.Iteration, fault)
	}
}
