package recipe

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"firstbit/parallel"
	"firstbit/train"
)

// Small is the recipe at the size of a laptop: every kind of layer, and every axis of parallelism, once or twice.
type Small struct {
	Config train.Config
	Layout parallel.Layout
	Plans  []string // of both runs of every pair
}

// letters are the layers of Megatron's hybrid patterns that are built here.
const letters = "M*-E"

// kinds are the recipe's layers, and of a depth of multi-token prediction, each kind once, in the order in which they first stand.
func (j *job) kinds() (main, depth string) {
	pattern := j.pattern
	if pattern == "" {
		pattern = j.oldPattern
	}
	if pattern == "" {
		dense, sparse := j.mixes()
		main = "*"
		if dense {
			main += "-"
		}
		if sparse {
			main += "E"
		}
		if j.mtp > 0 {
			depth = "*" + main[len(main)-1:]
		}
		return main, depth
	}
	main, depth, _ = strings.Cut(pattern, "/")
	depth, _, _ = strings.Cut(depth, "/")
	once := func(pattern string) (kinds string) {
		for _, letter := range strings.ReplaceAll(pattern, "+", "*") { // latent attention is attention
			if strings.ContainsRune(letters, letter) && !strings.ContainsRune(kinds, letter) {
				kinds += string(letter)
			}
		}
		return kinds
	}
	if main = once(main); main == "" {
		main = "*"
	}
	return main, once(depth)
}

// mixes tells which layers of a GPT have an MLP, and which experts: every n-th, or by a list such as ([0]*3+[1]*58).
func (j *job) mixes() (dense, sparse bool) {
	if j.experts == 0 {
		return true, false
	}
	if n, err := strconv.Atoi(j.moeEvery); err == nil || j.moeEvery == "" {
		return n > 1, true
	}
	return strings.Contains(j.moeEvery, "0"), strings.Contains(j.moeEvery, "1")
}

// two is an axis of more than one rank with two.
func two(extent int) int { return min(max(extent, 1), 2) }

// data is the data-parallel size of the recipe; 0: the file does not say how many ranks there are.
func (j *job) data() int {
	if j.world == 0 {
		return 0
	}
	return max(j.world/max(j.tp*j.pp*j.cp, 1), 1)
}

// vpp is how many runs of layers a stage of the pipeline has.
func (j *job) vpp() int {
	switch {
	case j.pp < 2:
		return 1
	case j.vppStages > 0:
		return j.vppStages
	case j.vppLayers > 0:
		return max(j.layers/(j.pp*j.vppLayers), 1)
	}
	if main, _, _ := strings.Cut(j.pattern, "/"); strings.Contains(main, "|") {
		return max((strings.Count(main, "|")+1)/j.pp, 1)
	}
	return 1
}

// micros is how many microbatches a step has; at least 2 where the file does not say how many ranks share them.
func (j *job) micros() int {
	ranks := j.data()
	if j.globalBatch == 0 {
		return 1
	}
	if ranks == 0 {
		return 2
	}
	return max(j.globalBatch/max(j.microBatch*ranks, 1), 1)
}

// Small makes the configuration.
func (r *Recipe) Small() (s Small, err error) {
	s.Layout = parallel.Layout{TP: two(r.tp), PP: two(r.pp), CP: two(r.cp), EP: two(r.ep), DP: two(r.data()), VPP: two(r.vpp())}
	if r.experts > 0 {
		s.Layout.ETP = two(r.etp)
		if r.etp == 0 { // Megatron's default
			s.Layout.ETP = s.Layout.TP
		}
	} else {
		s.Layout.EP = 1
	}
	if l := s.Layout; l.TP*l.CP*l.DP%(l.EP*max(l.ETP, 1)) != 0 {
		l.DP = 0
		fit, err := parallel.ParseLayout(strings.Replace(l.Full().String(), "dp=1,", "", 1))
		if err != nil {
			return s, err
		}
		s.Layout = fit
	}
	s.Layout = s.Layout.Full()
	c := train.Pico()
	c.Steps, c.Batch, c.Seq, c.Micro = 6, min(max(r.microBatch, 1), 2), 32, min(r.micros(), 4)
	if s.Layout.VPP > 1 {
		c.Micro = 2 * s.Layout.PP
	}
	c.PerToken = r.perToken
	r.precision(&c)
	r.model(&c, s.Layout)
	c.Optim.Replicated = !r.distributed
	c.Optim.Clip = min(r.clip, 0.5) // below the norm, or the coefficient is clamped to 1 and hides it
	c.Cluster.Bucket, c.Cluster.Overlap = 1<<12, r.overlapReduce || r.overlapGather
	s.Config = c
	if s.Layout.DP*s.Layout.CP > 1 { // whose gradients are added
		s.Plans = r.collectives()
	}
	if r.routerFusion && strings.Contains(c.Model.Pattern, "E") {
		s.Plans = append(s.Plans, "*.router.topk* fused=true")
	}
	if err := c.Validate(); err != nil {
		return s, fmt.Errorf("the small configuration: %w", err)
	}
	return s, c.CheckLayout(s.Layout)
}

func (r *Recipe) precision(c *train.Config) {
	switch {
	case r.fp4 != "":
		c.Precision = "nvfp4"
	case r.fp8 != "" && r.fp8Recipe == "mxfp8":
		c.Precision = "mxfp8"
	case r.fp8 != "":
		c.Precision = "fp8"
		if r.fp8Recipe == "delayed" {
			c.Quant.Scaling = "delayed"
		}
	case r.bf16:
		c.Precision = "bf16"
	case r.fp16:
		c.Precision = "fp16"
	}
}

func (r *Recipe) model(c *train.Config, l parallel.Layout) {
	m := &c.Model
	main, depth := r.kinds()
	m.Pattern = main
	for len(m.Pattern) < max(l.PP*l.VPP, 2) {
		m.Pattern += main
	}
	m.MTP.Depths = 1
	if depth != "" {
		m.Pattern += "/" + depth
		m.MTP.Depths = two(r.mtp)
	}
	m.Heads, m.KVHeads = 4, 4
	if r.gqa && r.kvHeads < r.heads {
		m.KVHeads = 2
	}
	m.Tied, m.Dropout, m.Recompute = !r.untied, r.hiddenDropout, r.recomputeAll || r.recompute != ""
	m.SSM.Heads, m.SSM.HeadDim, m.SSM.Groups = 8, 4, 2
	if r.experts == 0 && !strings.Contains(m.Pattern, "E") {
		return
	}
	e := &m.MoE
	e.Experts, e.TopK, e.Jitter, e.ZCoeff, e.AuxCoeff, e.BiasRate = 8, min(max(r.topK, 1), 4), min(r.jitter, 0.5), r.zCoeff, r.auxCoeff, 0
	if r.expertBias {
		e.BiasRate = 1e-3
	}
	e.SharedHidden, e.Latent, e.TileN, e.TileSub = 0, 0, 4, 2
	if r.shared > 0 {
		e.SharedHidden = 16
	}
	if r.latent > 0 {
		e.Latent = 8
	}
	e.Router = "softmax_topk"
	switch {
	case r.score == "sigmoid":
		e.Router, e.Scaling = "sigmoid", 2.5
	case r.preSoftmax || e.TopK == 1:
		e.Router = "softmax"
	}
	e.RouterDtype = "fp32"
	if r.routerDtype == "" && (r.bf16 || r.fp16) {
		e.RouterDtype = "bf16"
	}
	switch r.balance {
	case "seq_aux_loss":
		e.Aux = "sequence"
	case "none":
		e.AuxCoeff = 0
	}
	if r.groups > 1 {
		e.Groups, e.GroupsKept, e.GroupTop = 4, 2, 1
	}
}

// collectives are plans of the sums over ranks, by the algorithm that the environment asks for.
func (r *Recipe) collectives() []string {
	algo, _ := r.algorithm()
	if slices.Contains(strings.Split(algo, ","), "Tree") {
		return []string{"grads.bucket.? ranks:nccltree"}
	}
	return nil
}
