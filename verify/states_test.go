package verify

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/parallel"
	"firstbit/run"
	"firstbit/state"
	"firstbit/train"
)

// gathered is the whole of a state, put together by places.
type gathered struct {
	role   state.Role
	bits   []uint64
	holder []int // a rank and one; 0: nobody yet
}

// gather lays a rank's pieces where their places say, and says what does not fit.
func gather(all map[string]*gathered, rank int, states []device.Held) error {
	for _, s := range states {
		place, key := s.Place.Of(s.Shape()), s.Place.Key(s.Name)
		g := all[key]
		if g == nil {
			g = &gathered{s.Role, make([]uint64, place.Elements()), make([]int, place.Elements())}
			all[key] = g
		}
		for i, b := range bitsOf(s.Tensor) {
			at := place.Index(i)
			if back, ok := place.Find(at, s.Len()); !ok || back != i {
				return fmt.Errorf("rank %d: %s[%d] lies at %d, where element %d is found", rank, s.Name, i, at, back)
			}
			if g.holder[at] > 0 && g.bits[at] != b {
				return fmt.Errorf("ranks %d and %d hold other copies of %s: element %d", g.holder[at]-1, rank, s.Name, at)
			}
			g.bits[at], g.holder[at] = b, rank+1
		}
	}
	return nil
}

// Every element of every state has one index in the whole, from which it is found again; all ranks together have every element; and those that
// have the same have the same bits, whatever the layout.
func TestEveryStateHasAPlace(t *testing.T) {
	mapped := func(r state.Role) bool { return r != state.Copy }
	for i, text := range MatrixLayouts {
		l, err := parallel.ParseLayout(text)
		require.NoError(t, err)
		for j, pattern := range matrixPatterns {
			spec := variant{pattern, "bf16", []option{plain, replicated}[(i+j)%2]}.spec(l, "fixed")
			spec.Config.Model.Dropout, spec.Config.Model.MoE.Jitter, spec.Until = 0.1, 0.1, 1
			all := map[string]*gathered{}
			var mu sync.Mutex
			spec.EachRank = func(rank int, tr *train.Trainer, _ train.Result) error {
				mu.Lock()
				defer mu.Unlock()
				return gather(all, rank, tr.States(mapped))
			}
			_, err = run.Run(spec)
			require.NoError(t, err, "%s %s", text, pattern)
			roles := map[state.Role]bool{}
			for name, g := range all {
				require.NotContains(t, g.holder, 0, "%s %s %s", text, pattern, name)
				roles[g.role] = true
			}
			require.Contains(t, roles, state.RandomStream)
		}
	}
}
