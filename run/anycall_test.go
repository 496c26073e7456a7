package run

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/trace"
)

// callsOf are the Calls of a run's steps with their phases.
func callsOf(t *testing.T, s Spec) []string {
	names := map[string]bool{}
	var mu sync.Mutex
	s.Watch = func(int) device.Middleware {
		return func(next device.Runner) device.Runner {
			return func(c *device.Call) {
				mu.Lock()
				if c.ID.Step > 0 && c.Kind != device.Module {
					names[c.ID.Path+" phase="+c.ID.Phase.String()] = true
				}
				mu.Unlock()
				next(c)
			}
		}
	}
	_, err := (&job{Spec: &s}).outcome()
	require.NoError(t, err)
	return slices.Sorted(maps.Keys(names))
}

// A fault of any kind on any Call of any ranks ends, in one line if the run cannot go on, replays, and is the same with a trace.
func TestAnyFaultOnAnyCall(t *testing.T) {
	n, seed := 1, uint64(1)
	if *matrix {
		n, seed = 12, rand.Uint64()
	}
	t.Logf("seed %d", seed)
	draw := rand.New(rand.NewPCG(seed, 0))
	one := func(of ...string) string { return of[draw.IntN(len(of))] }
	layouts := []string{"dp=2,ep=2", "tp=2,pp=2", "cp=2,dp=2,ep=2"}
	if !*matrix {
		layouts = layouts[:2]
	}
	for i, layout := range layouts {
		with := func(faults ...string) Spec {
			s := kindRun(t, layout, faults...)
			s.Config.Cluster.Overlap, s.Config.Optim.Replicated, s.Checks = true, i > 0, Checks{}
			return s
		}
		calls := callsOf(t, with())
		for _, kind := range []string{"flip@% bit=4", "set@% value=3", "drop@%", "unwritten@% rows=0", "repeat@%", "early@%", "late@%", "copy@% from-step=1"} {
			for range n {
				fault := strings.Replace(kind, "%", one(calls...), 1) + one("", " step=2", " step=3") + one("", " micro=0", " micro=1") + one("", " rank=0", " rank=1", " dp=0", " tp=0", " ep=0")
				result := func(level trace.Level) string {
					s := with(fault)
					if level > trace.Off {
						s.Trace = trace.Options{Dir: t.TempDir() + "/t", Level: level}
					}
					o, err := Run(s)
					if err != nil {
						require.NotContains(t, err.Error(), "\n", fault)
						return err.Error()
					}
					text := fmt.Sprint(o.Faults)
					for _, s := range o.Steps {
						text += " " + s.State
					}
					return text
				}
				first := result(trace.Off)
				require.Equal(t, first, result(trace.Off), fault)
				require.Equal(t, first, result(trace.Kernel), fault)
			}
		}
	}
}
