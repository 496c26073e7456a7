package checkpoint

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// link is a checkpoint as the next one of its run names it.
type link struct {
	step   int
	digest string // of its manifest
}

// chain finds in a folder the checkpoints of the run that goes on from one of a digest: that one, the one before it, and so on as far as
// they are there. Others may lie beside them.
func chain(dir string, steps []int, digest string) (found []link) {
	for _, step := range slices.Backward(steps) {
		if digest == "" {
			break
		}
		m, err := ReadManifest(filepath.Join(dir, stepName(step)))
		if err != nil || m.Digest != digest { // not of this run, whatever it is
			continue
		}
		found = append(found, link{step, digest})
		digest = m.Provenance.Previous
	}
	slices.Reverse(found)
	return found
}

// prune removes all but the newest checkpoints of the run. Each loses its name at once. One that was replaced since, or that holds anything
// else by now, stays for good.
func (s *Saver) prune() error {
	for s.Keep > 0 && len(s.saved) > s.Keep {
		old := s.saved[0]
		s.saved = s.saved[1:]
		name := filepath.Join(s.Dir, stepName(old.step))
		m, err := ReadManifest(name)
		if err != nil || m.Digest != old.digest || !holdsOnlyOurs(name) {
			continue
		}
		gone := filepath.Join(s.Dir, removing+stepName(old.step))
		if err := os.Rename(name, gone); err != nil {
			return err
		}
		if err := removeFiles(gone); err != nil {
			return err
		}
	}
	return nil
}

// clean removes what killed runs left under temporary names.
func clean(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() && isTemporary(e.Name()) {
			if err := removeFiles(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

func isTemporary(name string) bool {
	if step, ok := strings.CutPrefix(name, removing); ok {
		return stepOf(step) > 0
	}
	number, ok := strings.CutPrefix(name, saving)
	_, err := strconv.ParseUint(number, 10, 64)
	return ok && err == nil
}

// isOurs tells whether a name is that of a checkpoint's file.
func isOurs(name string) bool {
	digits := strings.TrimSuffix(strings.TrimPrefix(name, "rank"), ".safetensors")
	rank, err := strconv.Atoi(digits)
	return name == manifestFile || err == nil && rank >= 0 && name == rankFile(rank)
}

func holdsOnlyOurs(dir string) bool {
	entries, err := os.ReadDir(dir)
	return err == nil && !slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.IsDir() || !isOurs(e.Name()) })
}

// removeFiles removes the files of a checkpoint by their names, and its folder unless anything else is in it.
func removeFiles(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	others := false
	for _, e := range entries {
		if e.IsDir() || !isOurs(e.Name()) {
			others = true
			continue
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	if others {
		return nil
	}
	return os.Remove(dir)
}
