package checkpoint

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/zeebo/xxh3"

	"firstbit/state"
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
	Corpus        string            `json:"corpus"`            // XXH3-128 of its tokens
	Weights       string            `json:"weights,omitempty"` // XXH3-128 of those that the run began with; empty: drawn
	Recipe        string            `json:"recipe"`
	Plans         []string          `json:"plans"`
	Library       string            `json:"library"`
	Provenance    Provenance        `json:"provenance"`
	Files         []RankFile        `json:"files"` // by rank
}

// Provenance tells where a checkpoint comes from. No bit depends on it.
type Provenance struct {
	Version  string   `json:"version"` // of the program
	Schedule string   `json:"schedule"`
	Faults   []string `json:"faults"`             // of the run, and of those that it continued
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
	Name   string       `json:"name"`
	Dtype  string       `json:"dtype"`
	Shape  []int        `json:"shape"`
	Digest string       `json:"digest"`
	Place  *state.Place `json:"place,omitempty"` // nil: of a checkpoint from before places were kept
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
	if n := len(bytes.TrimSpace(b[d.InputOffset():])); n > 0 {
		return nil, fmt.Errorf("is no manifest: %d bytes after its closing brace", n)
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
