package run

import (
	"math"

	"firstbit/device"
	"firstbit/lowp"
)

// Routes is one choice of experts: a layer's top-k in one microbatch.
type Routes struct {
	Step, Micro int
	Layer       string // scope of the router
	K           int
	Index       []int32  // (tokens, K)
	Margin      []uint32 // per token, the bits of the K-th value
	Next        []uint32 // and of the best value left out
}

// observe keeps what every top-k chose, and by how little.
func (o *Outcome) observe(next device.Runner) device.Runner {
	return func(c *device.Call) {
		next(c)
		if c.Label != "topk" || c.Kernel.Name != "topk" || c.ID.Phase != device.Fwd || c.Input("scores").F32() == nil {
			return
		}
		scores, bias, e := c.Input("scores").F32(), c.Input("bias").F32(), c.Input("scores").Cols()
		r := Routes{Step: c.ID.Step, Micro: c.ID.Micro, Layer: c.Scope, K: c.Output("index").Cols(), Index: append([]int32(nil), c.Output("index").I32()...)}
		for t := range len(r.Index) / r.K {
			chosen := r.Index[t*r.K:][:r.K]
			kth, left := float32(math.Inf(1)), float32(math.Inf(-1))
			for i := range e {
				v := scores[t*e+i] + bias[i]
				if has(chosen, int32(i)) {
					kth = min(kth, v)
				} else {
					left = max(left, v)
				}
			}
			r.Margin = append(r.Margin, lowp.FP32.Encode(kth))
			r.Next = append(r.Next, lowp.FP32.Encode(left))
		}
		o.Routes = append(o.Routes, r)
	}
}

func has(s []int32, v int32) bool {
	for _, x := range s {
		if x == v {
			return true
		}
	}
	return false
}

// Flip is the first token that two runs route differently.
type Flip struct {
	Layer     string  `json:"layer"`
	Token     int     `json:"token"`
	Margin    uint64  `json:"margin_ulps"` // in run A, between the K-th value and the next
	Micro     int     `json:"-"`
	A, B      []int32 `json:"-"`
	Kth, Left float32 `json:"-"`
}

// RouteReport compares the routes of two runs. A flip is a token whose set of experts differs.
type RouteReport struct {
	FirstStep *int  `json:"first_step"`
	Flips     int   `json:"flips"`
	First     *Flip `json:"first"`
}

// CompareRoutes compares what two runs chose, token by token.
func CompareRoutes(a, b []Routes) *RouteReport {
	r := &RouteReport{}
	for i := range min(len(a), len(b)) {
		x, y := &a[i], &b[i]
		for t := range len(x.Index) / x.K {
			ia, ib := x.Index[t*x.K:][:x.K], y.Index[t*x.K:][:x.K]
			if sameSet(ia, ib) {
				continue
			}
			r.Flips++
			if r.First == nil {
				step := x.Step
				r.FirstStep = &step
				kth, left := math.Float32frombits(x.Margin[t]), math.Float32frombits(x.Next[t])
				r.First = &Flip{Layer: x.Layer, Token: t, Margin: lowp.FP32.Ulps(kth, left), Micro: x.Micro, A: ia, B: ib, Kth: kth, Left: left}
			}
		}
	}
	return r
}

func sameSet(a, b []int32) bool {
	for _, v := range a {
		if !has(b, v) {
			return false
		}
	}
	return true
}
