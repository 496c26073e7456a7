package train

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/zeebo/xxh3"

	"firstbit/device"
	"firstbit/lowp"
	"firstbit/state"
)

var (
	stateKernel  = &device.Kernel{Name: "state", In: device.Names("value"), Out: device.Names("value")}
	digestKernel = &device.Kernel{Name: "value", In: device.Names("*"), Out: device.Names("digest")}
)

// shown is what a trainer shows of its state, and when.
type shown struct {
	// StateAt says before which steps every tensor is shown as a state record; nil: none.
	StateAt func(step int) bool
	// ReadAt says after which steps the fingerprint of all state shows what it read; nil: after none.
	ReadAt func(step int) bool
	// Digest makes every step end with a fingerprint of the whole state.
	Digest bool

	buf     []byte
	listed  []device.Held // by the fingerprint
	lasting []device.Held // states in tensors that are the same in every step
	floats  []device.Held // those that can be NaN
}

// Names of the states of the run itself.
const (
	positionState     = "data.consumed"
	stepState         = "train.step"
	optimStepState    = "optim.step"  // how many updates there were: moments are corrected by it
	ratePositionState = "lr.position" // in the schedule of the learning rate
)

// States lists the pieces of the run's state that this rank has, in one order, of the roles that are wanted. Gradients are there once a step
// has made some. Numbers of the trainer are copies.
func (t *Trainer) States(want func(state.Role) bool) []device.Held { return t.appendStates(nil, want) }

// appendStates is States into memory that there is: the fingerprint lists them after every step.
func (t *Trainer) appendStates(all []device.Held, want func(state.Role) bool) []device.Held {
	if t.lasting == nil {
		t.lasting = t.lastingStates()
	}
	all = slices.Grow(all, len(t.lasting)+3)
	for i := range t.lasting {
		if want(t.lasting[i].Role) {
			all = append(all, t.lasting[i])
		}
	}
	number := func(name string, r state.Role, n int64) {
		if want(r) {
			x := device.Number(n)
			all = append(all, device.Held{Item: state.Item{Name: name, Role: r, Place: state.Place{Whole: x.Shape()}}, Tensor: x})
		}
	}
	number(positionState, state.Iterator, t.consumed)
	if want(state.Copy) {
		all = append(all, t.copies()...)
	}
	number(stepState, state.Counter, int64(t.step))
	number(optimStepState, state.Counter, int64(t.updates))
	if want(state.Gradient) {
		all = append(all, t.Optim.Gradients()...)
	}
	return all
}

// lastingStates lists the pieces that are in the same tensors in every step.
func (t *Trainer) lastingStates() (all []device.Held) {
	add := func(i state.Item, x *device.Tensor) { all = append(all, device.Held{Item: i, Tensor: x}) }
	whole := func(of string, r state.Role, x *device.Tensor) {
		add(state.New(of, r, state.Place{Whole: x.Shape()}), x)
	}
	held := t.Optim.States()
	for _, p := range t.weights.Params() {
		add(state.New(p.Name, state.Weight, p.Place), p.W)
		all = append(all, held[p]...)
	}
	for _, r := range t.Routers() {
		if !r.Shared {
			whole(r.Scope, state.RouterBias, r.Bias)
			whole(r.Scope, state.RouterTokens, r.Tokens)
		}
	}
	for _, d := range t.weights.Delayed() {
		whole(d.Name, state.AmaxHistory, d.History)
		whole(d.Name, state.Scale, d.Scale)
	}
	for _, s := range t.weights.Streams() {
		add(state.New(s.Name, state.RandomStream, state.Place{Stream: s.Name + t.of(s.Name)}), s.State)
	}
	run := func(name string, r state.Role, x *device.Tensor) {
		add(state.Item{Name: name, Role: r, Place: state.Place{Whole: x.Shape()}}, x)
	}
	run(ratePositionState, state.Position, t.schedule.Position)
	if s := t.Optim.Scale; s != nil {
		run("loss_scale.scale", state.LossScale, s.Scale)
		run("loss_scale.growth_tracker", state.LossScale, s.Growth)
		run("loss_scale.hysteresis_tracker", state.LossScale, s.Hysteresis)
	}
	return all
}

func (t *Trainer) showsState() bool { return t.StateAt != nil && t.StateAt(t.step) }

// records shows every tensor at the start of a traced window.
func (t *Trainer) records() {
	if !t.showsState() {
		return
	}
	t.dev.At(t.step, 0, device.Init)
	dev := t.dev.In("state")
	for _, s := range t.States(state.Role.Shown) {
		c := dev.OpenState(device.State, s, stateKernel)
		c.Read("value", s.Tensor)
		c.Update("value", s.Tensor)
		c.Do()
	}
}

// stateDigest is XXH3-128 over the names and digests of all states, shown as a metric record. Where
// a traced window starts and ends it shows what it read: of what changed after its last Call, nothing else tells.
func (t *Trainer) stateDigest() string {
	c := t.dev.OpenKind(device.Metric, "state", digestKernel)
	if t.ReadAt != nil && t.ReadAt(t.step) {
		for _, s := range t.States(state.Role.Shown) {
			c.Read(s.Name, s.Tensor)
		}
	}
	out := c.Write("digest", lowp.INT32, 4)
	if c.Body == nil {
		c.Body = func(c *device.Call) { t.fingerprint(c.Output("digest").I32()) }
	}
	c.Do()
	return hex.EncodeToString(out.Bytes(nil))
}

func (t *Trainer) fingerprint(dst []int32) {
	h := xxh3.New()
	t.listed = t.appendStates(t.listed[:0], state.Role.Shown)
	for _, s := range t.listed {
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
		for _, s := range t.States(state.Role.Decides) {
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
