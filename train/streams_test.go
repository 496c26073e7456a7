package train

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/parallel"
	"firstbit/state"
)

// masks runs steps over a layout and keeps, for every layer, step, sample and token, the row that was drawn for it and how often.
func masks(t *testing.T, c Config, layout string, steps int) (rows map[string]string, draws int) {
	t.Helper()
	l, err := parallel.ParseLayout(layout)
	require.NoError(t, err)
	l = l.Full()
	c.Micro /= l.DP
	corpus, err := c.Corpus()
	require.NoError(t, err)
	w := parallel.NewWorld(l, c.Cluster.RanksPerNode)
	rows = map[string]string{}
	var lock sync.Mutex
	require.NoError(t, w.Run(func(rank parallel.Rank) error {
		dev := device.New(device.Options{Rank: rank.Index, At: w.At(rank.Index)}, func(next device.Runner) device.Runner {
			return func(call *device.Call) {
				next(call)
				if call.Kind != device.Draw || call.ID.Phase == device.Init {
					return
				}
				mask, at := call.Out[0].Tensor, w.At(rank.Index)
				part := c.Seq / l.CP
				lock.Lock()
				defer lock.Unlock()
				for i := range mask.Rows() {
					row := at.TP*(c.Batch*part/l.TP) + i
					sample, token := (at.DP*c.Micro+call.ID.Micro)*c.Batch+row/part, at.CP*part+row%part
					key := fmt.Sprintf("%s step %d sample %d token %d", call.ID.Path, call.ID.Step, sample, token)
					text := ""
					for j := range mask.Cols() {
						text += fmt.Sprintf("%x ", mask.Value(i*mask.Cols()+j))
					}
					if before, ok := rows[key]; ok && before != text {
						text = "two masks"
					}
					rows[key] = text
					draws++
				}
			}
		})
		tr, err := NewRank(c, corpus, dev, rank, false)
		if err != nil {
			return err
		}
		for range steps {
			tr.Step()
		}
		return nil
	}))
	return rows, draws
}

// noisy is a small run with dropout and jitter that the layouts of the tests cut.
func noisy(streams string) Config {
	c := Tiny()
	c.Batch, c.Micro, c.Seq, c.Streams = 2, 2, 8, streams
	c.Model.Pattern, c.Model.Dropout, c.Model.MoE.Jitter, c.Model.Recompute = "-E-E/E", 0.3, 0.1, true
	c.Model.MTP.Depths, c.Model.MTP.Repeated = 2, true
	return c
}

// Indexed, every token has its mask in every layout, and no other token has it; streams of ranks are other ones in each.
func TestMasksOnEveryLayout(t *testing.T) {
	layouts := []string{"dp=2", "tp=2", "tp=2,ep=2", "cp=2", "tp=2,cp=2", "pp=2", "pp=2,vpp=2", "dp=2,tp=2,pp=2"}
	one, draws := masks(t, noisy("indexed"), "", 2)
	layers, tokens := 4+2+2+2, 2*4*8 // dropout and jitter of both, of the main layers and of two depths
	require.Len(t, one, layers*tokens)
	require.Equal(t, 2*len(one), draws, "forward and recomputation")
	seen := map[string]string{}
	for key, mask := range one {
		require.NotEqual(t, "two masks", mask, key)
		require.Empty(t, seen[mask], key)
		seen[mask] = key
	}
	for _, layout := range layouts {
		many, n := masks(t, noisy("indexed"), layout, 2)
		require.Equal(t, one, many, layout)
		require.Equal(t, draws, n, "%s: nothing is drawn twice", layout)
	}
	// Negative control.
	one, _ = masks(t, noisy("rank"), "", 2)
	for _, layout := range layouts {
		many, _ := masks(t, noisy("rank"), layout, 2)
		require.NotEqual(t, one, many, layout)
	}
}

// By rank, tensor-, context- and pipeline-parallel ranks drop elements by streams of their own: no mask comes twice.
func TestStreamsOfRanksAreTheirOwn(t *testing.T) {
	for _, layout := range []string{"tp=2", "cp=2", "tp=2,cp=2", "pp=2", "pp=2,vpp=2,cp=2"} {
		many, _ := masks(t, noisy("rank"), layout, 1)
		seen := map[string]string{}
		for key, mask := range many {
			if strings.Contains(key, "dropout") {
				require.Empty(t, seen[mask], "%s: %s", layout, key)
				seen[mask] = key
			}
		}
		require.NotEmpty(t, seen)
	}
}

// The recipe has a mode of its own; a field set by hand is above it. Indexed streams have no state.
func TestStreamModes(t *testing.T) {
	for _, c := range []struct {
		streams   string
		canonical bool
		states    int
	}{{"", false, 2}, {"", true, 0}, {"rank", false, 2}, {"rank", true, 2}, {"indexed", false, 0}, {"indexed", true, 0}} {
		config := noisy(c.streams)
		corpus, err := config.Corpus()
		require.NoError(t, err)
		tr, err := NewRank(config, corpus, device.New(device.Options{}), parallel.NewWorld(parallel.Layout{DP: 1}, 1).Rank(0), c.canonical)
		require.NoError(t, err)
		states := 0
		for _, s := range tr.States(state.Role.Decides) {
			if strings.HasPrefix(s.Name, "rng.") {
				states++
			}
		}
		require.Equal(t, c.states, states, "%+v", c)
	}
	c := Tiny()
	require.NoError(t, c.Set("streams=Rank"))
	require.EqualError(t, c.Validate(), `streams: "Rank": did you mean rank? must be one of rank, indexed, or empty for the recipe's`)
}
