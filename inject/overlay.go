package inject

import "firstbit/device"

// mostParts is how many parts the rows of what is read at another time are cut into, at most.
const mostParts = 8

// mixed has a Call read rows of others in the place of some of what it reads. Afterwards the memory is as it was, but for what the Call wrote.
// The fault has acted before the Call runs, which may not survive what it reads.
func mixed(f *Fault, c *device.Call, read, others, should []*device.Tensor, taken [][]bool, next device.Runner) {
	changed := false // whether what is read has other bits than it should have
	is := make([]*device.Tensor, len(read))
	for i, t := range read {
		is[i] = same(t)
		for r, take := range taken[i] {
			if _, width := rowsOf(t); take {
				move(t, others[i], r*width, width)
			}
		}
		changed = changed || !equal(t, should[i])
	}
	f.act(changed)
	next(c)
	for i := len(read) - 1; i >= 0; i-- { // the last first: two may lie in one memory
		t := read[i]
		wrote := same(t)
		each(t, c.Out, func(at, n int) { move(is[i], wrote, at, n) })
		t.CopyAt(0, is[i])
	}
}

// choose says of each row whether it is in one of the parts that the Schedule chooses, of which there is at least one.
func choose(c *device.Call, name string, rows int) []bool {
	parts := min(rows, mostParts)
	chosen := make([]bool, rows)
	if parts == 0 {
		return chosen
	}
	order := c.Arrival(name, parts)
	for _, p := range order[:1+c.Arrival(name+".parts", parts)[0]] {
		for r := p * rows / parts; r < (p+1)*rows/parts; r++ {
			chosen[r] = true
		}
	}
	return chosen
}
