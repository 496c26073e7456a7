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
	case seq, reverse, pairwise, arrival:
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
	case splitk:
		first, rest, hasInner := strings.Cut(args, ",")
		if o.arg, err = parseNumber(o.kind, first); err == nil && hasInner {
			o.inner, err = parseInner(rest, nested+1)
		}
	default:
		o.arg, err = parseNumber(o.kind, args)
	}
	return o, err
}

// parseInner is nil for seq, so that splitk(4,seq) and splitk(4) are one order.
func parseInner(s string, nested int) (*Order, error) {
	if nested > maxNested {
		return nil, errors.New("nested too deeply")
	}
	inner, err := parseOrder(s, nested)
	if err != nil {
		return nil, fmt.Errorf("%.80q: %w", s, err)
	}
	if inner.kind == seq {
		return nil, nil
	}
	return &inner, nil
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
