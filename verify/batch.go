package verify

import (
	"fmt"
	"slices"
	"strings"

	"firstbit/device"
	"firstbit/parallel"
	"firstbit/run"
	"firstbit/spell"
	"firstbit/train"
	"firstbit/tune"
)

// Batch is a global batch of so many sequences, dealt to layouts in some precisions by the recipe canonical.
type Batch struct {
	Sequences           int
	Precisions, Layouts []string
}

// BatchPrecisions are those of Batch. fp8 is two variants, by the amax of a sequence and by that of steps before.
var BatchPrecisions = []string{"fp32", "bf16", "fp16", "fp8", "mxfp8", "nvfp4"}

// BatchLayouts are the layouts of Batch, besides one rank: of these, those that can have the sequences.
var BatchLayouts = []string{
	"dp=2", "dp=3", "dp=4", "dp=6", "dp=8", "dp=12", "dp=24", "tp=2", "tp=4", "tp=8", "cp=2", "cp=4", "pp=2", "pp=4", "pp=2,vpp=2",
	"dp=2,ep=2", "dp=3,ep=3", "dp=4,ep=4", "dp=6,ep=2", "dp=6,ep=3", "dp=6,ep=6", "dp=8,ep=2", "dp=8,ep=4", "dp=12,ep=12",
	"dp=2,etp=2", "dp=3,tp=2,etp=2", "dp=4,ep=2,etp=2", "dp=6,ep=3,etp=2", "tp=2,etp=2", "dp=2,tp=2,ep=2,etp=2",
	"dp=3,tp=2", "dp=6,tp=2", "dp=8,tp=2", "tp=2,ep=2", "tp=2,ep=4", "dp=3,tp=2,ep=6", "dp=3,tp=2,ep=2", "tp=2,cp=2", "dp=3,cp=2", "dp=2,cp=2,ep=4", "cp=2,ep=2",
	"dp=3,pp=2", "dp=8,pp=2", "tp=2,pp=2", "dp=3,pp=2,vpp=2", "dp=2,tp=2,pp=2,ep=2",
}

const maxSequences = 1 << 10

// dealt is one variant of Batch.
type dealt struct {
	sequences int
	precision string
	delayed   bool
}

func (b Batch) variants() (all []dealt) {
	for _, p := range b.Precisions {
		all = append(all, dealt{b.Sequences, p, false})
		if p == "fp8" {
			all = append(all, dealt{b.Sequences, p, true})
		}
	}
	return all
}

func (d dealt) String() string {
	if d.delayed {
		return d.precision + " delayed"
	}
	return d.precision
}

// spec is a run of the variant, in microbatches of two sequences where there are so many, of one where ranks share sequences. The model has whole
// blocks on every rank.
func (d dealt) spec(l parallel.Layout) run.Spec {
	l = l.Full()
	c := train.Tiny()
	c.Precision, c.Steps, c.Seq = d.precision, 2, 16
	m, block := &c.Model, 4
	switch d.precision {
	case "fp16":
		skip(&c)
	case "mxfp8":
		c.Seq, block = 128, 32
	case "nvfp4":
		c.Seq, block = 64, 16
	}
	if d.delayed {
		c.Steps, c.Quant.Scaling, c.Quant.History = 3, "delayed", 2
	}
	m.Pattern, m.Vocab, m.Width, m.Heads, m.KVHeads, m.HeadDim, m.Hidden = "M*E-/*E", 256, 32, 8, 8, block, 8*block
	m.SSM.Groups, m.SSM.HeadDim, m.SSM.Heads, m.SSM.State = 8, 2, 8*block/2, block/4
	m.MoE.Experts, m.MoE.Hidden, m.MoE.SharedHidden, m.MoE.Aux = 12, 2*block, 8*block, "sequence"
	n := d.sequences / l.DP
	if c.Batch = 2; n%2 > 0 || l.CP > 1 {
		c.Batch = 1
	}
	c.Micro = n / c.Batch
	return run.Spec{Config: c, Layout: l, Recipe: tune.Canonical}
}

// check says why a layout cannot have the batch.
func (d dealt) check(l parallel.Layout) error {
	if d.sequences%l.Full().DP != 0 {
		return fmt.Errorf("layout %q: dp must divide the %d sequences of a step", l, d.sequences)
	}
	c := d.spec(l).Config
	if err := c.CheckLayout(l); err != nil {
		return err
	}
	return c.CheckCanonical(l)
}

// Fitting are those of its layouts that can have the batch in every precision.
func (b Batch) Fitting() Batch {
	b.Layouts = slices.DeleteFunc(slices.Clone(b.Layouts), func(text string) bool {
		one := b
		one.Layouts = []string{text}
		return one.Check() != nil
	})
	return b
}

// Check says what cannot be verified, before anything runs.
func (b Batch) Check() error {
	if b.Sequences < 1 || b.Sequences > maxSequences {
		return fmt.Errorf("--batch %d: must be from 1 to %d", b.Sequences, maxSequences)
	}
	for _, p := range b.Precisions {
		if !slices.Contains(BatchPrecisions, p) {
			return fmt.Errorf("--precision %q: %s", p, spell.OneOf(p, BatchPrecisions))
		}
	}
	for _, text := range b.Layouts {
		l, err := parallel.ParseLayout(text)
		if err != nil {
			return err
		}
		for _, d := range b.variants() {
			if err := d.check(l); err != nil {
				return fmt.Errorf("%s: %w", d, err)
			}
		}
	}
	return nil
}

// Cells is the number of cells.
func (b Batch) Cells() int { return len(b.variants()) * (1 + len(b.Layouts)) }

// Verify runs one rank, and every layout under a schedule of its own. A cell is ok if weights, moments, gradients and losses of all steps are those of
// one rank. held names the hash of each precision.
func (b Batch) Verify(each func(Cell) error) (cells []Cell, held string, err error) {
	var hashes []string
	for _, d := range b.variants() {
		var want Values
		for i, text := range append([]string{""}, b.Layouts...) {
			l, err := parallel.ParseLayout(text)
			if err != nil {
				return nil, "", err
			}
			s := d.spec(l)
			s.Schedule = device.Schedule{Seed: uint64(i)}
			got, err := Run(s)
			cell := Cell{Name: fmt.Sprintf("%s %d sequences %s", short(l), d.sequences, d), OK: true}
			if err != nil {
				return nil, "", fmt.Errorf("%s: %w", cell.Name, err)
			}
			if cell.Hash = got.Hash(); want == nil {
				want, hashes = got, append(hashes, fmt.Sprintf("%s %s", d, cell.Hash))
			} else if differ := want.Differ(got); differ != "" {
				cell.fail("differs from one rank: " + differ)
			}
			if cells = append(cells, cell); each != nil {
				if err := each(cell); err != nil {
					return nil, "", err
				}
			}
		}
	}
	return cells, fmt.Sprintf("one hash for one rank and %d layouts: %s", len(b.Layouts), strings.Join(hashes, ", ")), nil
}
