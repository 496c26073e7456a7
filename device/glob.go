package device

// Glob tells whether s matches a pattern in which * stands for any text and ? for
// any one character. Dots are text like any other: "*.dprob" matches at any depth.
func Glob(pattern, s string) bool {
	star, mark := -1, 0
	i, j := 0, 0
	for j < len(s) {
		switch {
		case i < len(pattern) && pattern[i] == '*':
			star, mark = i, j
			i++
		case i < len(pattern) && (pattern[i] == '?' || pattern[i] == s[j]):
			i++
			j++
		case star >= 0:
			mark++
			i, j = star+1, mark
		default:
			return false
		}
	}
	for i < len(pattern) && pattern[i] == '*' {
		i++
	}
	return i == len(pattern)
}

// Matches tells whether a GLOB names the Call: its path, or its scope with the name of one of its kernel's parts.
func (c *Call) Matches(glob string) bool {
	if Glob(glob, c.ID.Path) {
		return true
	}
	for _, p := range c.Kernel.Parts {
		if Glob(glob, join(c.Scope, p.Name)) {
			return true
		}
	}
	return false
}
