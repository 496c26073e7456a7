package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"firstbit/checkpoint"
	"firstbit/files"
	"firstbit/train"
)

// configFlags are the flags that make a configuration.
type configFlags struct {
	preset, config, data, precision, weights string
	set                                      []string
	steps                                    int
	seed                                     uint64
}

func (f *configFlags) add(c *cobra.Command) {
	fs := c.Flags()
	fs.StringVar(&f.preset, "preset", "tiny", "`PRESET`, the configuration to start from: "+strings.Join(train.PresetNames(), ", "))
	fs.StringVar(&f.config, "config", "", "JSON `FILE` laid over the preset")
	fs.StringArrayVar(&f.set, "set", nil, "set one field of the configuration, `PATH=VALUE`, such as model.width=64")
	fs.IntVar(&f.steps, "steps", 0, "iterations")
	fs.Uint64Var(&f.seed, "seed", 0, "seed of weights and data")
	fs.StringVar(&f.data, "data", "", "`PATH` of a text file, folder, or token file (.bin); default: the embedded corpus")
	fs.StringVar(&f.weights, "weights", "", "`FOLDER` of a Hugging Face nemotron_h model whose shape and weights to begin with")
	fs.StringVar(&f.precision, "precision", "", "`FORMAT`: "+strings.Join(train.Precisions, ", "))
}

// configMost bounds a --config file: a pattern of a million layers has more parameters than a model may.
const configMost = 1 << 20

// configuration lays the flags over the preset.
func (f *configFlags) configuration(changed func(string) bool) (train.Config, error) {
	c, err := train.Preset(f.preset)
	if err != nil {
		return c, err
	}
	if f.config != "" {
		text, err := files.Read(f.config, configMost)
		if err != nil {
			return c, fmt.Errorf("--config %s: %w", f.config, files.Reason(err))
		}
		if err := c.Decode(text); err != nil {
			return c, fmt.Errorf("--config %s: %w", f.config, err)
		}
	}
	if f.weights != "" {
		c.Weights = f.weights
		if c.Model, err = checkpoint.ReadConfig(f.weights, c.Model); err != nil {
			return c, fmt.Errorf("--weights: %w", err)
		}
	}
	return c, f.change(&c, changed)
}

// change sets what --set and the flags of single fields say.
func (f *configFlags) change(c *train.Config, changed func(string) bool) error {
	for _, set := range f.set {
		if name, _, _ := strings.Cut(set, "="); slices.Contains([]string{"steps", "seed", "data", "precision", "weights"}, name) && changed(name) {
			return fmt.Errorf("--%s and --set %s exclude each other: name one", name, set)
		}
		if err := c.Set(set); err != nil {
			return fmt.Errorf("--set %w", err)
		}
	}
	if changed("steps") {
		c.Steps = f.steps
	}
	if changed("seed") {
		c.Seed = f.seed
	}
	if changed("data") {
		c.Data = f.data
	}
	if changed("precision") {
		c.Precision = f.precision
	}
	return nil
}
