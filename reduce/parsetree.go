package reduce

import (
	"errors"
	"fmt"
	"strconv"
)

// The extents that parsers accept: more is a mistake, not an order.
const (
	maxLeaves = 1 << 20
	maxDepth  = 10000
)

// ParseTree reads what String writes: nodes of two kids or more, no leaf twice.
func ParseTree(s string) (Tree, error) {
	p := treeParser{s: s, seen: map[int]bool{}}
	if s == "()" {
		return Empty, nil
	}
	t, err := p.tree(0)
	if err != nil {
		return Tree{}, err
	}
	if p.i != len(s) {
		return Tree{}, fmt.Errorf("tree: unexpected %q at %d", s[p.i], p.i)
	}
	return t, nil
}

type treeParser struct {
	s    string
	i    int
	seen map[int]bool
}

func (p *treeParser) tree(depth int) (Tree, error) {
	if depth > maxDepth {
		return Tree{}, errors.New("tree: nested too deeply")
	}
	if p.i < len(p.s) && p.s[p.i] == '(' {
		return p.node(depth, Rounded)
	}
	if by, length, ok := adderPrefix(p.s[p.i:]); ok {
		p.i += length
		return p.node(depth, by)
	}
	start := p.i
	for p.i < len(p.s) && '0' <= p.s[p.i] && p.s[p.i] <= '9' {
		p.i++
	}
	digits := p.s[start:p.i]
	n, err := strconv.Atoi(digits)
	if err != nil || n >= maxLeaves || len(digits) > 1 && digits[0] == '0' {
		return Tree{}, fmt.Errorf("tree: expected ( or a leaf from 0 to %d at %d", maxLeaves-1, start)
	}
	if p.seen[n] {
		return Tree{}, fmt.Errorf("tree: leaf %d is added twice", n)
	}
	p.seen[n] = true
	return Tree{Leaf: n}, nil
}

func (p *treeParser) node(depth int, by Adder) (Tree, error) {
	p.i++
	var kids []Tree
	for {
		k, err := p.tree(depth + 1)
		if err != nil {
			return Tree{}, err
		}
		kids = append(kids, k)
		if p.i == len(p.s) {
			return Tree{}, errors.New("tree: missing )")
		}
		c := p.s[p.i]
		p.i++
		switch {
		case c == ')' && len(kids) > 1:
			return Tree{Kids: kids, By: by}, nil
		case c == ' ':
		default:
			return Tree{}, fmt.Errorf("tree: expected a space or ) after two or more sums at %d", p.i-1)
		}
	}
}
