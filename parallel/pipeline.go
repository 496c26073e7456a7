package parallel

import "fmt"

// Step is one microbatch through one run of layers of a pipeline stage.
type Step struct {
	Backward bool
	Micro    int
	Chunk    int // which of the stage's runs of layers: run c of stage s is number c·pp + s of the model's
}

// CheckMicros says why so many microbatches a step cannot go through the layout's pipeline.
func (l Layout) CheckMicros(micros int) error {
	l = l.Full()
	if l.VPP > 1 && micros%l.PP != 0 {
		return fmt.Errorf("micro: %d: must be a multiple of pp = %d where vpp = %d, such as %d", micros, l.PP, l.VPP, (micros/l.PP+1)*l.PP)
	}
	return nil
}

// Ahead is how many forwards a stage does before its first forward and backward in turn, where there are so many.
func Ahead(pp, vpp, stage int) int {
	ahead := pp - stage - 1
	if vpp > 1 {
		ahead = 2*ahead + (vpp-1)*pp
	}
	return ahead
}

// Pipeline is what a stage does in a step, in order: forwards until the first gradient can be back, then one forward and one
// backward in turn, then the backwards that are left (1F1B). With several chunks, pp microbatches go through one before the next
// has its turn, backward from the last.
//
// Source: Narayanan et al. 2021, "Efficient large-scale language model training on GPU clusters using Megatron-LM", and Megatron's
// number of forwards ahead.
func Pipeline(pp, vpp, stage, micros int) []Step {
	if err := (Layout{PP: pp, VPP: vpp}).CheckMicros(micros); err != nil {
		panic("parallel: " + err.Error())
	}
	total := micros * vpp
	ahead := min(Ahead(pp, vpp, stage), total)
	at := func(k int, backward bool) Step {
		if vpp == 1 {
			return Step{backward, k, 0}
		}
		round, k := k/(pp*vpp), k%(pp*vpp)
		s := Step{backward, round*pp + k%pp, k / pp}
		if backward {
			s.Chunk = vpp - 1 - s.Chunk
		}
		return s
	}
	steps := make([]Step, 0, 2*total)
	for k := range total + ahead {
		if k < total {
			steps = append(steps, at(k, false))
		}
		if k >= ahead {
			steps = append(steps, at(k-ahead, true))
		}
	}
	return steps
}
