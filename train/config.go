// Package train is the configuration, the step and the loop.
package train

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"sort"
	"strings"

	"firstbit/data"
	"firstbit/files"
	"firstbit/lowp"
	"firstbit/model"
	"firstbit/optim"
	"firstbit/parallel"
	"firstbit/spell"
)

// Config is everything that decides a run besides its schedule, recipe and faults.
type Config struct {
	Seed      uint64 `json:"seed"`
	Steps     int    `json:"steps"`
	Batch     int    `json:"batch"`     // sequences of a microbatch
	Micro     int    `json:"micro"`     // microbatches of a step
	Seq       int    `json:"seq"`       // tokens of a sequence
	Precision string `json:"precision"` // fp32, bf16, fp16 with a scaled loss, fp64 for references, or bf16 with linear layers in fp8, mxfp8 or nvfp4
	Quant     Quant  `json:"quant"`
	Data      string `json:"data"`    // a text file, folder or token file; empty: the embedded corpus
	Streams   string `json:"streams"` // of dropout and jitter: rank, a rank's own, or indexed by tokens; empty: indexed if canonical, else rank
	Weights   string `json:"weights"` // a nemotron_h folder whose weights the run begins with; empty: drawn
	// Documents are packed into sequences; what of their boundaries counts.
	Documents data.Documents `json:"documents,omitzero"`
	// PerToken divides losses and gradients by the labels of the whole step, once, instead of by those of each microbatch.
	PerToken bool         `json:"calculate_per_token_loss,omitzero"`
	EpochEnd string       `json:"epoch_end,omitzero"` // continue, or empty: a step goes on into the next epoch; partial: an epoch's last step has the microbatches that are left; partial_by_micro: and is divided by micro all the same
	Samples  int          `json:"samples,omitzero"`   // of an epoch, the first of the data; 0: all
	Model    model.Config `json:"model"`
	Optim    optim.Config `json:"optim"`
	Cluster  Cluster      `json:"cluster"`
}

// Cluster is the simulated machines.
type Cluster struct {
	RanksPerNode int `json:"ranks_per_node"`
	Bucket       int `json:"bucket"` // elements after which a bucket of gradients is full
	// Overlap starts collectives as soon as what they send is there, and waits for them where what they bring is needed.
	Overlap bool `json:"overlap"`
}

// Precisions are the values of Config.Precision.
var Precisions = []string{"fp32", "bf16", "fp16", "fp64", "fp8", "mxfp8", "nvfp4"}

// scaledPrecision is the one whose loss is scaled.
const scaledPrecision = "fp16"

// StreamModes are the values of Config.Streams besides the empty one.
var StreamModes = []string{"rank", "indexed"}

// indexed tells whether a mask depends on its tokens alone.
func (c Config) indexed(canonical bool) bool {
	return c.Streams == "indexed" || c.Streams == "" && canonical
}

// Validate reports the first field that cannot be.
func (c Config) Validate() error {
	for _, f := range []struct {
		name   string
		v, max int
	}{{"steps", c.Steps, maxSteps}, {"batch", c.Batch, 1 << 20}, {"micro", c.Micro, 1 << 20}, {"seq", c.Seq, 1 << 20},
		{"cluster.ranks_per_node", c.Cluster.RanksPerNode, parallel.MaxRanks}, {"cluster.bucket", c.Cluster.Bucket, 1 << 30}} {
		if f.v < 1 || f.v > f.max {
			return fmt.Errorf("%s: %d: must be from 1 to %d", f.name, f.v, f.max)
		}
	}
	if _, err := c.Format(); err != nil {
		return err
	}
	if err := c.Quant.validate(c.Precision); err != nil {
		return err
	}
	if field, v, is := c.Optim.LossScale.Changed(); field != "" && c.Precision != scaledPrecision {
		return fmt.Errorf("optim.loss_scale.%s: %v: must be %v with precision %s: only %s scales its loss", field, v, is, c.Precision, scaledPrecision)
	}
	if c.Streams != "" && !slices.Contains(StreamModes, c.Streams) {
		return fmt.Errorf("streams: %q: %s, or empty for the recipe's", c.Streams, spell.OneOf(c.Streams, StreamModes))
	}
	if c.EpochEnd != "" && !slices.Contains(epochEnds, c.EpochEnd) {
		return fmt.Errorf("epoch_end: %q: %s", c.EpochEnd, spell.OneOf(c.EpochEnd, epochEnds))
	}
	if c.Samples < 0 {
		return fmt.Errorf("samples: %d: must be at least 0, which is all of the data", c.Samples)
	}
	if err := c.Documents.Validate(); err != nil {
		return err
	}
	if err := c.Model.Validate(); err != nil {
		return err
	}
	if d := c.Model.MTP.Depths; strings.Contains(c.Model.Pattern, "/") && d >= c.Seq {
		return fmt.Errorf("model.mtp.depths: %d: must be below seq (%d), or no step has a label", d, c.Seq)
	}
	if n := c.activations(); n > maxActivations {
		return fmt.Errorf("batch × seq: %d × %d need %d activations: must be at most %d", c.Batch, c.Seq, n, maxActivations)
	}
	return c.Optim.Validate()
}

// maxActivations bounds what one microbatch holds, 4 bytes each.
const maxActivations = 1 << 31

// activations estimates a microbatch's largest tensors: logits, and for each layer its hidden rows,
// attention's probabilities and the states of scans. A part over the bound stands for all the rest.
func (c Config) activations() int64 {
	m, tokens := c.Model, int64(c.Batch)*int64(c.Seq)
	if tokens > maxActivations {
		return tokens
	}
	layer := int64(m.Heads)*int64(c.Seq) + 4*int64(m.Hidden) + 8*int64(m.Width)
	if strings.ContainsRune(m.Pattern, 'E') {
		layer += 4 * int64(m.MoE.TopK) * int64(m.MoE.Hidden)
	}
	states := int64(0) // of a layer, and as many gradients
	if strings.ContainsRune(m.Pattern, 'M') {
		layer += 4 * int64(m.SSM.Projected())
		states = 2 * int64(c.Batch) * int64(m.SSM.Inner()) * int64(m.SSM.State)
	}
	depths := int64(0)
	if strings.Contains(m.Pattern, "/") {
		depths = int64(m.MTP.Depths)
	}
	layers := int64(len(m.Pattern)) * (1 + depths)
	row := 2*int64(m.Vocab)*(1+depths) + layers*layer
	if most := max(row, states); most > maxActivations {
		return most
	}
	return tokens*row + layers*states
}

// Format is the format of weights and activations.
func (c Config) Format() (lowp.Format, error) {
	for _, p := range Precisions {
		if c.Precision != p {
			continue
		}
		if _, ok := schemes[p]; ok {
			return lowp.BF16, nil
		}
		return lowp.Parse(p)
	}
	return 0, fmt.Errorf("precision: %q: %s", c.Precision, spell.OneOf(c.Precision, Precisions))
}

// Decode reads a configuration over c: fields that the JSON does not name keep
// their value, fields that do not exist are refused.
func (c *Config) Decode(text []byte) error {
	next := *c
	next.Quant.High = slices.Clone(c.Quant.High) // a decoder writes into a slice that is there
	if err := files.JSON(text, &next, false); err != nil {
		return err
	}
	*c = next
	return nil
}

// Set assigns one field by its path: model.moe.top_k=2.
func (c *Config) Set(assignment string) error {
	path, value, ok := strings.Cut(assignment, "=")
	if !ok {
		return fmt.Errorf("%q: must be path=value, such as model.width=64", assignment)
	}
	v, err := field(reflect.ValueOf(c).Elem(), path)
	if err != nil {
		return err
	}
	text := value
	if v.Kind() == reflect.String {
		quoted, err := json.Marshal(value)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		text = string(quoted)
	}
	if err := json.Unmarshal([]byte(text), v.Addr().Interface()); err != nil || strings.TrimSpace(text) == "null" { // which sets nothing
		return fmt.Errorf("%s: %q: must be %s", path, value, kindName(v.Kind()))
	}
	return nil
}

func field(v reflect.Value, path string) (reflect.Value, error) {
	at := ""
	for _, name := range strings.Split(path, ".") {
		next, names := reflect.Value{}, []string{}
		if v.Kind() == reflect.Struct {
			for i := range v.NumField() {
				tag, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
				names = append(names, tag)
				if tag == name {
					next = v.Field(i)
				}
			}
		}
		if !next.IsValid() {
			sort.Strings(names)
			return v, fmt.Errorf("%q: no field %q%s: %smust be one of %s", path, name, at, spell.Meant(name, names), strings.Join(names, ", "))
		}
		v, at = next, " in "+name
	}
	if v.Kind() == reflect.Struct {
		return v, fmt.Errorf("%s: is a group of fields, not a field", path)
	}
	return v, nil
}

func kindName(k reflect.Kind) string {
	switch k {
	case reflect.Bool:
		return "true or false"
	case reflect.Float64:
		return "a number"
	case reflect.String:
		return "text"
	case reflect.Slice:
		return `a list such as ["*.attn.*"]`
	}
	return "a whole number"
}
