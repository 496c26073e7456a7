package trace

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"firstbit/files"
)

// Run is what run.json holds: everything that decided the run, and how to read its trace.
type Run struct {
	SchemaVersion int               `json:"schema_version"`
	Config        any               `json:"config"`
	Layout        string            `json:"layout"`
	Groups        map[string][]int  `json:"groups"`
	Seed          uint64            `json:"seed"`
	Schedule      string            `json:"schedule"`
	Recipe        string            `json:"recipe"`
	Plans         []string          `json:"plans"`
	Faults        []Fault           `json:"faults"`
	Library       string            `json:"library"`
	Level         string            `json:"level"`
	Replicas      []Copies          `json:"replicas,omitempty"`
	Digests       map[string]string `json:"digests"`
	Holds         []Part            `json:"holds"`  // until the trace is whole, what was asked for
	Last          *int              `json:"last"`   // the last step of the run; null: the trace is not whole
	Ends          string            `json:"ends"`   // XXH3-128 of the digests of the ranks' last files, rank by rank
	Digest        string            `json:"digest"` // XXH3-128 of this file with 32 zeros here
}

// Fault is what was injected, and what it came to when the run ended.
type Fault struct {
	Spec    string `json:"spec"`    // as the user wrote it
	Acted   int    `json:"acted"`   // on so many outputs, states or plans, of all ranks
	Changed int    `json:"changed"` // so many of them were others for it
}

// Copies are states of which several ranks have the same part, so that theirs must be equal.
type Copies struct {
	States []string `json:"states"`
	Ranks  [][]int  `json:"ranks"` // the ranks of a set have one part
}

// Replicas finds the copies among what ranks hold: for each rank its states, by name, and a number that says which part of it.
func Replicas(held []map[string]uint64) []Copies {
	type part struct {
		state string
		which uint64
	}
	of := map[part][]int{}
	parts := map[string][]part{} // of a state, in the order of their first ranks
	for rank, states := range held {
		for name, which := range states { // order reaches nothing: a name's parts come rank by rank
			p := part{name, which}
			if of[p] == nil {
				parts[name] = append(parts[name], p)
			}
			of[p] = append(of[p], rank)
		}
	}
	bySets := map[string]*Copies{}
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		var sets [][]int
		for _, p := range parts[name] {
			if len(of[p]) > 1 {
				sets = append(sets, of[p])
			}
		}
		if id := fmt.Sprint(sets); bySets[id] != nil {
			bySets[id].States = append(bySets[id].States, name)
		} else if len(sets) > 0 {
			bySets[id] = &Copies{[]string{name}, sets}
		}
	}
	var all []Copies
	for _, id := range slices.Sorted(maps.Keys(bySets)) {
		all = append(all, *bySets[id])
	}
	return all
}

// Digests are the definitions of the fingerprints, as run.json carries them.
var Digests = map[string]string{
	"digest": "XXH3-128 seed 0 of (dtype, NUL, rank and dims as little-endian uint64, XXH3-128 of the elements row-major little-endian)",
	"xor":    "torch.hash_tensor mode 0",
	"rows":   "XXH3-64 per leading index, 64-element chunks of one dimension",
	"nan":    "a NaN, of whatever sign and payload, counts as fp32 7fc00000, bf16 7fc0, fp16 7e00, fp64 7ff8000000000000, e4m3 7f, e5m2 7e, e8m0 ff",
}

func (r Run) write(dir string) error {
	if err := r.describe(dir); err != nil {
		return err
	}
	return writeJSON(filepath.Join(dir, "host.json"), map[string]string{
		"firstbit": Version(), "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH,
	})
}

// describe writes run.json. A reader sees the old one or the new one, whole.
func (r Run) describe(dir string) error {
	text, err := r.Encode()
	if err != nil {
		return err
	}
	if err := files.Write(filepath.Join(dir, "run.json"), text); err != nil {
		return fmt.Errorf("trace %s: %w", dir, err)
	}
	return nil
}

const noDigest = "00000000000000000000000000000000"

// Encode is the text of run.json, with its digest.
func (r Run) Encode() ([]byte, error) {
	r.SchemaVersion, r.Digest = SchemaVersion, noDigest
	if r.Digests == nil {
		r.Digests = Digests
	}
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return nil, err
	}
	text = append(text, '\n')
	field := []byte(`"digest": "` + noDigest + `"`)
	at := bytes.LastIndex(text, field)
	copy(text[at:], `"digest": "`+hashOf(text)+`"`)
	return text, nil
}

// DecodeRun reads what Encode wrote. Config is then a pointer to its JSON.
func DecodeRun(text []byte) (Run, error) {
	r := Run{Config: new(json.RawMessage)}
	if err := json.Unmarshal(text, &r); err != nil {
		return r, fmt.Errorf("is not as a run describes itself: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	if r.SchemaVersion != SchemaVersion {
		return r, fmt.Errorf("schema_version %d: this program reads %d", r.SchemaVersion, SchemaVersion)
	}
	at := bytes.LastIndex(text, []byte(r.Digest))
	if len(r.Digest) != len(noDigest) || at < 0 {
		return r, fmt.Errorf("digest %q: must be 32 hex digits", r.Digest)
	}
	if is := hashOf(slices.Concat(text[:at], []byte(noDigest), text[at+len(noDigest):])); is != r.Digest {
		return r, fmt.Errorf("digest: the file has %s and says %s: it was changed", is, r.Digest)
	}
	return r, nil
}

// Version is the module version and commit this program was built from.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v := info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			v += " " + s.Value
		}
	}
	return v
}

func writeJSON(path string, v any) error {
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return err
	}
	if err := files.Write(path, append(b, '\n')); err != nil {
		return fmt.Errorf("trace %s: %w", filepath.Dir(path), err)
	}
	return nil
}
