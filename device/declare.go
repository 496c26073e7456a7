package device

import (
	"fmt"
	"slices"
	"strings"
	"unsafe"

	"firstbit/libm"
)

// ArgNames declares by name what a Kernel reads or writes, in the order in which a Call gives it.
type ArgNames struct{ list []argName }

// argName is one name of a declaration.
type argName struct {
	name   string
	absent bool // a Call may do without
	many   bool // any number of arguments, none included
}

// others is the name in a declaration of arguments whose names are the Call's own.
const others = "*"

// Names reads a declaration, such as "x dy offsets? part...". A Call gives x exactly once, x? at most once, x... any number of
// times; * stands last, for any number of arguments under names of the Call's own.
func Names(s string) ArgNames {
	var a ArgNames
	for _, word := range strings.Fields(s) {
		n := argName{name: word}
		switch {
		case word == others:
			n.absent, n.many = true, true
		case strings.HasSuffix(word, "..."):
			n = argName{strings.TrimSuffix(word, "..."), true, true}
		case strings.HasSuffix(word, "?"):
			n = argName{strings.TrimSuffix(word, "?"), true, false}
		}
		if n.name == "" || n.name != others && (strings.ContainsAny(n.name, "?*,") || strings.Contains(n.name, "..")) || a.find(others) >= 0 || a.find(n.name) >= 0 {
			panic("device: a declaration of arguments that cannot be: " + s)
		}
		a.list = append(a.list, n)
	}
	return a
}

// Taking is the same entry of the library, with its plans and outputs, for other inputs and scalars.
func (k *Kernel) Taking(in, scalars ArgNames, run func(*Call)) *Kernel {
	v := *k
	v.In, v.Scalars, v.Run = in, scalars, run
	return &v
}

func (a ArgNames) find(name string) int {
	return slices.IndexFunc(a.list, func(n argName) bool { return n.name == name })
}

// argument is an Arg or a Scalar.
type argument interface{ label() string }

func (a Arg) label() string    { return a.Name }
func (s Scalar) label() string { return s.Name }

// refuse says what is wrong with arguments; empty: they are as declared.
func refuse[A argument](a ArgNames, args []A) string {
	next := 0
	for i, arg := range args {
		name := arg.label()
		at := next
		for at < len(a.list) && a.list[at].absent && a.list[at].name != name && a.list[at].name != others {
			at++
		}
		if at == len(a.list) || a.list[at].name != name && a.list[at].name != others {
			return misplaced(a, name, args[:i], next)
		}
		if next = at; !a.list[at].many {
			next++
		}
	}
	for _, n := range a.list[next:] {
		if !n.absent {
			return n.name + " is missing"
		}
	}
	return ""
}

// misplaced says why an argument cannot come after those before it, the declared name next being the first that still can.
func misplaced[A argument](a ArgNames, name string, before []A, next int) string {
	switch at := a.find(name); {
	case at < 0:
		return name + " is not declared"
	case slices.ContainsFunc(before, func(b A) bool { return b.label() == name }):
		return name + " is given twice"
	case at < next:
		return name + " comes too late"
	}
	return a.list[next].name + " is missing before " + name
}

// check panics unless the Call's arguments are those that its Kernel declares.
func (c *Call) check() {
	for _, kind := range []struct{ name, wrong string }{
		{"input", refuse(c.Kernel.In, c.In)}, {"scalar", refuse(c.Kernel.Scalars, c.Scalars)}, {"output", refuse(c.Kernel.Out, c.Out)},
	} {
		if kind.wrong != "" {
			panic(fmt.Sprintf("device: %s (%s): %s %s", c.from, c.Kernel.Name, kind.name, kind.wrong))
		}
	}
	c.checked, c.fresh = counts{len(c.In), len(c.Scalars), len(c.Out)}, false
}

// counts are the numbers of inputs, scalars and outputs of a Call that were as declared.
type counts struct{ in, scalars, out int }

// Input is the tensor read under a name; nil: the Call does without.
func (c *Call) Input(name string) *Tensor {
	if t := find(c.In, name); t != nil {
		return t
	}
	c.Kernel.In.without(c.Kernel, name)
	return nil
}

// Output is the tensor written under a name; nil: the Call does without.
func (c *Call) Output(name string) *Tensor {
	if t := find(c.Out, name); t != nil {
		return t
	}
	c.Kernel.Out.without(c.Kernel, name)
	return nil
}

// Scalar is the scalar of a name; 0: the Call does without.
func (c *Call) Scalar(name string) float64 {
	for i := range c.Scalars {
		if identical(c.Scalars[i].Name, name) {
			return c.Scalars[i].Value
		}
	}
	for i := range c.Scalars {
		if c.Scalars[i].Name == name {
			return c.Scalars[i].Value
		}
	}
	c.Kernel.Scalars.without(c.Kernel, name)
	return 0
}

// Has tells whether the Call reads a tensor of that name.
func (c *Call) Has(name string) bool { return c.Input(name) != nil }

// without panics unless a Call may do without an argument of that name.
func (a ArgNames) without(k *Kernel, name string) {
	for i := range a.list {
		if n := &a.list[i]; n.absent && !n.many && same(n.name, name) {
			return
		}
	}
	panic("device: " + k.Name + " asks for " + name + ", which it does not declare as one that may be absent")
}

// In is the storage, at the kernel's width, of the tensor read under a name; nil: the Call does without.
func In[T libm.Float](c *Call, name string) []T { return elements[T](c.Input(name)) }

// Out is the storage, at the kernel's width, of the tensor written under a name; nil: the Call does without.
func Out[T libm.Float](c *Call, name string) []T { return elements[T](c.Output(name)) }

func elements[T libm.Float](t *Tensor) []T {
	if t == nil {
		return nil
	}
	return Data[T](t)
}

// Inputs are the tensors that the Kernel declares as name..., or as *, in the order of the Call.
func (c *Call) Inputs(name string) []Arg { return c.Kernel.In.run(c.In, name) }

// Outputs are Inputs of what is written.
func (c *Call) Outputs(name string) []Arg { return c.Kernel.Out.run(c.Out, name) }

// run is where the arguments of a list stand, which follow one another.
func (a ArgNames) run(args []Arg, name string) []Arg {
	at := a.find(name)
	if at < 0 || !a.list[at].many {
		panic("device: " + name + " is not declared as a list")
	}
	lo := 0
	for lo < len(args) && a.find(args[lo].Name) >= 0 && a.find(args[lo].Name) < at {
		lo++
	}
	hi := lo
	for hi < len(args) && (name == others || args[hi].Name == name) {
		hi++
	}
	return args[lo:hi]
}

// find is the tensor of a name; nil: there is none. Nearly always both names are one constant of the program, and no bytes are compared.
func find(args []Arg, name string) *Tensor {
	for i := range args {
		if identical(args[i].Name, name) {
			return args[i].Tensor
		}
	}
	for i := range args {
		if args[i].Name == name {
			return args[i].Tensor
		}
	}
	return nil
}

func identical(a, b string) bool {
	return len(a) == len(b) && unsafe.StringData(a) == unsafe.StringData(b)
}

func same(a, b string) bool { return identical(a, b) || a == b }
