package reduce

import "fmt"

// Orders are the orders as they are written, for lists: JOIN and WITHIN are orders again.
var Orders = []string{"seq", "reverse", "pairwise", "blocked(b,JOIN,WITHIN)", "lanes(w,JOIN,WITHIN)", "splitk(s,JOIN,WITHIN)", "segments(s,JOIN,WITHIN)", "perm(seed)",
	"given(2 0 1)", "tree(((0 2) (1 3)))", "arrival", "exact", "binned", "kahan", "neumaier", "ring", "ring(c)", "nccltree", "nccltree(t)", "nccltree(t,node)", "symmetric", "symmetric(r)"}

// Allowed is what the item of that name may be: of a sum the orders, of a number its range, else words.
func (p Plan) Allowed(name string) []string {
	c := p.choice(name)
	switch {
	case c == nil:
		return Orders
	case c.words == nil || c.takes("1") == nil && c.item.words == nil:
		return []string{fmt.Sprintf("1-%d", maxLeaves)}
	}
	return c.words
}
