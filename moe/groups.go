package moe

import (
	"firstbit/device"
	"firstbit/libm"
	"firstbit/lowp"
	"firstbit/reduce"
)

var (
	groupScoresKernel = &device.Kernel{Name: "group_scores", In: device.Names("scores bias"), Scalars: device.Names("top"), Out: device.Names("sums"),
		Fixed: reduce.MustPlan("group:seq/fp32"),
		Run:   device.Width(runGroupScores[float32], runGroupScores[float64])}
	topkGroups = &device.Kernel{Name: "topk", ByToken: true, In: device.Names("scores"), Scalars: device.Names("k"), Out: device.Names("index"),
		Fixed: topkKernel.Fixed, Fast: topkKernel.Fast,
		Run: device.Width(runTopKUnbiased[float32], runTopKUnbiased[float64])}
	topkOfGroups = &device.Kernel{Name: "topk", ByToken: true, In: device.Names("scores bias kept"), Scalars: device.Names("k groups"), Out: device.Names("index"),
		Fixed: topkKernel.Fixed, Fast: topkKernel.Fast,
		Run: device.Width(runTopKOfGroups[float32], runTopKOfGroups[float64])}
)

// keptGroups are the groups a token chooses within: those with the largest sums of their best
// biased scores.
//
// Source: docs/facts.md, Model.
func (r *Router) keptGroups(dev *device.Device) *device.Tensor {
	c := dev.Open("group_scores", groupScoresKernel)
	c.Read("scores", r.chosenBy())
	c.Read("bias", r.Bias)
	c.ReadScalar("top", float64(r.groupTop()))
	sums := c.Write("sums", r.scores.Format, r.scores.Rows(), r.Groups) // (T,G)
	c.Do()

	c = dev.Open("topk_groups", topkGroups)
	c.Read("scores", sums)
	c.ReadScalar("k", float64(r.GroupsKept))
	kept := c.Write("index", lowp.INT32, r.scores.Rows(), r.GroupsKept) // (T,kept)
	c.Do()
	return kept
}

func (r *Router) topkOfGroups(dev *device.Device, kept *device.Tensor) *device.Tensor {
	c := dev.Open("topk", topkOfGroups)
	c.Read("scores", r.chosenBy())
	c.Read("bias", r.Bias)
	c.Read("kept", kept)
	c.ReadScalar("k", float64(r.TopK))
	c.ReadScalar("groups", float64(r.Groups))
	index := c.Write("index", lowp.INT32, r.scores.Rows(), r.TopK)
	c.Do()
	return index
}

func runGroupScores[T libm.Float](c *device.Call) {
	s, sums, n := c.Input("scores"), c.Output("sums"), int(c.Scalar("top"))
	groupScores(device.Data[T](sums), device.Data[T](s), device.In[T](c, "bias"), s.Cols(), sums.Cols(), n, c.Fold("group", n))
}

func runTopKOfGroups[T libm.Float](c *device.Call) {
	s := c.Input("scores")
	topKOfGroups(c.Output("index").I32(), device.Data[T](s), device.In[T](c, "bias"), c.Input("kept").I32(),
		s.Cols(), int(c.Scalar("groups")), int(c.Scalar("k")), tieRule(c.Plan))
	inSlots(c)
}
