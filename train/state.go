package train

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"github.com/zeebo/xxh3"

	"firstbit/device"
	"firstbit/lowp"
)

var stateKernel = &device.Kernel{Name: "state"}

// State is one named piece of what decides the next step.
type State struct {
	Name string
	*device.Tensor
}

// States lists every tensor that decides the next step: weights, masters, moments,
// expert bias and counts, random streams, and the sampler's position.
func (t *Trainer) States() []State {
	var s []State
	held := t.Optim.States()
	for _, p := range t.weights.Params() {
		s = append(s, State{p.Name, p.W})
		for _, h := range held[p] {
			if p.Master != p.W {
				s = append(s, State{p.Name + ".master", h.Master})
			}
			s = append(s, State{p.Name + ".m", h.M}, State{p.Name + ".v", h.V})
		}
	}
	for _, r := range t.Routers() {
		if r.Shared {
			continue
		}
		s = append(s, State{r.Scope + ".bias", r.Bias}, State{r.Scope + tokensState, r.Tokens})
	}
	s = append(s, t.scales()...)
	for _, stream := range t.weights.Streams() {
		s = append(s, State{streamState + stream.Name, stream.State})
	}
	return append(s, State{positionState, numberTensor(t.consumed)})
}

// Shown lists the states, and the copies of weights that follow from them.
func (t *Trainer) Shown() []State { return append(t.States(), t.copies()...) }

func (t *Trainer) showsState() bool { return t.StateAt != nil && t.StateAt(t.step) }

// records shows every tensor at the start of a traced window.
func (t *Trainer) records() {
	if !t.showsState() {
		return
	}
	t.dev.At(t.step, 0, device.Init)
	dev := t.dev.In("state")
	for _, s := range t.Shown() {
		c := dev.OpenKind(device.State, s.Name, stateKernel)
		c.Update("value", s.Tensor)
		c.Do()
	}
}

// stateDigest is XXH3-128 over the names and digests of all states, shown as a metric record. Where
// a traced window starts it shows what it read: of what changed after its last Call, nothing else tells.
func (t *Trainer) stateDigest() string {
	c := t.dev.OpenKind(device.Metric, "state", valueKernel)
	if t.showsState() {
		for _, s := range t.Shown() {
			c.Read(s.Name, s.Tensor)
		}
	}
	out := c.Write("digest", lowp.INT32, 4)
	if c.Body == nil {
		c.Body = func(c *device.Call) { t.fingerprint(c.Out[0].I32()) }
	}
	c.Do()
	return hex.EncodeToString(out.Bytes(nil))
}

func (t *Trainer) fingerprint(dst []int32) {
	h := xxh3.New()
	for _, s := range t.Shown() {
		if need := 8 * s.Len(); cap(t.buf) < need {
			t.buf = make([]byte, 0, need)
		}
		d := s.Digest(t.buf)
		_, _ = h.WriteString(s.Name) // a hash does not fail
		_, _ = h.Write(d[:])
	}
	sum := h.Sum128().Bytes()
	for i := range dst {
		dst[i] = int32(binary.LittleEndian.Uint32(sum[4*i:]))
	}
}

// nonFinite names the first state that holds a NaN or an infinity; empty: none. Not every such state shows in a metric: what is left of a second
// moment that overflowed is a weight that stays, and a router's bias only decides.
func (t *Trainer) nonFinite() string {
	if t.floats == nil {
		for _, s := range t.States() {
			if s.Format.Float() {
				t.floats = append(t.floats, s)
			}
		}
	}
	for _, s := range t.floats {
		if i := s.NonFinite(); i >= 0 {
			return fmt.Sprintf("%s[%d]", s.Name, i)
		}
	}
	return ""
}
