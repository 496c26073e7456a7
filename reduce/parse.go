package reduce

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"firstbit/spell"
)

// maxNested is how deep orders may stand in one another.
const maxNested = 8

// ParseOrder reads what String writes.
func ParseOrder(s string) (Order, error) {
	o, err := parseOrder(s, 0)
	if err != nil {
		meant, none := "", unknownOrder("")
		if errors.As(err, &none) {
			meant = spell.Meant(string(none), kindNames[:])
		}
		return Order{}, fmt.Errorf("order %.80q: %w: %sallowed are %s", s, err, meant, Allowed)
	}
	return o, nil
}

// unknownOrder is a name that no order has.
type unknownOrder string

func (unknownOrder) Error() string { return "unknown" }

func parseOrder(s string, nested int) (Order, error) {
	name, args, hasArgs := strings.Cut(s, "(")
	if hasArgs {
		var closed bool
		if args, closed = strings.CutSuffix(args, ")"); !closed {
			return Order{}, errors.New("missing )")
		}
	}
	k := slices.Index(kindNames[:], name)
	if k < 0 {
		return Order{}, unknownOrder(name)
	}
	o := Order{kind: kind(k), cache: new(programCache)}
	var err error
	switch o.kind {
	case seq, reverse, pairwise, arrival, exact, binned, kahanSum, neumaierSum:
		if hasArgs {
			err = errors.New("takes no argument")
		}
	case ring, nccltree, symmetric:
		if hasArgs {
			err = o.parsePlace(args)
		}
	case given:
		if !hasArgs {
			return o, errors.New("needs a permutation")
		}
		o.given, err = parsePermutation(args)
	case literal:
		if !hasArgs {
			return o, errors.New("needs a tree")
		}
		err = o.parseTree(args)
	case blocked, lanes, splitk, segments:
		err = o.parseParted(args, nested)
	default:
		o.arg, err = parseNumber(o.kind, args)
	}
	return o, err
}

func (o *Order) parseTree(s string) error {
	t, err := ParseTree(s)
	if err == nil {
		err = t.complete()
	}
	if err == nil {
		*o = OrderOf(t)
	}
	return err
}

// parseParted reads a number, how parts are joined, and how the values of a part are added. What the kind does anyway is
// left out, so that splitk(4,seq) and splitk(4) are one order.
func (o *Order) parseParted(args string, nested int) (err error) {
	list := splitArgs(args)
	if o.arg, err = parseNumber(o.kind, list[0]); err != nil || len(list) == 1 {
		return err
	}
	if len(list) > 3 {
		return errors.New("takes a number, how parts are joined, and how the values of a part are added")
	}
	usual := o.joining().String()
	join, err := parseInner(list[1], nested+1)
	if err != nil {
		return err
	}
	if join.String() != usual {
		o.join = &join
	}
	if len(list) < 3 {
		return nil
	}
	within, err := parseInner(list[2], nested+1)
	switch {
	case err != nil:
		return err
	case !within.Concrete():
		return fmt.Errorf("%.80q: inside a part nothing arrives, and no place is known", list[2])
	case within.kind != seq:
		o.within = &within
	}
	return nil
}

// splitArgs splits at the commas that stand in no parentheses.
func splitArgs(s string) []string {
	var list []string
	depth, from := 0, 0
	for i := range len(s) {
		switch s[i] {
		case '(':
			depth++
		case ')':
			depth--
		case ',':
			if depth == 0 {
				list = append(list, s[from:i])
				from = i + 1
			}
		}
	}
	return append(list, s[from:])
}

func parseInner(s string, nested int) (Order, error) {
	if nested > maxNested {
		return Order{}, errors.New("nested too deeply")
	}
	inner, err := parseOrder(s, nested)
	if err != nil {
		return Order{}, fmt.Errorf("%.80q: %w", s, err)
	}
	return inner, nil
}

func parseNumber(k kind, s string) (uint64, error) {
	v, err := strconv.ParseUint(s, 10, 64)
	switch {
	case err != nil:
		return 0, errors.New("needs one whole number")
	case k != perm && (v < 1 || v > maxLeaves):
		return 0, fmt.Errorf("the number must be from 1 to %d", maxLeaves)
	case k == lanes && v&(v-1) != 0:
		return 0, errors.New("the number of lanes must be a power of two")
	}
	return v, nil
}

func parsePermutation(s string) ([]int, error) {
	if strings.Count(s, " ") >= maxLeaves {
		return nil, fmt.Errorf("more than %d numbers", maxLeaves)
	}
	fields := strings.Fields(s)
	if strings.Join(fields, " ") != s {
		return nil, errors.New("numbers must be separated by one space")
	}
	seen := make([]bool, len(fields))
	p := make([]int, len(fields))
	for i, f := range fields {
		v, err := strconv.Atoi(f)
		if err != nil || v < 0 || v >= len(fields) || seen[v] || strconv.Itoa(v) != f {
			return nil, fmt.Errorf("must be a permutation of 0 to %d", len(fields)-1)
		}
		seen[v], p[i] = true, v
	}
	return p, nil
}

// MustOrder is ParseOrder for constants.
func MustOrder(s string) Order {
	o, err := ParseOrder(s)
	if err != nil {
		panic("reduce: a constant order does not parse: " + err.Error())
	}
	return o
}
