package nn

import (
	"firstbit/device"
	"firstbit/rng"
)

// Rows are the tokens of the global batch that the rows of a microbatch belong to on this rank. Indexed draws depend on
// nothing else of the layout, so that a token has the same mask wherever it lies. With tensor parallelism a rank has a run of
// the rows that its part of the sequences has, sequence after sequence.
type Rows struct {
	Seed   uint64
	Sample int64 // number, within the run, of the microbatch's first sequence
	Token  int   // position of the first token of the rank's part of a sequence
	Tokens int   // of that part
	First  int   // the rank's first row among those of these parts
}

// at is the sample and the position of row i.
func (r Rows) at(i int) (sample, token uint64) {
	i += r.First
	return uint64(r.Sample) + uint64(i/r.Tokens), uint64(r.Token + i%r.Tokens)
}

// draw draws a mask for x from a stream for each of its rows.
func (r *Rows) draw(d *device.Device, label string, k *device.Kernel, rate float64, x *device.Tensor) *device.Tensor {
	c := d.OpenKind(device.Draw, label, k)
	c.ReadScalar("rate", rate)
	c.ReadScalar("seed.high", float64(r.Seed>>32)) // a seed has more bits than a scalar
	c.ReadScalar("seed.low", float64(uint32(r.Seed)))
	c.ReadScalar("step", float64(c.ID.Step))
	c.ReadScalar("sample", float64(r.Sample))
	c.ReadScalar("token", float64(r.Token))
	c.ReadScalar("tokens", float64(r.Tokens))
	c.ReadScalar("first", float64(r.First))
	mask := c.Write("mask", MasterFormat(x.Format), x.Shape()...)
	c.Do()
	return mask
}

// runIndexed fills each row of a mask from a stream keyed by (seed, name, scope, step, sample, token).
func runIndexed(name string, value factor) func(*device.Call) {
	return func(c *device.Call) {
		r := Rows{Sample: int64(c.Scalar("sample")), Token: int(c.Scalar("token")), Tokens: int(c.Scalar("tokens")), First: int(c.Scalar("first"))}
		r.Seed = uint64(c.Scalar("seed.high"))<<32 | uint64(c.Scalar("seed.low"))
		scope, step, s := rng.HashString(c.Scope), uint64(c.Scalar("step")), rng.New(r.Seed, name)
		value.fill(c, func(row int) *rng.Stream {
			sample, token := r.at(row)
			s.Seek(r.Seed, scope, step, sample, token)
			return s
		})
	}
}
