package model

import (
	"fmt"
	"strings"

	"firstbit/kernel"
)

// Letters lists the pattern letters and what they stand for.
const Letters = "M Mamba-2, * attention, - MLP, E mixture of experts, | where a stage of the pipeline ends, and once / before the layers of an MTP depth"

// Layers are the letters of the main layers and of an MTP depth, one a layer.
func (c Config) Layers() (main, inner string) {
	main, inner, _ = strings.Cut(c.Pattern, "/")
	return Uncut(main), inner
}

// Uncut is a pattern without the ends of stages, which say where layers are and not what they compute.
func Uncut(pattern string) string { return strings.ReplaceAll(pattern, "|", "") }

// Routed counts the mixture-of-experts layers of the whole network, those of the depths among them, and the depths.
func (c Config) Routed() (layers, depths int) {
	main, inner := c.Layers()
	if inner != "" {
		depths = c.MTP.Depths
	}
	return strings.Count(main, "E") + depths*strings.Count(inner, "E"), depths
}

// stages are the parts that | cuts the main layers into: runs of layers, as the stages of a pipeline take them one after another.
func (c Config) stages() []string {
	main, _, _ := strings.Cut(c.Pattern, "/")
	return strings.Split(main, "|")
}

// stage is the layers that run number at of so many has: lo to hi. One run has all, whatever the cuts; without cuts they
// differ by at most one layer.
func (c Config) stage(at, of int) (lo, hi int) {
	main, _ := c.Layers()
	stages := c.stages()
	if of == 1 || len(stages) == 1 {
		return kernel.Cut(len(main), of, at, 1)
	}
	for _, s := range stages[:at] {
		lo += len(s)
	}
	return lo, lo + len(stages[at])
}

func (c Config) checkPattern() error {
	main, inner, depths := strings.Cut(c.Pattern, "/")
	if c.Pattern == "" {
		return fmt.Errorf("model.pattern: empty: must have at least one of %s", Letters)
	}
	if main == "" {
		return fmt.Errorf("model.pattern: %q: must begin with at least one of %s", c.Pattern, Letters)
	}
	for i, r := range c.Pattern {
		if !strings.ContainsRune("M*-E", r) && i != len(main) && !(r == '|' && i < len(main)) {
			return fmt.Errorf("model.pattern: unknown letter %q at %d: allowed are %s", r, i, Letters)
		}
	}
	for _, s := range c.stages() {
		if s == "" {
			return fmt.Errorf("model.pattern: %q: a stage without layers: | must stand between two of them", c.Pattern)
		}
	}
	if depths && inner == "" {
		return fmt.Errorf("model.pattern: %q: nothing after /: must have at least one of %s", c.Pattern, Letters)
	}
	if len(c.Pattern) > 1024 {
		return fmt.Errorf("model.pattern: %d letters: at most 1024", len(c.Pattern))
	}
	return nil
}
