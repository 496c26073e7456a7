package moe

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/lowp"
	"firstbit/reduce"
)

// Where a kernel leaves the experts it chose is not which it chose: the sets agree, the loss by sums over slots does not, and
// sorting makes every kernel one.
func TestSlotsOfTheChosen(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"one group": func(*Config) {},
		"groups":    func(c *Config) { c.Groups, c.GroupsKept = 2, 2 },
	} {
		c := small
		c.Experts, c.TopK = 8, 4
		change(&c)
		run := func(plan string) (index []int32, prob, y []float32) {
			b := newBench(c, lowp.FP32, func(next device.Runner) device.Runner {
				return func(c *device.Call) {
					if c.Plan.Has("slots") && c.Kernel.Name == "topk" {
						var err error
						c.Plan, err = c.Plan.With(reduce.MustPlan(plan))
						require.NoError(t, err)
					}
					next(c)
				}
			})
			b.forward(1)
			return slices.Clone(b.index.I32()), b.Router.prob.F32(), slices.Clone(b.output.F32())
		}
		rows := func(index []int32) (sets [][]int32) {
			for row := range slices.Chunk(index, c.TopK) {
				sets = append(sets, slices.Sorted(slices.Values(row)))
			}
			return sets
		}
		value, probValue, yValue := run("slots=value")
		index, probIndex, yIndex := run("slots=index")
		require.NotEqual(t, value, index, name)
		require.Equal(t, rows(value), rows(index), name)
		for _, row := range rows(index) {
			require.Len(t, slices.Compact(row), c.TopK, "distinct")
		}
		require.Equal(t, slices.Concat(rows(index)...), index, "%s: by index", name)
		require.NotEqual(t, yValue, yIndex, "%s: sums over slots have another order", name)
		require.NotEqual(t, probValue, probIndex, name)
		sorted, _, ySorted := run("slots=value; sort=true")
		require.Equal(t, index, sorted, name)
		require.Equal(t, yIndex, ySorted, name)
		again, _, yAgain := run("slots=index; sort=true")
		require.Equal(t, index, again, name)
		require.Equal(t, yIndex, yAgain, name)
	}
}
