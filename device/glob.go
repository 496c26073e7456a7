package device

import "github.com/tidwall/match"

// Matches tells whether a GLOB names the Call: its path, or its scope with the name of one of its kernel's subkernels.
func (c *Call) Matches(glob string) bool {
	if match.Match(c.ID.Path, glob) {
		return true
	}
	for _, p := range c.Kernel.Subkernels {
		if match.Match(join(c.Scope, p.Name), glob) {
			return true
		}
	}
	return false
}
