package checkpoint

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/zeebo/xxh3"

	"firstbit/files"
	"firstbit/model"
)

// The files of a folder as save_pretrained writes it and from_pretrained reads it. A large
// model has its weights in several files, which the index names.
const (
	configFile  = "config.json"
	weightsFile = "model.safetensors"
	indexFile   = "model.safetensors.index.json"
)

// ReadConfig is the shape of a nemotron_h folder's model. What its config.json does not say is base's.
func ReadConfig(dir string, base model.Config) (model.Config, error) {
	path := filepath.Join(dir, configFile)
	text, err := files.Read(path, textMost)
	if err != nil {
		return base, fmt.Errorf("checkpoint %s: %w", path, files.Reason(err))
	}
	c, err := ConfigFromHF(text, base)
	if err != nil {
		return base, fmt.Errorf("checkpoint %s: %w", dir, err)
	}
	return c, nil
}

// LoadDir sets a model's weights and router biases to those of a nemotron_h folder.
func LoadDir(dir string, m *model.Model) error {
	f, err := ReadWeights(dir, m)
	if err != nil {
		return err
	}
	if err := LoadHF(m, f); err != nil {
		return fmt.Errorf("checkpoint %s: %w", filepath.Join(dir, weightsFile), err)
	}
	return nil
}

// ReadWeights reads a folder's one file of weights for a model, or all that its index names.
func ReadWeights(dir string, m *model.Model) (*File, error) {
	most := weightsLimit(m)
	text, err := files.Read(filepath.Join(dir, indexFile), most.Header)
	if errors.Is(err, os.ErrNotExist) {
		return ReadFile(filepath.Join(dir, weightsFile), most)
	}
	if err != nil {
		return nil, fmt.Errorf("checkpoint %s: %w", filepath.Join(dir, indexFile), files.Reason(err))
	}
	var index struct {
		Map map[string]string `json:"weight_map"`
	}
	if err := files.JSON(text, &index, true); err != nil {
		return nil, fmt.Errorf("checkpoint %s: %w", filepath.Join(dir, indexFile), err)
	}
	all := &File{}
	for _, name := range slices.Compact(slices.Sorted(maps.Values(index.Map))) {
		if filepath.Base(name) != name {
			return nil, fmt.Errorf("checkpoint %s: %q: must be a file of the same folder", filepath.Join(dir, indexFile), name)
		}
		f, err := ReadFile(filepath.Join(dir, name), most)
		if err != nil {
			return nil, err
		}
		for _, t := range f.Tensors {
			most.Bytes -= int64(len(t.data)) // the bound is of all files together
		}
		all.Tensors = append(all.Tensors, f.Tensors...)
	}
	slices.SortStableFunc(all.Tensors, func(a, b Tensor) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

// DigestWeights is XXH3-128 of what ReadWeights finds: of tensors in order of their names, however they lie in files.
func DigestWeights(dir string, m *model.Model) (string, error) {
	f, err := ReadWeights(dir, m)
	if err != nil {
		return "", err
	}
	h := xxh3.New()
	for _, t := range f.Tensors { // a hash does not fail
		_, _ = fmt.Fprintf(h, "%q %s %v\n", t.Name, t.format, t.Shape)
		_, _ = h.Write(t.data)
	}
	sum := h.Sum128().Bytes()
	return hex.EncodeToString(sum[:]), nil
}

// SaveHF writes a folder that transformers' from_pretrained reads: the master weights, the
// router biases and a config.json with which it computes the same.
func SaveHF(dir string, m *model.Model) error {
	text, err := ConfigToHF(m.Config)
	if err != nil {
		return fmt.Errorf("checkpoint %s: %w", dir, err)
	}
	err = os.MkdirAll(dir, 0o777)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, configFile), text, 0o666)
	}
	if err != nil {
		return fmt.Errorf("checkpoint %s: %w", dir, files.Reason(err))
	}
	return WriteFile(filepath.Join(dir, weightsFile), HFTensors(m))
}
