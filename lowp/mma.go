package lowp

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"firstbit/spell"
)

// Operands are the formats of what a matrix instruction multiplies: of elements, and of the scales of their blocks. Scale
// is FP32 where elements have no scales that the instruction knows of.
type Operands struct{ A, B, Scale Format }

// MMA is the fused sum of a tensor core: what one of its instructions adds at once, or each of the equal parts of an
// instruction that works in parts.
type MMA struct {
	Arch, Input string
	Terms       int // products of one fused sum
	Fraction    int // bits below the largest exponent that an addend keeps
	Kept        int // fraction bits of a result in fp32
	Block       int // products under one pair of scales; 0: there are no scales
	Exact       int // products that are added exactly before they meet others; 0: each is an addend

	Operands
	Out Format // of the accumulator: FP32 or FP16
}

// mmaRow is one row of the table of architectures.
type mmaRow struct {
	arch, inputs                        string
	terms, fraction, kept, block, exact int
	half                                string // the inputs that also add up in fp16
}

// Source: docs/facts.md, Tensor cores.
var mmaTable = []mmaRow{
	{"volta", "fp16", 4, 23, 23, 0, 0, "fp16"},
	{"turing", "fp16", 8, 24, 23, 0, 0, "fp16"},
	{"ampere", "fp16 bf16", 8, 24, 23, 0, 0, "fp16"},
	{"ampere", "tf32", 4, 24, 23, 0, 0, ""},
	{"ada", "fp16 bf16", 8, 24, 23, 0, 0, "fp16"},
	{"ada", "tf32", 4, 24, 23, 0, 0, ""},
	{"ada", "fp8", 16, 13, 13, 0, 0, "fp8"},
	{"hopper", "fp16 bf16", 16, 25, 23, 0, 0, "fp16"},
	{"hopper", "tf32", 8, 25, 23, 0, 0, ""},
	{"hopper", "fp8", 32, 13, 13, 0, 0, "fp8"},
	{"blackwell", "fp16 bf16", 16, 25, 23, 0, 0, "fp16"},
	{"blackwell", "tf32", 8, 25, 23, 0, 0, ""},
	{"blackwell", "fp8 fp4", 32, 25, 23, 0, 0, "fp8 fp4"},
	{"blackwell", "mxfp8", 32, 25, 23, 32, 0, ""},
	{"blackwell", "mxfp4", 64, 35, 23, 32, 16, ""},
	{"blackwell", "nvfp4", 64, 35, 23, 16, 16, ""},
}

// MMAArchs lists the architectures, oldest first.
var MMAArchs = func() (names []string) {
	for i, r := range mmaTable {
		if i == 0 || mmaTable[i-1].arch != r.arch {
			names = append(names, r.arch)
		}
	}
	return names
}()

// mmaInputs are the inputs of all architectures with operands that have that name.
var mmaInputs = []struct {
	name string
	Operands
}{
	{"fp16", Operands{FP16, FP16, FP32}}, {"bf16", Operands{BF16, BF16, FP32}}, {"tf32", Operands{FP32, FP32, FP32}},
	{"fp8", Operands{E4M3, E4M3, FP32}}, {"fp4", Operands{E2M1, E2M1, FP32}},
	{"mxfp8", Operands{E4M3, E4M3, E8M0}}, {"mxfp4", Operands{E2M1, E2M1, E8M0}}, {"nvfp4", Operands{E2M1, E2M1, E4M3}},
}

// Input is the name of what an instruction multiplies; empty: none does. Different formats of more than eight bits meet as tf32, which
// holds those of sixteen bits exactly where their fractions are no longer than its ten bits.
func (o Operands) Input() string {
	small := func(f Format) bool { return f == E4M3 || f == E5M2 || f == E2M1 }
	fours := o.A == E2M1 && o.B == E2M1
	switch {
	case small(o.A) != small(o.B):
		return ""
	case small(o.A):
		return o.smallInput(fours)
	case o.Scale != FP32:
		return ""
	case o.A == o.B && (o.A == FP16 || o.A == BF16):
		return o.A.String()
	case sixteen(o.A) && sixteen(o.B):
		return "tf32"
	}
	return ""
}

func (o Operands) smallInput(fours bool) string {
	switch {
	case o.Scale == FP32 && (o.A == E2M1 || o.B == E2M1):
		return "fp4"
	case o.Scale == FP32:
		return "fp8"
	case o.Scale == E8M0 && fours:
		return "mxfp4"
	case o.Scale == E8M0:
		return "mxfp8"
	case o.Scale == E4M3 && fours:
		return "nvfp4"
	}
	return ""
}

func sixteen(f Format) bool { return f == FP32 || f == BF16 || f == FP16 }

// String is the operands as messages name them.
func (o Operands) String() string {
	if name := o.Input(); name != "" {
		return name
	}
	return o.A.String() + "·" + o.B.String()
}

// CheckArch tells what is wrong with the name of an architecture.
func CheckArch(arch string) error {
	for _, a := range MMAArchs {
		if a == arch {
			return nil
		}
	}
	return fmt.Errorf("architecture %q: %s", arch, spell.OneOf(arch, MMAArchs))
}

// mmaKey is what MMAOf is asked for.
type mmaKey struct {
	arch string
	Operands
	out Format
}

// made keeps what MMAOf has made, since every product of every step asks.
var made struct {
	sync.RWMutex
	of map[mmaKey]*MMA
}

// MMAOf is the fused sum of an architecture for these operands, its accumulator in out.
func MMAOf(arch string, o Operands, out Format) (*MMA, error) {
	key := mmaKey{arch, o, out}
	made.RLock()
	m := made.of[key]
	made.RUnlock()
	if m != nil {
		return m, nil
	}
	m, err := makeMMA(arch, o, out)
	if err == nil {
		made.Lock()
		defer made.Unlock()
		if made.of == nil {
			made.of = map[mmaKey]*MMA{}
		}
		made.of[key] = m
	}
	return m, err
}

func makeMMA(arch string, o Operands, out Format) (*MMA, error) {
	if err := CheckArch(arch); err != nil {
		return nil, err
	}
	input := o.Input()
	var has []string
	for _, r := range mmaTable {
		if r.arch != arch {
			continue
		}
		for _, in := range strings.Fields(r.inputs) {
			if in == input {
				return r.mma(input, o, out)
			}
			has = append(has, in)
		}
	}
	return nil, fmt.Errorf("the tensor cores of %s do not multiply %s: they have %s", arch, o, strings.Join(has, ", "))
}

func (r *mmaRow) mma(input string, o Operands, out Format) (*MMA, error) {
	switch half := strings.Contains(r.half, input); {
	case out == FP32, out == FP16 && half:
	case half:
		return nil, fmt.Errorf("the tensor cores of %s add products of %s up in fp32 or fp16, not in %s", r.arch, input, out)
	default:
		return nil, fmt.Errorf("the tensor cores of %s add products of %s up in fp32, not in %s", r.arch, input, out)
	}
	return &MMA{r.arch, input, r.terms, r.fraction, r.kept, r.block, r.exact, o, out}, nil
}

// MMAs are the fused sums of all architectures by the inputs that have a name, as they add up in fp32.
func MMAs() (all []*MMA) {
	for _, r := range mmaTable {
		for _, in := range mmaInputs {
			if slices.Contains(strings.Fields(r.inputs), in.name) {
				m, err := MMAOf(r.arch, in.Operands, FP32)
				if err != nil {
					panic(err) // the table is ours
				}
				all = append(all, m)
			}
		}
	}
	return all
}
