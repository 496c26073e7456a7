package libm

// The functions of this file fill dst with a function of each element of src, whose bits are
// those of the function of one. dst and src are the same elements or have none in common.

// ExpSlice is ExpOf of each element.
func ExpSlice[T Float](dst, src []T) { apply(exps, dst, src) }

// SigmoidSlice is Sigmoid of each element.
func SigmoidSlice[T Float](dst, src []T) { apply(sigmoids, dst, src) }

// SiLUSlice is SiLU of each element.
func SiLUSlice[T Float](dst, src []T) { apply(silus, dst, src) }

// function is a function that has a form for vector registers.
type function int

const (
	exps function = iota
	sigmoids
	silus
)

const (
	// width is how many elements go through vector registers at a time.
	width = 8
	// worthLanes is how many elements at the end of a slice are through sooner in lanes, some of
	// them idle, than one by one.
	worthLanes = 4
)

func apply[T Float](f function, dst, src []T) {
	dst = dst[:len(src)] // the lanes check no bounds
	if vectorised {
		switch d := any(dst).(type) {
		case []float32:
			inLanes(f, d, any(src).([]float32))
			return
		case []float64:
			inLanes(f, d, any(src).([]float64))
			return
		}
	}
	each(f, dst, src)
}

// each computes elements one by one. It is what the lanes are held to.
func each[T Float](f function, dst, src []T) {
	switch f {
	case exps:
		for i, x := range src {
			dst[i] = ExpOf(x)
		}
	case sigmoids:
		for i, x := range src {
			dst[i] = Sigmoid(x)
		}
	case silus:
		for i, x := range src {
			dst[i] = SiLU(x)
		}
	}
}

// inLanes computes eight elements at a time, and those eight one by one that are not all plain.
func inLanes[T float32 | float64](f function, dst, src []T) {
	whole := len(src) &^ (width - 1)
	for at := 0; at < whole; {
		at += lanes(f, &dst[at], &src[at], whole-at)
		if at < whole {
			each(f, dst[at:at+width], src[at:at+width])
			at += width
		}
	}
	dst, src = dst[whole:], src[whole:]
	if len(src) >= worthLanes {
		var spare [width]T
		copy(spare[:], src)
		if lanes(f, &spare[0], &spare[0], width) == width {
			copy(dst, spare[:])
			return
		}
	}
	each(f, dst, src)
}

// lanes computes n elements, a multiple of eight, up to the first eight that are not all plain. It
// returns how many it computed.
func lanes[T float32 | float64](f function, dst, src *T, n int) int {
	switch d := any(dst).(type) {
	case *float32:
		s := any(src).(*float32)
		switch f {
		case exps:
			return exp32(d, s, n)
		case sigmoids:
			return sigmoid32(d, s, n)
		}
		return silu32(d, s, n)
	case *float64:
		s := any(src).(*float64)
		switch f {
		case exps:
			return exp64(d, s, n)
		case sigmoids:
			return sigmoid64(d, s, n)
		}
		return silu64(d, s, n)
	}
	return 0
}
