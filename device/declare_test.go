package device

import (
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/lowp"
)

var picky = &Kernel{Name: "picky", In: Names("x dy? part... w"), Scalars: Names("k? eps"), Out: Names("y *")}

// call sends a Call of picky with arguments of these names through the door.
func call(d *Device, step int, in, scalars, out []string) *Call {
	d.At(step, 0, Fwd)
	c := d.In("layers.0").Open("picky", picky)
	for _, name := range in {
		c.Read(name, NewTensor(lowp.FP32, 1))
	}
	for i, name := range scalars {
		c.ReadScalar(name, float64(i+1))
	}
	for _, name := range out {
		c.Write(name, lowp.FP32, 1)
	}
	c.Do()
	return c
}

// The door refuses a Call whose arguments are not what its Kernel declares, also at a site whose Calls were as declared before.
func TestDoorHoldsCallsToTheirKernels(t *testing.T) {
	type names = []string
	d, step := New(Options{}), 0
	run := func(in, scalars, out names) func() {
		return func() { step++; call(d, step, in, scalars, out) }
	}
	for _, c := range []struct {
		in, scalars, out names
		wrong            string // empty: nothing
	}{
		{names{"x", "w"}, names{"eps"}, names{"y"}, ""},
		{names{"x", "dy", "part", "part", "w"}, names{"k", "eps"}, names{"y", "a", "b"}, ""},
		{names{"x", "part", "w"}, names{"eps"}, names{"y", "y"}, ""},
		{names{"x", "z", "w"}, names{"eps"}, names{"y"}, "input z is not declared"},
		{names{"x", "dy", "dy", "w"}, names{"eps"}, names{"y"}, "input dy is given twice"},
		{names{"x", "w", "w"}, names{"eps"}, names{"y"}, "input w is given twice"},
		{names{"x", "part", "dy", "w"}, names{"eps"}, names{"y"}, "input dy comes too late"},
		{names{"w"}, names{"eps"}, names{"y"}, "input x is missing before w"},
		{names{"x", "part"}, names{"k", "eps"}, names{"y", "a"}, "input w is missing"},
		{names{"x", "part", "w"}, names{"k"}, names{"y", "a"}, "scalar eps is missing"},
		{names{"x", "w"}, names{"eps", "k"}, names{"y"}, "scalar k comes too late"},
		{names{"x", "part", "w"}, names{"k", "eps"}, nil, "output y is missing"},
		{names{"x", "part", "w"}, names{"k", "eps", "k"}, names{"y", "a"}, "scalar k is given twice"},
		{names{"x", "part", "w"}, names{"k", "z"}, names{"y", "a"}, "scalar z is not declared"},
		{names{"x", "part", "w"}, names{"k", "eps"}, names{"b", "y"}, "output b is not declared"},
		{names{"x", "w"}, names{"eps"}, names{"a", "y"}, "output a is not declared"},
		{names{"x", "w"}, names{"eps"}, names{"y"}, ""},
	} {
		require.NotPanics(t, run(names{"x", "part", "w"}, names{"k", "eps"}, names{"y", "a"}))
		if c.wrong == "" {
			require.NotPanics(t, run(c.in, c.scalars, c.out), "%v", c)
			continue
		}
		require.PanicsWithValue(t, "device: fwd layers.0.picky (picky): "+c.wrong, run(c.in, c.scalars, c.out))
	}
}

// A kernel asks by name, for what it declares. Of what a Call may do without there is nil, and 0.
func TestArgumentsByName(t *testing.T) {
	d := New(Options{})
	c := call(d, 1, []string{"x", "part", "part", "w"}, []string{"eps"}, []string{"y", "a", "b"})
	require.Same(t, c.In[3].Tensor, c.Input("w"))
	require.Equal(t, c.In[1:3], c.Inputs("part"))
	require.Equal(t, c.Out[1:], c.Outputs("*"))
	require.Len(t, In[float32](c, "x"), 1)
	require.Len(t, Out[float32](c, "y"), 1)
	require.EqualValues(t, 1, c.Scalar("eps"))

	require.False(t, c.Has("dy"))
	require.Nil(t, c.Input("dy"))
	require.Nil(t, In[float32](c, "dy"))
	require.Zero(t, c.Scalar("k"))
	for _, ask := range []func(){
		func() { c.Input("z") }, func() { c.Output("x") }, func() { c.Scalar("z") }, func() { c.Inputs("x") },
	} {
		require.NotPanics(t, func() { c.Input("x") })
		require.Panics(t, ask)
	}
	c = call(d, 2, []string{"x", "w"}, []string{"k", "eps"}, []string{"y"})
	require.Empty(t, c.Inputs("part"))
	require.Panics(t, func() { c.Input("part") }, "a list is asked for as one")
	require.Empty(t, c.Outputs("*"))
	require.EqualValues(t, 1, c.Scalar("k"))
}

func TestDeclarations(t *testing.T) {
	require.Equal(t, ArgNames{}, Names(""))
	for _, bad := range []string{"x x", "x? x", "?", "...", "* x", "* *", "x??", "x?...", "x...?", "x,y"} {
		require.Panics(t, func() { Names(bad) }, bad)
	}
}

// A label belongs to one kernel.
func TestLabelOfAnotherKernelPanics(t *testing.T) {
	d, other := New(Options{}), &Kernel{Name: "other"}
	d.At(1, 0, Fwd)
	d.Open("y", picky)
	d.At(2, 0, Fwd)
	require.PanicsWithValue(t, "device: fwd y is a Call of the kernel picky: it was opened with another, other", func() { d.Open("y", other) })
	require.NotPanics(t, func() { d.Open("y", picky) })
}
