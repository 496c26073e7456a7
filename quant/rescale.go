package quant

import (
	"firstbit/device"
	"firstbit/lowp"
)

// factorsOf are what undoes the scales of an input's rows, or of a weight's experts: one for all, or one each. nil: blocks have all that there is.
func factorsOf(c *device.Call, name string) []float32 {
	switch s := c.Input(scalesOf[name]); s.Format {
	case lowp.FP32:
		return s.F32()
	case lowp.E8M0:
		return nil
	}
	return c.Input(globalOf[name]).F32()
}

// Rescale multiplies sums of products of the inputs a and b with what is the same for all of them, or for a row of a, the first being row lo. Of
// experts' weights b has a scale for each.
func Rescale(c *device.Call, y []float32, a, b string, lo, expert int) {
	fa, fb := factorsOf(c, a), factorsOf(c, b)
	if fa == nil || len(y) == 0 {
		return
	}
	of := fb[min(expert, len(fb)-1)]
	factor := func(f float32) float32 {
		if c.Input(scalesOf[a]).Format == lowp.FP32 {
			return f * of
		}
		return float32(f*of) * (1.0 / (2688 * 2688))
	}
	n := len(y)
	if len(fa) > 1 {
		n, fa = c.Output(c.Out[0].Name).Cols(), fa[lo:]
	}
	for r := 0; r*n < len(y); r++ {
		f := factor(fa[r])
		for i, v := range y[r*n:][:n] {
			y[r*n+i] = v * f
		}
	}
}

// ByRow tells whether an input's rows have factors of their own, which enter a sum over rows by its terms.
func ByRow(c *device.Call, name string) bool {
	f := factorsOf(c, name)
	return f != nil && len(f) != 1
}

// UnpackRows is Unpack, each row multiplied with what undoes its scale: a power of two, so nothing is rounded.
func UnpackRows(c *device.Call, name string) Unpacked {
	t, factors := c.Input(name), factorsOf(c, name)
	u := Unpacked{from: unpacking.Get().(*[]float32)}
	u.F32 = grow(u.from, t.Len())
	*u.from = u.F32
	one := float32(1)
	if t.Format == lowp.E2M1 {
		unpack(u.F32, t, c.Input(scalesOf[name]), AlongColumns, nil)
		one = 2688
	} else {
		copy(u.F32, t.F32())
	}
	d := t.Cols()
	for r, f := range factors {
		f /= one
		for i, v := range u.F32[r*d:][:d] {
			u.F32[r*d+i] = v * f
		}
	}
	return u
}
