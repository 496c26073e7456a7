package run

import (
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/trace"
)

// A tracer that errs shows what is not there, or not yet, and flags it; it leaves the run as it is, unless it takes part in it. The same run
// without a trace refuses the fault.
func TestTracersThatErr(t *testing.T) {
	look := func(level trace.Level, faults ...string) (*Outcome, map[string]trace.Record) {
		s := kindRun(t, "dp=2", faults...)
		s.Config.Steps, s.Config.Cluster.Overlap = 2, true
		if level > trace.Off {
			s.Trace = trace.Options{Level: level, Into: &trace.Trace{}}
		}
		o, err := Run(s)
		require.NoError(t, err)
		require.NoError(t, o.Missed)
		records := map[string]trace.Record{}
		if level > trace.Off {
			for _, r := range s.Trace.Into.Ranks[0].Records {
				if r.Iteration == 2 && r.Microbatch == 0 {
					records[r.Kind+" "+r.Phase+" "+trace.Path(r.Scope, r.Name)] = r
				}
			}
		}
		return o, records
	}
	plain, records := look(trace.Kernel)
	bare, _ := look(trace.Off)
	last := func(o *Outcome) string { return o.Steps[1].State }
	require.Equal(t, last(bare), last(plain))
	for _, c := range []struct {
		fault, record, flag string
	}{
		{"probe@layers.1.attn.wq as=uninit", "op fwd layers.1.attn.wq.empty", "uninit"},
		{"probe@layers.1.attn.wq as=copy", "op fwd layers.1.attn.wq.copy", "nonblocking"},
		{"probe@grads.bucket.* as=pending", "collective opt grads.bucket.0", "async-pending"},
	} {
		o, seen := look(trace.Op, c.fault)
		require.Equal(t, last(plain), last(o), c.fault)
		r, ok := seen[c.record]
		require.True(t, ok, c.record)
		require.Contains(t, r.Flags, c.flag)
		require.Len(t, r.Out, 1, "it has a digest of it")
		require.Len(t, records[c.record].Out, 0, "which nobody who knows has")
	}
	blind, seen := look(trace.Kernel, "probe@layers.1.attn.wq as=blind phase=fwd")
	require.Equal(t, last(plain), last(blind))
	require.NotContains(t, seen, "op fwd layers.1.attn.wq")
	require.Contains(t, seen, "kernel fwd layers.1.attn.wq")
	require.Contains(t, records, "op fwd layers.1.attn.wq")
	draws, seen := look(trace.Op, "probe@layers.0.norm as=draw phase=fwd micro=0")
	require.NotEqual(t, last(plain), last(draws))
	require.Contains(t, seen, "draw fwd probe.rng.dropout.tp")

	s := kindRun(t, "dp=1", "probe@layers.1.attn.wq as=uninit")
	require.ErrorContains(t, s.Check(), "needs --trace DIR")
}

// A tracer that waits for everybody has all arrive in order; where it does not look they arrive as ever.
func TestTracerThatSynchronises(t *testing.T) {
	state := func(schedule uint64, level trace.Level, faults ...string) string {
		s := kindRun(t, "dp=4", faults...)
		s.Config.Steps, s.Schedule.Seed, s.Plans = 1, schedule, []string{"grads.bucket.? ranks:arrival"}
		s.Strict = false
		if level > trace.Off {
			s.Trace = trace.Options{Level: level, Into: &trace.Trace{}}
		}
		o, err := Run(s)
		require.NoError(t, err)
		return o.Steps[0].State
	}
	const sync = "probe@grads.bucket.* as=sync"
	require.NotEqual(t, state(1, trace.Op), state(2, trace.Op))
	require.Equal(t, state(1, trace.Op, sync), state(2, trace.Op, sync))
	require.NotEqual(t, state(1, trace.Off, sync), state(2, trace.Off, sync))
	require.NotEqual(t, state(1, trace.Metrics, sync), state(2, trace.Metrics, sync), "it does not look at collectives")
}
