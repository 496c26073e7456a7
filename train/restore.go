package train

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"

	"github.com/zeebo/xxh3"

	"firstbit/checkpoint"
	"firstbit/data"
	"firstbit/device"
	"firstbit/model"
	"firstbit/nn"
	"firstbit/state"
)

// Done is the number of the last step.
func (t *Trainer) Done() int { return t.step }

// Save is all that a checkpoint carries of this rank, to be written before the next step.
func (t *Trainer) Save() []checkpoint.Tensor {
	states := t.States(state.Role.Saved)
	tensors := make([]checkpoint.Tensor, len(states))
	for i, s := range states {
		tensors[i] = checkpoint.View(s.Name, s.Tensor).At(s.Place)
	}
	return tensors
}

// loadKernel shows a state that comes from a file: from a checkpoint, or with the weights that a run begins with.
var loadKernel = &device.Kernel{Name: "load", Out: device.Names("value")}

// Restore takes over what Save returned after a step, tensor by tensor through the door, and makes the weights of the masters, and their copies, again. A
// file that lacks one, or has another, is refused and changes nothing. What a fault may have made of them on their way is refused where no
// run can have it: see counters.go.
func (t *Trainer) Restore(step int, f *checkpoint.File) error {
	states := t.States(state.Role.Saved)
	from := make([]checkpoint.Tensor, len(states))
	known := map[string]bool{}
	for i, s := range states {
		x, ok := f.Tensor(s.Name)
		if !ok && s.Name == optimStepState { // of a checkpoint from before it was saved, when it was the trainer's
			x, ok = f.Tensor(stepState)
		}
		if !ok {
			return wrong(s.Name, "is missing")
		}
		if err := x.Fits(s.Tensor); err != nil {
			return &StateError{s.Name, err}
		}
		from[i], known[s.Name] = x, true
	}
	for _, x := range f.Tensors {
		if !known[x.Name] {
			return wrong(x.Name, "the run has no place for it")
		}
	}
	t.dev.At(step, 0, device.Load)
	for i, s := range states {
		c := t.dev.OpenState(device.Loading, s, loadKernel)
		c.Update("value", s.Tensor)
		c.Body = func(*device.Call) { from[i].CopyTo(s.Tensor) }
		c.Do()
		if err := t.adopt(s); err != nil {
			return err
		}
	}
	t.Optim.Gather(t.dev.In("weights"))
	t.quantise(true)
	return nil
}

// Manifest says what of a configuration and its corpus a checkpoint depends on.
func (c Config) Manifest(corpus *data.Corpus) (checkpoint.Manifest, error) {
	var m checkpoint.Manifest
	format, err := c.Format()
	if err != nil {
		return m, err
	}
	m.Precision = c.Precision
	m.Formats = map[string]string{"weights": format.String(), "masters": nn.MasterFormat(format).String()}
	if scheme, ok := schemes[c.Precision]; ok {
		m.Formats["linear"] = scheme.Formats()
	}
	if m.Config, err = json.Marshal(c); err != nil {
		return m, err
	}
	b := make([]byte, 0, 2*len(corpus.Tokens))
	for _, token := range corpus.Tokens {
		b = binary.LittleEndian.AppendUint16(b, token)
	}
	if c.Documents.Any() {
		for _, at := range corpus.Documents {
			b = binary.LittleEndian.AppendUint32(b, uint32(at))
		}
	}
	sum := xxh3.Hash128(b).Bytes()
	m.Corpus = hex.EncodeToString(sum[:])
	if c.Weights == "" {
		return m, nil
	}
	of, err := model.New(c.Model, format)
	if err != nil {
		return m, err
	}
	m.Weights, err = checkpoint.DigestWeights(c.Weights, of)
	return m, err
}
