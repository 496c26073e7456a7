package verify

import (
	"fmt"
	"slices"
	"strings"

	"firstbit/data"
	"firstbit/optim"
	"firstbit/parallel"
	"firstbit/run"
	"firstbit/train"
)

// Cell is one guarantee in one variant.
type Cell struct {
	Name string  `json:"name"`
	OK   bool    `json:"ok"`
	Hash string  `json:"hash"`
	Why  *string `json:"why"` // it did not hold; nil: it did
}

// fail notes why a cell does not hold.
func (c *Cell) fail(why string) { c.OK, c.Why = false, &why }

// The matrix: every layout of every pattern and precision runs matrixSteps steps on one global batch.
var (
	// MatrixLayouts are its layouts, besides one rank.
	MatrixLayouts = []string{"dp=8", "tp=4", "tp=8", "ep=2", "tp=2,ep=2", "tp=2,ep=4", "dp=8,ep=4", "pp=2", "pp=4", "tp=2,pp=2",
		"pp=2,vpp=2", "cp=2", "tp=2,cp=2", "dp=2,tp=2,pp=2,ep=2"}
	matrixPatterns   = []string{"*-*-*-*-", "M-M-M-M-", "M*EM*EM*/*E"}
	matrixPrecisions = []string{"fp32", "bf16"}
)

const (
	matrixBatch = 8 // sequences of a step
	matrixSteps = 3
)

// variant is one pattern in one precision, and what else differs from the plain configuration.
type variant struct {
	pattern, precision string
	option             option
}

// option is a part of the trainer that runs instead of another, by its name in that of a cell.
type option string

const (
	plain      option = ""
	replicated option = "replicated" // the optimizer
	packed     option = "packed"     // documents into sequences, with a prompt each, and losses by the labels of a step
	skipping   option = "skipping"   // steps: in fp16, with a scale of the loss that doubles until it overflows
)

func variants() (all []variant) {
	for _, pattern := range matrixPatterns {
		for _, precision := range matrixPrecisions {
			all = append(all, variant{pattern, precision, plain})
		}
	}
	return append(all, variant{matrixPatterns[2], "bf16", replicated}, variant{matrixPatterns[2], "fp32", packed}, variant{matrixPatterns[2], "fp16", skipping})
}

// MatrixCells is the number of cells of a matrix over so many layouts, with one for the one rank of each variant.
func MatrixCells(layouts int) int { return len(variants()) * (1 + layouts) }

// name is the cell's: dp8·ep4 *- fp32.
func (s variant) name(l parallel.Layout) string {
	name := fmt.Sprintf("%s %s %s", short(l), s.pattern, s.precision)
	if s.option != plain {
		name += " " + string(s.option)
	}
	return name
}

// short is a layout in the name of a cell: dp8·ep4.
func short(l parallel.Layout) string {
	text := strings.NewReplacer("=", "", ",", "·").Replace(l.String())
	if l.DP == 1 && l.World() > 1 {
		text = strings.TrimPrefix(text, "dp1·")
	}
	return text
}

// fits says why a layout has no cell in the matrix.
func (s variant) fits(l parallel.Layout) error {
	if l.Full().DP > matrixBatch || matrixBatch%l.Full().DP != 0 {
		return fmt.Errorf("layout %q: dp must divide the %d sequences of a step", l, matrixBatch)
	}
	return s.spec(l, "fixed").Config.CheckLayout(l)
}

// spec is a run of the variant over a layout. Microbatches are of two sequences where there are so many; of one where
// ranks share sequences.
func (s variant) spec(l parallel.Layout, recipe string) run.Spec {
	c := train.Tiny()
	c.Precision, c.Steps, c.Seq, c.Optim.Replicated = s.precision, matrixSteps, 16, s.option == replicated
	if s.option == packed {
		pack(&c)
	}
	if s.option == skipping {
		skip(&c)
	}
	m := &c.Model
	m.Pattern, m.Vocab, m.Width, m.Heads, m.KVHeads, m.HeadDim, m.Hidden = s.pattern, 256, 32, 8, 8, 4, 64
	m.SSM.Heads, m.SSM.HeadDim, m.SSM.State, m.SSM.Groups = 8, 4, 8, 8
	m.MoE.Hidden, m.MoE.SharedHidden, m.MoE.Aux = 32, 16, "sequence"
	l = l.Full()
	c.Batch = 2
	if l.CP > 1 || l.DP > matrixBatch/2 {
		c.Batch = 1
	}
	c.Micro = matrixBatch / (l.DP * c.Batch)
	return run.Spec{Config: c, Layout: l, Recipe: recipe}
}

// pack packs documents into the sequences of a run.
func pack(c *train.Config) {
	c.Documents, c.PerToken = data.Documents{ResetAttentionMask: true, EODMaskLoss: true, Prompt: 0.25}, true
}

// skip has the scale of a run in fp16 grow after every step that is taken, and back off after every one that is not. It begins where the first step
// of these models is taken and a later one is not.
func skip(c *train.Config) {
	c.Optim.LossScale = optim.LossScaleConfig{Initial: 1 << 18, Min: 1, GrowthInterval: 1, Hysteresis: 1}
	if c.PerToken { // the backward begins with gradients that are not yet divided by the tokens of a step
		c.Optim.LossScale.Initial = 1 << 12
	}
}

// CheckLayouts says which of some layouts cannot be verified, before anything runs.
func CheckLayouts(layouts []string) error {
	_, err := besideOne(layouts, variants())
	return err
}

// besideOne are layouts that can cut every model of the matrix, each once, after one rank.
func besideOne(layouts []string, of []variant) ([]parallel.Layout, error) {
	all := []parallel.Layout{parallel.Layout{}.Full()}
	for _, text := range layouts {
		l, err := parallel.ParseLayout(text)
		if err != nil {
			return nil, err
		}
		for _, s := range of {
			if err := s.fits(l); err != nil {
				return nil, err
			}
		}
		if !slices.Contains(all, l) {
			all = append(all, l)
		}
	}
	return all, nil
}

// matrix runs every cell of some variants and layouts: one rank first, whose values verify gets with every other layout's. Each is called with
// every cell; nil: nobody watches. An error of its ends the matrix.
func matrix(of []variant, layouts []string, each func(Cell) error, verify func(s variant, l parallel.Layout, one Values) (Cell, Values, error)) ([]Cell, error) {
	all, err := besideOne(layouts, of)
	if err != nil {
		return nil, err
	}
	var cells []Cell
	for _, s := range of {
		var one Values
		for _, l := range all {
			cell, values, err := verify(s, l, one)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", cell.Name, err)
			}
			if one == nil {
				one = values
			}
			cells = append(cells, cell)
			if each != nil {
				if err := each(cell); err != nil {
					return nil, err
				}
			}
		}
	}
	return cells, nil
}
