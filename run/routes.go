package run

import (
	"math"
	"slices"

	"firstbit/device"
	"firstbit/lowp"
)

// Routes is one choice of experts: a layer's top-k in one microbatch on one rank.
type Routes struct {
	Step, Micro, Rank int
	Layer             string // scope of the router
	K                 int
	Index             []int32   // (tokens, K)
	Scores            []float64 // (tokens, experts), the values that the choice was made by
	Kept              []int32   // (tokens, groups kept), the groups of consecutive experts that were chosen within; nil: within all
	Groups            int       // that there are, where some are kept
	Wide              bool      // they were fp64; else fp32
}

// observe keeps what every top-k chose, and from what.
func (o *Outcome) observe(rank int) device.Middleware {
	return func(next device.Runner) device.Runner {
		return func(c *device.Call) {
			next(c)
			if c.Label != "topk" || c.Kernel.Name != "topk" || c.ID.Phase != device.Fwd {
				return
			}
			index := c.Output("index")
			r := Routes{Step: c.ID.Step, Micro: c.ID.Micro, Rank: rank, Layer: c.Scope, K: index.Cols(),
				Index: slices.Clone(index.I32()), Scores: biased(c.Input("scores"), c.Input("bias")),
				Wide: c.Input("scores").F64() != nil}
			if i := slices.IndexFunc(c.In, func(a device.Arg) bool { return a.Name == "kept" }); i >= 0 {
				r.Kept, r.Groups = slices.Clone(c.In[i].I32()), int(c.Scalar("groups")) // fits: it was an int
			}
			o.Routes = append(o.Routes, r)
		}
	}
}

// biased is what a choice is made by, added as the router adds it.
func biased(scores, bias *device.Tensor) []float64 {
	v, e := make([]float64, scores.Len()), scores.Cols()
	for i := range v {
		if f := scores.F32(); f != nil {
			v[i] = float64(f[i] + bias.F32()[i%e])
		} else {
			v[i] = scores.F64()[i] + bias.F64()[i%e]
		}
	}
	return v
}

// edge is a token's last expert chosen and the best one left out of the groups that it keeps; left is -1 where all were chosen.
func (r *Routes) edge(token int) (kth, left int) {
	kth, left = -1, -1
	experts := len(r.Scores) / r.Tokens()
	for i := range experts {
		if r.Kept != nil && !has(r.Kept[token*len(r.Kept)/r.Tokens():][:len(r.Kept)/r.Tokens()], int32(i/(experts/r.Groups))) { // fits: it is a group
			continue
		}
		s := r.score(token, i)
		switch {
		case has(r.chosen(token), int32(i)):
			if kth < 0 || s < r.score(token, kth) {
				kth = i
			}
		case left < 0 || s > r.score(token, left):
			left = i
		}
	}
	return kth, left
}

// Tokens is how many there are.
func (r *Routes) Tokens() int { return len(r.Index) / r.K }

func (r *Routes) chosen(token int) []int32 { return r.Index[token*r.K:][:r.K] }

func (r *Routes) score(token, expert int) float64 {
	return r.Scores[token*len(r.Scores)/r.Tokens()+expert]
}

func has(s []int32, v int32) bool {
	for _, x := range s {
		if x == v {
			return true
		}
	}
	return false
}

// Flip is a token that two runs route differently.
type Flip struct {
	Step   int    `json:"-"`
	Micro  int    `json:"-"`
	Rank   int    `json:"-"`
	Layer  string `json:"layer"`
	Token  int    `json:"token"`
	Margin uint64 `json:"margin_ulps"` // in run A, from the best value left out to the K-th
	// Moved is how much nearer to each other, or past each other, the two values of the margin are in run B, in ulps of the K-th.
	Moved     uint64  `json:"-"`
	A, B      []int32 `json:"-"` // its experts
	Kth, Left float64 `json:"-"` // the values of the margin
}

// RouteReport compares the routes of two runs. A flip is a token whose set of experts differs.
type RouteReport struct {
	FirstStep *int   `json:"first_step"`
	Flips     int    `json:"flips"`
	First     *Flip  `json:"first"`
	All       []Flip `json:"-"`
}

// CompareRoutes compares what two runs of one layout and as many steps chose, token by token.
func CompareRoutes(a, b []Routes) *RouteReport {
	r := &RouteReport{}
	for i := range min(len(a), len(b)) {
		for t := range a[i].Tokens() {
			if !sameSet(a[i].chosen(t), b[i].chosen(t)) {
				r.All = append(r.All, flipOf(&a[i], &b[i], t))
			}
		}
	}
	if r.Flips = len(r.All); r.Flips > 0 {
		r.First, r.FirstStep = &r.All[0], &r.All[0].Step
	}
	return r
}

func flipOf(a, b *Routes, t int) Flip {
	margin, moved, _ := Margin(a, b, t)
	kth, left := a.edge(t)
	if left < 0 {
		left = kth
	}
	return Flip{Step: a.Step, Micro: a.Micro, Rank: a.Rank, Layer: a.Layer, Token: t, Margin: margin, Moved: moved, A: a.chosen(t), B: b.chosen(t),
		Kth: a.score(t, kth), Left: a.score(t, left)}
}

// Margin is the distance in ulps, in run A, of a token's K-th value from the best one left out, and how far run B moved their difference, in
// ulps of the K-th. A route flips where it moves the whole margin and more, or where the token keeps other groups. ok is false where run A
// left none out, of the groups that the token keeps: then there is no margin.
func Margin(a, b *Routes, t int) (margin, moved uint64, ok bool) {
	k, l := a.edge(t)
	if l < 0 {
		return 0, 0, false
	}
	kth, left := a.score(t, k), a.score(t, l)
	by := math.Abs(kth - left - (b.score(t, k) - b.score(t, l)))
	if a.Wide {
		return lowp.FP64.CodeUlps(lowp.Bits(kth), lowp.Bits(left)), count(by / (math.Nextafter(math.Abs(kth), math.Inf(1)) - math.Abs(kth))), true
	}
	x := float32(math.Abs(kth))
	return lowp.FP32.Ulps(float32(kth), float32(left)), count(by / float64(math.Nextafter32(x, float32(math.Inf(1)))-x)), true
}

// count rounds up, so that what moved at all is more than 0.
func count(x float64) uint64 {
	if !(x < 1<<62) { // NaN too
		return 1 << 62
	}
	return uint64(math.Ceil(x)) // fits: it is below 2^62
}

func sameSet(a, b []int32) bool {
	for _, v := range a {
		if !has(b, v) {
			return false
		}
	}
	return true
}

// TokenScores are a token's, of every expert.
func (r *Routes) TokenScores(t int) []float64 {
	n := len(r.Scores) / r.Tokens()
	return r.Scores[t*n:][:n]
}
