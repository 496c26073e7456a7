package parallel

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/lowp"
)

// parts cuts n elements into tensors of which some are laid into the buffer and others lie elsewhere.
func parts(f lowp.Format, seed uint64, n int) (*device.Buffer, []*device.Tensor) {
	r := rand.New(rand.NewPCG(9, seed))
	cuts := rand.New(rand.NewPCG(9, 0)) // alike on every rank
	b := device.NewBuffer(f, n)
	var all []*device.Tensor
	for at := 0; at < n; {
		x := device.NewTensor(f, min(1+cuts.IntN(9), n-at))
		for i := range x.Len() {
			x.Set(i, r.NormFloat64())
		}
		if name := fmt.Sprint("part", len(all)); len(all)%3 > 0 {
			b.Lay(at, name, x)
		} else {
			b.Hold(at, name, x)
		}
		all, at = append(all, x), at+x.Len()
	}
	return b, all
}

// A message of many tensors is added as that of one tensor which has them one after another, bit for bit and whoever waits for it; a gather
// lays it out again. The record reads and writes the tensors by name.
func TestMessageOfManyTensors(t *testing.T) {
	for _, f := range []lowp.Format{lowp.FP32, lowp.BF16, lowp.FP64} {
		for _, ranks := range []int{1, 2, 3, 8} {
			const n = 101
			seen := make([]*device.Call, ranks)
			watch := func(next device.Runner) device.Runner {
				return func(c *device.Call) {
					next(c)
					if c.Label == "gather" && c.ID.At.DP == 1 {
						seen[1] = c
					}
				}
			}
			require.NoError(t, simulate(t, ranks, 4, func(r Rank, dev *device.Device) error {
				b, all := parts(f, uint64(r.Index+1), n)
				one := device.NewTensor(f, n)
				at := 0
				for _, x := range all {
					one.CopyAt(at, x)
					at += x.Len()
				}
				want := r.DP().ReduceScatter(dev, "one", alone(one))
				require.Equal(t, bitsOf(want), bitsOf(r.DP().ReduceScatter(dev, "many", b)))
				require.Equal(t, bitsOf(want), bitsOf(r.DP().StartReduceScatter(dev, "pending", b).Wait()))
				sum := r.DP().AllReduce(dev, "one.sum", one)
				require.Equal(t, bitsOf(sum), bitsOf(r.DP().AllReduceParts(dev, "many.sum", b)))
				require.Equal(t, bitsOf(sum), bitsOf(r.DP().StartAllReduceParts(dev, "pending.sum", b).Wait()))

				// every rank has its own part of the sum where it lies in the whole, and the rest is to come
				whole := gather(r.DP(), dev, "whole", want, n)
				lo, hi := Shard(n, ranks, r.Index)
				var mine []device.Arg
				at = 0
				for i, x := range all {
					a, e := max(lo-at, 0), min(hi-at, x.Len())
					if a < e {
						part := x.View(a, e)
						part.CopyFrom(whole.View(at+a, at+e))
						mine = append(mine, device.Arg{Name: b.Tensors[i].Name, Tensor: part})
					}
					at += x.Len()
				}
				if ranks > 1 && hi > lo {
					other := (hi + 5) % n
					require.NotEqual(t, whole.Bits(other), b.Whole.Bits(other), "negative control")
				}
				r.DP().AllGather(dev, "gather", mine, b)
				at = 0
				for _, x := range all {
					require.Equal(t, bitsOf(whole.View(at, at+x.Len())), bitsOf(x))
					at += x.Len()
				}
				return dev.Err()
			}, watch))
			if ranks > 1 {
				require.Equal(t, len(seen[1].Out)-1, nameOf(t, seen[1].Out[len(seen[1].Out)-1].Name))
			}
		}
	}
}

func nameOf(t *testing.T, name string) (i int) {
	_, err := fmt.Sscanf(name, "part%d", &i)
	require.NoError(t, err)
	return i
}

func bitsOf(x *device.Tensor) (bits []string) {
	for i := range x.Len() {
		bits = append(bits, x.Bits(i))
	}
	return bits
}

// Members that bring other parts end the run with both by name, though together they are as long.
func TestMessagesOfOtherParts(t *testing.T) {
	cut := func(at int) *device.Buffer {
		b := device.NewBuffer(lowp.FP32, 6)
		b.Lay(0, "a", vector(at))
		b.Lay(at, "b", vector(6-at))
		return b
	}
	for want, body := range map[string]func(r Rank, dev *device.Device){
		"a is [2] and [3]": func(r Rank, dev *device.Device) { r.DP().ReduceScatter(dev, "x", cut(2+r.Index)) },
		"they bring different numbers of tensors": func(r Rank, dev *device.Device) {
			r.DP().ReduceScatter(dev, "x", []*device.Buffer{cut(2), alone(vector(6))}[r.Index])
		},
		"a is [3] and [2]": func(r Rank, dev *device.Device) {
			r.DP().AllGather(dev, "x", []device.Arg{{Name: "a", Tensor: vector(3)}}, cut(3-r.Index))
		},
		"rank 1 in opt x (all_gather) of step 1 microbatch 0 brings a shard of 4 of 6 elements: must be 3": func(r Rank, dev *device.Device) {
			r.DP().AllGather(dev, "x", []device.Arg{{Name: "a", Tensor: vector(2)}, {Name: "b", Tensor: vector(1 + r.Index)}}, cut(2))
		},
	} {
		err := simulate(t, 2, 4, func(r Rank, dev *device.Device) error { body(r, dev); return dev.Err() })
		require.ErrorContains(t, err, want)
	}
}
