package checkpoint

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"firstbit/lowp"
	"firstbit/model"
)

// The files of a folder as save_pretrained writes it and from_pretrained reads it.
const (
	configFile  = "config.json"
	weightsFile = "model.safetensors"
)

// OpenHF builds the model of a nemotron_h folder with its weights, in the given format. What
// its config.json does not say is base's.
func OpenHF(dir string, base model.Config, format lowp.Format) (*model.Model, error) {
	path := filepath.Join(dir, configFile)
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("checkpoint %s: %w", path, cause(err))
	}
	c, err := ConfigFromHF(text, base)
	if err != nil {
		return nil, fmt.Errorf("checkpoint %s: %w", dir, err)
	}
	m, err := model.New(c, format)
	if err != nil {
		return nil, fmt.Errorf("checkpoint %s: %w", dir, err)
	}
	f, err := ReadFile(filepath.Join(dir, weightsFile))
	if err != nil {
		return nil, err
	}
	if err := LoadHF(m, f); err != nil {
		return nil, fmt.Errorf("checkpoint %s: %w", filepath.Join(dir, weightsFile), err)
	}
	return m, nil
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
		return fmt.Errorf("checkpoint %s: %w", dir, cause(err))
	}
	return WriteFile(filepath.Join(dir, weightsFile), HFTensors(m))
}

// cause is an error of the file system without the path, which the caller names.
func cause(err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
