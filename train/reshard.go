package train

import (
	"firstbit/checkpoint"
	"firstbit/nn"
	"firstbit/rng"
	"firstbit/state"
)

// places says where what this rank has of each state lies in the whole of it. A state that is not listed every rank has whole.
func (t *Trainer) places() map[string]state.Place {
	at := map[string]state.Place{}
	held := t.Optim.States()
	for _, p := range t.weights.Params() {
		place := p.Place
		at[p.Name] = place
		for _, h := range held[p] {
			place.Lo = h.Lo
			at[p.Name+".master"], at[p.Name+".m"], at[p.Name+".v"] = place, place, place
		}
	}
	for _, s := range t.weights.Streams() {
		at[streamState+s.Name] = state.Place{Stream: s.Name + t.of(s.Name)}
	}
	return at
}

func placeOf(at map[string]state.Place, s State) state.Place {
	if p, ok := at[s.Name]; ok {
		return p
	}
	return state.Place{Whole: s.Shape()}
}

// Reshard cuts this rank's part from a run's whole state after a step, for Restore. A stream that no rank drew from yet is seeded by the
// step, so that it repeats nothing; anew lists those.
func (t *Trainer) Reshard(step int, w *checkpoint.Whole) (f *checkpoint.File, anew []string, err error) {
	at := t.places()
	var tensors []checkpoint.Tensor
	for _, s := range t.saved() {
		p := placeOf(at, s)
		if p.Stream != "" {
			x, ok := w.Stream(p.Stream)
			if !ok {
				fresh := nn.NewStream(p.Stream)
				fresh.Seed(rng.New(t.Seed, p.Stream, uint64(step)))
				x = checkpoint.Of(s.Name, fresh.State)
				anew = append(anew, p.Stream)
			}
			x.Name = s.Name
			tensors = append(tensors, x)
			continue
		}
		x, err := w.Part(s.Name, p, s.Shape())
		if err != nil {
			return nil, nil, err
		}
		tensors = append(tensors, x)
	}
	return checkpoint.FileOf(tensors), anew, nil
}
