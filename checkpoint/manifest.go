package checkpoint

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/zeebo/xxh3"

	"firstbit/model"
	"firstbit/parallel"
)

// ManifestVersion changes with any change to the meaning of a field or a digest. Since version 2 every NaN is lowp's one of its format.
const ManifestVersion = 2

// Manifest says what a checkpoint of a run holds: all that decides the next step, or its digest.
type Manifest struct {
	SchemaVersion int               `json:"schema_version"`
	Digest        string            `json:"digest"` // XXH3-128 of this file with 32 zeros here
	Step          int               `json:"step"`
	Layout        string            `json:"layout"`
	Precision     string            `json:"precision"`
	Formats       map[string]string `json:"formats"` // of weights and of masters
	Config        json.RawMessage   `json:"config"`
	Corpus        string            `json:"corpus"` // XXH3-128 of its tokens
	Recipe        string            `json:"recipe"`
	Plans         []string          `json:"plans"`
	Library       string            `json:"library"`
	Provenance    Provenance        `json:"provenance"`
	Files         []RankFile        `json:"files"` // by rank
}

// Provenance tells where a checkpoint comes from. No bit depends on it.
type Provenance struct {
	Schedule string   `json:"schedule"`
	Faults   []string `json:"faults"`
	Previous string   `json:"previous,omitempty"` // digest of the manifest of the run's checkpoint before this one; empty: it is the first
}

// RankFile is a rank's file and what it must hold.
type RankFile struct {
	Name    string  `json:"name"`
	Bytes   int     `json:"bytes"`
	Digest  string  `json:"digest"` // XXH3-128 of the file
	Tensors []Entry `json:"tensors"`
}

// Entry is a tensor of a rank's file. Its digest is that of traces.
type Entry struct {
	Name   string `json:"name"`
	Dtype  string `json:"dtype"`
	Shape  []int  `json:"shape"`
	Digest string `json:"digest"`
	Place  *Place `json:"place,omitempty"` // nil: of a checkpoint from before places were kept
}

const noDigest = "00000000000000000000000000000000"

func hash(b []byte) string {
	sum := xxh3.Hash128(b).Bytes()
	return hex.EncodeToString(sum[:])
}

// rankFile is the name of a rank's file.
func rankFile(rank int) string { return fmt.Sprintf("rank%05d.safetensors", rank) }

// encode is the manifest's file. It sets the digest.
func (m *Manifest) encode() ([]byte, error) {
	m.SchemaVersion, m.Digest = ManifestVersion, noDigest
	b, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return nil, err
	}
	b = append(b, '\n')
	m.Digest = hash(b)
	return bytes.Replace(b, []byte(noDigest), []byte(m.Digest), 1), nil
}

// DecodeManifest reads a manifest's file, whole or not at all.
func DecodeManifest(b []byte) (*Manifest, error) {
	m := &Manifest{}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(m); err != nil {
		return nil, fmt.Errorf("is no manifest: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	if m.SchemaVersion != ManifestVersion {
		return nil, fmt.Errorf("schema_version: %d: must be %d", m.SchemaVersion, ManifestVersion)
	}
	if len(m.Digest) != len(noDigest) {
		return nil, fmt.Errorf("digest: %q: must be 32 hex digits", m.Digest)
	}
	if got := hash(bytes.Replace(b, []byte(m.Digest), []byte(noDigest), 1)); got != m.Digest {
		return nil, fmt.Errorf("digest: the file has %s and says %s: it was changed", got, m.Digest)
	}
	return m, m.check()
}

func (m *Manifest) check() error {
	switch {
	case m.Step < 1:
		return fmt.Errorf("step: %d: must be above 0", m.Step)
	case len(m.Files) == 0:
		return fmt.Errorf("files: names none")
	}
	if err := oneLine(m.Layout, m.Precision, m.Recipe, m.Library, m.Provenance.Schedule); err != nil {
		return err
	}
	for rank, f := range m.Files {
		if f.Name != rankFile(rank) {
			return fmt.Errorf("files: %q: must be %s", f.Name, rankFile(rank))
		}
		if err := f.check(); err != nil {
			return fmt.Errorf("files: %s: %w", f.Name, err)
		}
	}
	return nil
}

// Match reports the first thing in which a run differs from the one that was saved. The number of steps may.
func (m *Manifest) Match(run *Manifest) error {
	if m.Layout != run.Layout {
		return mustBeSame(difference{"layout", m.Layout, run.Layout})
	}
	return m.match(run)
}

// Recut tells whether a run ends the stages of the same layers elsewhere.
func (m *Manifest) Recut(run *Manifest) bool {
	was, is := pattern(m), pattern(run)
	return was != is && model.Uncut(was) == model.Uncut(is)
}

// pattern is that of the model, empty where a configuration has none.
func pattern(m *Manifest) string {
	config, err := flatten(m.Config)
	if err != nil {
		return "" // Match says so
	}
	return config[patternField]
}

const patternField = "model.pattern"

// MatchMoved is Match for a run of another layout: stages may end elsewhere, and microbatches may be others too, if they are as many
// samples a step.
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
		return mustBeSame(difference{"batch·micro·dp", fmt.Sprint(was), fmt.Sprint(is)})
	}
	may := []string{"batch", "micro"}
	if m.Recut(run) {
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
type difference struct{ name, was, is string }

func mustBeSame(d difference) error {
	return fmt.Errorf("%s: %s was saved, this run has %s: must be the same", d.name, said(d.was), said(d.is))
}

// match compares all but the layout, the number of steps, and what else may differ.
func (m *Manifest) match(run *Manifest, may ...string) error {
	was, err := flatten(m.Config)
	if err != nil {
		return err
	}
	is, err := flatten(run.Config)
	if err != nil {
		return err
	}
	fields := []difference{{"precision", m.Precision, run.Precision}}
	both := maps.Clone(was)
	maps.Copy(both, is)
	for _, name := range slices.Sorted(maps.Keys(both)) {
		if name != "steps" && !slices.Contains(may, name) {
			fields = append(fields, difference{name, was[name], is[name]})
		}
	}
	fields = append(fields, difference{"corpus", m.Corpus, run.Corpus}, difference{"recipe", m.Recipe, run.Recipe},
		difference{"plans", strings.Join(m.Plans, ", "), strings.Join(run.Plans, ", ")}, difference{"library", m.Library, run.Library})
	for _, f := range fields {
		if f.was != f.is {
			return mustBeSame(f)
		}
	}
	return nil
}

func said(value string) string {
	if value == "" {
		return "nothing"
	}
	return value
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
	var walk func(path string, v any)
	walk = func(path string, v any) {
		object, ok := v.(map[string]any)
		if !ok {
			flat[path] = fmt.Sprint(v)
			return
		}
		for name, v := range object { // into a map: order reaches nothing
			walk(strings.TrimPrefix(path+"."+name, "."), v)
		}
	}
	walk("", v)
	return flat, nil
}
