package check

// Starts is, of every step of sequences of n, the step that its document begins at; each sequence lists where documents begin after its first.
func Starts(n int, begins ...[]int) (starts []int32) {
	for _, at := range begins {
		from := 0
		for t := range n {
			if len(at) > 0 && at[0] == t {
				from, at = t, at[1:]
			}
			starts = append(starts, int32(from))
		}
	}
	return starts
}
