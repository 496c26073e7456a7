package run

import "math"

// rests is how many sorts of values there are for what of an operand is no leaf.
const rests = 3

// rest is values for what of an operand is no leaf: nothing, as it was, or rows whose exponentials add up to 1.
func (f *finder) rest(input, sort int) []float32 {
	given := f.members[0].given[input]
	if sort == 1 {
		return given
	}
	x := make([]float32, len(given))
	if cols := f.members[0].in[input].Cols(); sort == 2 {
		for e := range x {
			if e%cols > 0 {
				x[e] = nothing
			}
		}
	}
	return x
}

// base is values for the operands other than the one that has the leaves: ones, as the run had them, ones but for one operand that is
// nothing or has its first column alone, and then others by chance.
func (f *finder) base(input, attempt int) operands {
	m := f.members[0]
	all := make([][]float32, len(m.given))
	for i, given := range m.given {
		if given == nil {
			continue
		}
		all[i] = make([]float32, len(given))
		if i == input {
			continue
		}
		kind := attempt
		switch {
		case attempt == 2+i: // ones but for one operand
			kind = 4
		case attempt == 2+len(m.given)+i:
			kind = 2
		case attempt > 1 && attempt < 2+2*len(m.given):
			kind = 0
		case attempt > 1:
			kind = f.rng.IntN(7)
		}
		cols := m.in[i].Cols()
		hot := f.rng.IntN(max(cols, 1))
		for e := range all[i] {
			switch kind {
			case 0: // ones
				all[i][e] = 1
			case 1: // as the run had them
				all[i][e] = given[e]
			case 2: // the first column
				if e%cols == 0 {
					all[i][e] = 1
				}
			case 3: // another
				if e%cols == hot {
					all[i][e] = 1
				}
			case 4: // nothing
			case 5:
				all[i][e] = float32(math.Ldexp(1, f.rng.IntN(7)-3)) * float32(1-2*f.rng.IntN(2))
			case 6:
				all[i][e] = 1
			}
		}
	}
	return operands{all}
}

// random are values for an operand at which all depends on all.
func (f *finder) random(n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(f.rng.NormFloat64())
	}
	return x
}
