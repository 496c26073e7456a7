package run

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/diff"
	"firstbit/parallel"
	"firstbit/trace"
	"firstbit/train"
)

// A random stream, a bias or a weight that changes in memory is found at the next Call that reads it, and if none does in
// the step, at the step's end; the evidence names what wrote it last. A draw that is wrong itself is an origin.
func TestChangedStateIsMemory(t *testing.T) {
	c := train.Tiny()
	c.Steps, c.Batch, c.Micro = 2, 1, 2
	c.Model.Dropout, c.Model.MoE.Jitter, c.Model.Recompute = 0.1, 0.05, true
	run := func(faults ...string) *trace.Trace {
		s := Spec{Config: c, Layout: parallel.Layout{DP: 1}, Kept: Kept{Digest: true}, Faults: faults}
		s.Trace = trace.Options{Dir: filepath.Join(t.TempDir(), "t"), Level: trace.Op, Steps: second, Dump: "layers.0.dropout.mask"}
		_, err := Run(s)
		require.NoError(t, err)
		tr, err := trace.Open(s.Trace.Dir)
		require.NoError(t, err)
		return tr
	}
	healthy := run()
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
		b := run(fault)
		r, err := diff.Compare(healthy, b)
		require.NoError(t, err)
		r.Confirm(healthy.Dir, b.Dir)
		require.False(t, r.Identical, "%s changed nothing", fault)
		require.Equal(t, want[:2], []string{r.First.Path(), r.First.Verdict}, fault)
		require.Contains(t, strings.Join(r.Evidence, "\n"), want[2], fault)
		require.Equal(t, want[1] == "origin", r.Confirmed, fault)
		require.Equal(t, 2, r.First.Iteration, fault)
	}
}
