package checkpoint

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"firstbit/model"
	"firstbit/parallel"
)

// Match reports the first thing in which a run differs from the one that was saved. The number of steps may.
func (m *Manifest) Match(run *Manifest) error {
	if m.Layout != run.Layout {
		return mustBeSame(difference{name: "layout", was: m.Layout, is: run.Layout})
	}
	return m.match(run)
}

// Moved tells whether a run of the same layout has its state elsewhere: it ends the stages of the same layers elsewhere, or its optimizer is
// replicated where the other was sharded.
func (m *Manifest) Moved(run *Manifest) bool {
	return m.recut(run) || m.value(replicatedField) != run.value(replicatedField)
}

func (m *Manifest) recut(run *Manifest) bool {
	was, is := m.value(patternField), run.value(patternField)
	return was != is && model.Uncut(was) == model.Uncut(is)
}

// value is that of a field of the configuration, empty where there is none.
func (m *Manifest) value(field string) string {
	config, err := flatten(m.Config)
	if err != nil {
		return "" // Match says so
	}
	return config[field]
}

// The fields that say where state lies.
const (
	patternField    = "model.pattern"
	replicatedField = "optim.replicated"
)

// MatchMoved is Match for a run of another layout: stages may end elsewhere, the optimizer may be replicated or sharded, and microbatches may be
// others too, if they are as many samples a step.
func (m *Manifest) MatchMoved(run *Manifest) error {
	was, err := samples(m)
	if err != nil {
		return err
	}
	is, err := samples(run)
	if err != nil {
		return err
	}
	if was != is {
		return mustBeSame(difference{name: "batch·micro·dp", was: fmt.Sprint(was), is: fmt.Sprint(is)})
	}
	may := []string{"batch", "micro", replicatedField}
	if m.recut(run) {
		may = append(may, patternField)
	}
	return m.match(run, may...)
}

// samples is the number of samples of a step.
func samples(m *Manifest) (int, error) {
	l, err := parallel.ParseLayout(m.Layout)
	if err != nil {
		return 0, err
	}
	var c struct{ Batch, Micro int }
	if err := json.Unmarshal(m.Config, &c); err != nil {
		return 0, fmt.Errorf("config: %w", err)
	}
	return c.Batch * c.Micro * l.DP, nil
}

// difference is a field of two manifests.
type difference struct {
	name, was, is string
	at            [2]string // where what has these digests lies
}

func mustBeSame(d difference) error {
	return fmt.Errorf("%s: %s was saved, this run has %s: must be the same", d.name, said(d.was, d.at[0]), said(d.is, d.at[1]))
}

func said(value, at string) string {
	switch {
	case value == "":
		return "nothing"
	case at != "":
		return fmt.Sprintf("%s (%s)", at, value)
	}
	return value
}

// match compares all but the layout, the number of steps, and what else may differ. Corpus and weights are compared by what they hold,
// wherever that lies.
func (m *Manifest) match(run *Manifest, may ...string) error {
	was, err := flatten(m.Config)
	if err != nil {
		return err
	}
	is, err := flatten(run.Config)
	if err != nil {
		return err
	}
	fields := []difference{{name: "precision", was: m.Precision, is: run.Precision},
		{"data", m.Corpus, run.Corpus, [2]string{was["data"], is["data"]}},
		{"weights", m.Weights, run.Weights, [2]string{was["weights"], is["weights"]}}} // before the shape, which follows from them
	may = append(may, "steps", "data", "weights")
	both := maps.Clone(was)
	maps.Copy(both, is)
	for _, name := range slices.Sorted(maps.Keys(both)) {
		if !slices.Contains(may, name) {
			fields = append(fields, difference{name: name, was: was[name], is: is[name]})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(run.Formats)) {
		fields = append(fields, difference{name: "formats." + name, was: m.Formats[name], is: run.Formats[name]})
	}
	fields = append(fields, difference{name: "recipe", was: m.Recipe, is: run.Recipe},
		difference{name: "plans", was: strings.Join(m.Plans, ", "), is: strings.Join(run.Plans, ", ")}, difference{name: "library", was: m.Library, is: run.Library})
	for _, f := range fields {
		if f.was != f.is {
			return mustBeSame(f)
		}
	}
	return nil
}

// flatten lists a JSON object's values by path.
func flatten(text []byte) (map[string]string, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	flat := map[string]string{}
	var visit func(path string, v any)
	visit = func(path string, v any) {
		object, ok := v.(map[string]any)
		if !ok {
			flat[path] = fmt.Sprint(v)
			return
		}
		for name, v := range object { // into a map: order reaches nothing
			visit(strings.TrimPrefix(path+"."+name, "."), v)
		}
	}
	visit("", v)
	return flat, nil
}
