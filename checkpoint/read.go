package checkpoint

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"firstbit/files"
	"firstbit/machine"
)

const manifestFile = "manifest.json"

// Checkpoint is a run's state after a step, read and verified.
type Checkpoint struct {
	Dir string
	*Manifest
	Ranks []*File
}

// stepName is the folder of a step.
func stepName(step int) string { return fmt.Sprintf("step%06d", step) }

// Path is where a folder has the checkpoint of a step.
func Path(dir string, step int) string { return filepath.Join(dir, stepName(step)) }

// stepOf is the step of a folder of that name, or 0.
func stepOf(name string) int {
	digits, ok := strings.CutPrefix(name, "step")
	step, err := strconv.Atoi(digits)
	if !ok || err != nil || step < 1 || stepName(step) != name {
		return 0
	}
	return step
}

// Steps lists the steps of the checkpoints in a folder, ascending. What has another name is none.
func Steps(dir string) ([]int, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("checkpoint %s: %w", dir, files.Reason(err))
	}
	var steps []int
	for _, e := range entries {
		if step := stepOf(e.Name()); step > 0 && e.IsDir() {
			steps = append(steps, step)
		}
	}
	slices.Sort(steps)
	return steps, nil
}

// Open reads a checkpoint, or the newest of a folder of them. If that is damaged nothing stands in for it, but
// the error says which older one is whole.
func Open(dir string) (*Checkpoint, error) {
	if stepOf(filepath.Base(filepath.Clean(dir))) > 0 {
		return Read(dir)
	}
	if _, err := os.Lstat(filepath.Join(dir, manifestFile)); err == nil {
		return Read(dir)
	}
	for {
		steps, err := Steps(dir)
		if err != nil {
			return nil, err
		}
		if len(steps) == 0 {
			return nil, fmt.Errorf("checkpoint %s: holds none: must have a folder such as %s", dir, stepName(1))
		}
		newest := steps[len(steps)-1]
		c, err := Read(filepath.Join(dir, stepName(newest)))
		if err == nil {
			return c, nil
		}
		if later, e := Steps(dir); e == nil && len(later) > 0 && later[len(later)-1] > newest {
			continue // a run saves beside us, and has removed the one that was the newest
		}
		return nil, withWhole(err, dir, steps[:len(steps)-1])
	}
}

// withWhole adds to an error which of the older checkpoints is whole.
func withWhole(err error, dir string, older []int) error {
	for _, step := range slices.Backward(older) {
		name := filepath.Join(dir, stepName(step))
		if _, e := Read(name); e == nil {
			return fmt.Errorf("%w; %s is whole", err, name)
		}
	}
	return err
}

// ReadManifest reads what a checkpoint's manifest says.
func ReadManifest(dir string) (*Manifest, error) {
	path := filepath.Join(dir, manifestFile)
	b, err := files.Read(path, manifestLimit(dir))
	if err != nil {
		return nil, fmt.Errorf("checkpoint %s: %w", path, files.Reason(err))
	}
	m, err := DecodeManifest(b)
	if err != nil {
		return nil, fmt.Errorf("checkpoint %s: %w", path, err)
	}
	if step := stepOf(filepath.Base(filepath.Clean(dir))); step > 0 && step != m.Step {
		return nil, fmt.Errorf("checkpoint %s: step: %d: the folder's name says %d", path, m.Step, step)
	}
	return m, nil
}

// manifestLimit bounds a manifest by the number of ranks whose files lie beside it.
func manifestLimit(dir string) int64 {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return manifestBase // reading says so
	}
	return min(manifestBase+manifestEach*int64(len(entries)), manifestMost)
}

// Bad is an error about what a rank restores.
func (c *Checkpoint) Bad(rank int, err error) error {
	if rank < len(c.Files) {
		return fmt.Errorf("checkpoint %s: %s: %w", c.Dir, c.Files[rank].Name, err)
	}
	return fmt.Errorf("checkpoint %s: %w", c.Dir, err)
}

// Read reads a checkpoint and verifies every byte of it.
func Read(dir string) (*Checkpoint, error) {
	m, err := ReadManifest(dir)
	if err != nil {
		return nil, err
	}
	if available, known := machine.Memory(); known {
		if err := m.fits(available); err != nil {
			return nil, fmt.Errorf("checkpoint %s: %w", filepath.Join(dir, manifestFile), err)
		}
	}
	c := &Checkpoint{Dir: dir, Manifest: m}
	for _, want := range m.Files {
		path := filepath.Join(dir, want.Name)
		f, err := want.read(path)
		if err != nil {
			return nil, fmt.Errorf("checkpoint %s: %w", path, err)
		}
		c.Ranks = append(c.Ranks, f)
	}
	return c, nil
}

// read reads a rank's file and verifies it.
func (want RankFile) read(path string) (*File, error) {
	most, err := want.limit()
	if err != nil {
		return nil, err
	}
	b, err := files.Read(path, int64(want.Bytes))
	if err != nil {
		return nil, files.Reason(err)
	}
	if len(b) != want.Bytes {
		return nil, fmt.Errorf("has %d bytes: must have %d", len(b), want.Bytes)
	}
	whole := make(chan string, 1)
	go func() { whole <- hash(b) }()
	f, err := Decode(b, most.Header)
	if err != nil {
		return nil, err
	}
	got, err := f.entries()
	if err != nil {
		return nil, err
	}
	if why := differ(want.Tensors, got); why != "" {
		return nil, errors.New(why)
	}
	if is := <-whole; is != want.Digest {
		return nil, fmt.Errorf("has digest %s: must be %s", is, want.Digest)
	}
	return f, nil
}
