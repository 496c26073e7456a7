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
	Parts         bool              `json:"parts,omitempty"` // records have sums that add up over the pieces of a whole
	Digests       map[string]string `json:"digests"`
	Holds         []Holding         `json:"holds"`  // until the trace is whole, what was asked for
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
	if r.Parts {
		r.Digests = maps.Clone(r.Digests)
		r.Digests[PartsDigest] = partsDefinition
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
