package trace

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
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
	Faults        []string          `json:"faults"`
	Library       string            `json:"library"`
	Level         string            `json:"level"`
	Digests       map[string]string `json:"digests"`
}

// Digests are the definitions of the fingerprints, as run.json carries them.
var Digests = map[string]string{
	"digest": "XXH3-128 seed 0 of (dtype, NUL, rank and dims as little-endian uint64, XXH3-128 of the elements row-major little-endian)",
	"xor":    "torch.hash_tensor mode 0",
	"rows":   "XXH3-64 per leading index, 64-element chunks of one dimension",
}

func (r Run) write(dir string) error {
	r.SchemaVersion, r.Digests = SchemaVersion, Digests
	if err := writeJSON(filepath.Join(dir, "run.json"), r); err != nil {
		return err
	}
	return writeJSON(filepath.Join(dir, "host.json"), map[string]string{
		"firstbit": Version(), "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH,
	})
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
	if err := os.WriteFile(path, append(b, '\n'), 0o644); err != nil {
		return fmt.Errorf("trace %s: %w", filepath.Dir(path), cause(err))
	}
	return nil
}
