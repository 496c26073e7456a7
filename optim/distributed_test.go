package optim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/lowp"
	"firstbit/nn"
	"firstbit/parallel"
	"firstbit/reduce"
)

// mixed are parameters of several lengths, some of them in another format, as a router's are.
func mixed(f lowp.Format, seed uint64) []*nn.Param {
	ps := params(f, seed)
	narrow := nn.NewParam("router.w", nn.MasterFormat(f), true, 2, 9)
	last := nn.NewParam("head.w", f, true, 41)
	for i := range narrow.W.Len() {
		narrow.W.Set(i, float64(i)/7)
	}
	for i := range last.Master.Len() {
		last.Master.Set(i, 1/float64(i+1))
	}
	last.W.CopyFrom(last.Master)
	return append(ps, narrow, last)
}

// gradient is what a rank's backward of a step leaves.
func gradient(p *nn.Param, which, rank, step int) {
	r := rand.New(rand.NewPCG(uint64(which), uint64(rank<<8+step)))
	for i := range p.Grad.Len() {
		p.Grad.Set(i, r.NormFloat64()/4)
	}
}

// inSequence makes every collective add rank after rank.
func inSequence(next device.Runner) device.Runner {
	plan := reduce.MustPlan("ranks:seq")
	return func(c *device.Call) {
		if c.Plan.Has("ranks") {
			p, err := c.Plan.With(plan)
			if err != nil {
				panic(err)
			}
			c.Plan = p
		}
		next(c)
	}
}

// updated is all that an update leaves, as bits: weights, and of each rank's own masters and moments, put together.
type updated map[string][]string

func (s updated) note(name string, at int, t *device.Tensor) {
	for i := range t.Len() {
		for len(s[name]) <= at+i {
			s[name] = append(s[name], "")
		}
		if s[name][at+i] != "" {
			panic("two ranks own one element")
		}
		s[name][at+i] = t.Bits(i)
	}
}

// over runs steps over ranks and returns what they leave, and the norms.
func over(t *testing.T, c Config, f lowp.Format, ranks, bucket, steps int) (updated, []float64) {
	t.Helper()
	all := make([]updated, ranks)
	own := make([]*AdamW, ranks)
	norms := make([]float64, steps)
	w := parallel.NewWorld(parallel.Layout{DP: ranks}, 4)
	require.NoError(t, w.Run(func(r parallel.Rank) error {
		dev := device.New(device.Options{Rank: r.Index, At: w.At(r.Index)}, inSequence)
		ps := mixed(f, 3)
		d := plain(c, ps, r, bucket)
		for step := 1; step <= steps; step++ {
			dev.At(step, 0, device.Opt)
			for i, p := range ps {
				gradient(p, i, r.Index, step)
			}
			norm, _ := d.Step(dev, step, c.LR)
			if r.Index == 0 {
				norms[step-1] = norm.Value(0)
			}
		}
		all[r.Index], own[r.Index] = updated{}, d
		for _, p := range ps {
			all[r.Index].note(p.Name, 0, p.W)
		}
		return dev.Err()
	}))
	for i := range all {
		require.Equal(t, all[0], all[i], "the weights of rank %d", i)
	}
	for _, d := range own {
		for _, b := range d.Buckets {
			for _, s := range b.Segments {
				all[0].note(s.Param.Name+".master", s.Lo, s.Master)
				all[0].note(s.Param.Name+".m", s.Lo, s.M)
				all[0].note(s.Param.Name+".v", s.Lo, s.V)
			}
		}
	}
	return all[0], norms
}

// Shards change nothing: over any number of ranks and with any buckets, every master, moment and weight has the bits of one optimizer
// that sees the ranks' gradients added in the same order.
func TestDistributedIsAdamWOfTheSum(t *testing.T) {
	const steps = 3
	c := base
	c.Clip = 0 // the norm adds in another order
	for _, f := range []lowp.Format{lowp.FP32, lowp.BF16, lowp.FP64} {
		for _, ranks := range []int{1, 2, 3, 8, 33} {
			ps := mixed(f, 3)
			a := alone(c, ps)
			dev := device.New(device.Options{})
			squares := make([]float64, steps)
			for step := 1; step <= steps; step++ {
				dev.At(step, 0, device.Opt)
				for i, p := range ps {
					part := nn.NewParam("", f, true, p.Grad.Len())
					sum := make([]float64, p.Grad.Len())
					for rank := range ranks {
						gradient(part, i, rank, step)
						for j := range sum {
							if sum[j] += part.Grad.Value(j); f != lowp.FP64 {
								sum[j] = float64(float32(sum[j]))
							}
						}
					}
					for j, v := range sum {
						p.Grad.Set(j, v)
						squares[step-1] += v * v
					}
				}
				a.Step(dev, step, c.LR)
			}
			want := updated{}
			for i, p := range ps {
				want.note(p.Name, 0, p.W)
				want.note(p.Name+".master", 0, p.Master)
				want.note(p.Name+".m", 0, momentsOf(a, i).M)
				want.note(p.Name+".v", 0, momentsOf(a, i).V)
			}
			for _, bucket := range []int{1, 20, 1000} {
				have, norms := over(t, c, f, ranks, bucket, steps)
				require.Equal(t, want, have, "%s over %d ranks, buckets of %d", f, ranks, bucket)
				for step, norm := range norms {
					require.InEpsilon(t, math.Sqrt(squares[step]), norm, 1e-6)
				}
			}
			c2 := c
			c2.Beta1 = 0.91
			other, _ := over(t, c2, f, ranks, 20, steps)
			require.NotEqual(t, want, other, "the comparison must be able to fail")
		}
	}
}

// Buckets take the parameters from the last to the first, each of one format and, but for the last of a format, full; shards cover them once.
func TestBuckets(t *testing.T) {
	for _, bucket := range []int{1, 16, 40, 41, 1 << 20} {
		w := parallel.NewWorld(parallel.Layout{DP: 5}, 4)
		ps := mixed(lowp.BF16, 3)
		covered := map[string][]int{}
		for rank := range 5 {
			d := plain(base, ps, w.Rank(rank), bucket)
			last := map[lowp.Format]int{}
			for i, b := range d.Buckets {
				last[b.Params[0].W.Format] = i
			}
			taken := map[lowp.Format][]string{}
			for i, b := range d.Buckets {
				f, n := b.Params[0].W.Format, 0
				for _, p := range b.Params {
					require.Equal(t, f, p.W.Format)
					taken[f] = append(taken[f], p.Name)
					require.Less(t, n, bucket, "a full bucket takes no more")
					n += p.W.Len()
				}
				require.True(t, n >= bucket || i == last[f], "bucket %d of %d", i, bucket)
				for _, s := range b.Segments {
					for e := s.Lo; e < s.Hi; e++ {
						covered[s.Param.Name] = append(covered[s.Param.Name], e)
					}
				}
			}
			require.Equal(t, map[lowp.Format][]string{lowp.BF16: {"head.w", "norm.w", "w"}, lowp.FP32: {"router.w"}}, taken)
		}
		for _, p := range ps {
			require.Len(t, covered[p.Name], p.W.Len())
			for i, e := range covered[p.Name] {
				require.Equal(t, i, e, "%s", fmt.Sprint(p.Name, bucket))
			}
		}
	}
}

// A bucket has one group. What both ends of a pipeline have is by itself, and the buckets around it are as if it were not there.
func TestBucketsHaveOneGroup(t *testing.T) {
	names := func(layout string) (all [][]string) {
		l, err := parallel.ParseLayout(layout)
		require.NoError(t, err)
		ps := mixed(lowp.FP32, 3) // w, norm.w, router.w, head.w of 15, 7, 18 and 41 elements
		ps[1].Expert, ps[2].Ends = true, true
		for _, b := range plain(base, ps, parallel.NewWorld(l, 4).Rank(0), 50).Buckets {
			var taken []string
			for _, p := range b.Params {
				taken = append(taken, p.Name)
			}
			all = append(all, append(taken, b.label))
		}
		return all
	}
	require.Equal(t, [][]string{{"head.w", "router.w", "bucket.0"}, {"norm.w", "w", "bucket.1"}}, names("dp=2"), "where experts lie as all else does, they travel with it")
	require.Equal(t, [][]string{{"head.w", "router.w", "bucket.0"}, {"norm.w", "bucket.1"}, {"w", "bucket.2"}}, names("dp=2,ep=2"))
	require.Equal(t, [][]string{{"head.w", "w", "bucket.0"}, {"router.w", "bucket.router.w"}, {"norm.w", "bucket.1"}}, names("dp=2,ep=2,pp=2"))
}
