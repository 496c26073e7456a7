package train

import (
	"firstbit/checkpoint"
	"firstbit/nn"
	"firstbit/rng"
	"firstbit/state"
)

// Reshard cuts this rank's part from a run's whole state after a step, for Restore. A stream that no rank drew from yet is seeded by the
// step, so that it repeats nothing; anew lists those.
func (t *Trainer) Reshard(step int, w *checkpoint.Whole) (f *checkpoint.File, anew []string, err error) {
	var tensors []checkpoint.Tensor
	for _, s := range t.States(state.Role.Saved) {
		if stream := s.Place.Stream; stream != "" {
			x, ok := w.Stream(stream)
			if !ok {
				fresh := nn.NewStream(stream)
				fresh.Seed(rng.New(t.Seed, stream, uint64(step)))
				x = checkpoint.Of(s.Name, fresh.State)
				anew = append(anew, stream)
			}
			x.Name = s.Name
			tensors = append(tensors, x)
			continue
		}
		x, err := w.Part(s.Name, s.Place, s.Shape())
		if err != nil {
			return nil, nil, err
		}
		tensors = append(tensors, x)
	}
	return checkpoint.FileOf(tensors), anew, nil
}
