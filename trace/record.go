// Package trace watches: it records what every Call of a run read and wrote, as
// fingerprints, in one file per rank and iteration.
//
// It draws no numbers, orders nothing and waits for no other rank, so a traced run
// has the bits of an untraced one.
package trace

import (
	"fmt"
	"slices"
	"strconv"

	"firstbit/device"
	"firstbit/spell"
	"firstbit/state"
)

// SchemaVersion changes with any change to the meaning of a field or a digest.
const SchemaVersion = 2

// Record is one line of a trace.
type Record struct {
	SchemaVersion int          `json:"schema_version"`
	Seq           int          `json:"seq"`
	Rank          int          `json:"rank"`
	Coord         device.Coord `json:"coord"`
	Iteration     int          `json:"iteration"`
	Microbatch    int          `json:"microbatch"`
	Phase         string       `json:"phase"`
	Kind          string       `json:"kind"`
	Name          string       `json:"name"`
	Occurrence    int          `json:"occurrence"`
	Scope         string       `json:"scope"`
	Group         string       `json:"group"`
	Peer          *string      `json:"peer"`
	View          bool         `json:"view"`
	Flags         []string     `json:"flags"`
	In            []Sig        `json:"in"`
	Out           []Sig        `json:"out"`
	Plan          string       `json:"plan,omitempty"`
	Library       string       `json:"library,omitempty"`
	Launches      int          `json:"launches,omitempty"` // how often its kernel ran, where that is more than once

	// Records of state and load: what of the run's state it is, which piece of the whole the rank has, and what that belongs to. A trace that
	// does not say so has none of them.
	Role  state.Role   `json:"role,omitempty"`
	Of    string       `json:"of,omitempty"`
	Place *state.Place `json:"place,omitempty"`

	// Metric records.
	Value *float64 `json:"value,omitempty"`
	Bits  string   `json:"bits,omitempty"`

	// Kernel records; Kernel on collectives and messages too.
	Kernel   string         `json:"kernel,omitempty"`
	Arrivals []Arrival      `json:"arrivals,omitempty"`
	Partials []Contribution `json:"partials,omitempty"`
}

// Sig is the fingerprint of a tensor or a scalar.
type Sig struct {
	Name   string   `json:"name"`
	Shape  []int    `json:"shape"`
	Dtype  string   `json:"dtype"`
	Numel  int      `json:"numel"`
	XOR    string   `json:"xor"`              // torch.hash_tensor, 16 hex digits
	Digest string   `json:"digest"`           // XXH3-128 of dtype, shape and elements, 32 hex digits
	From   *string  `json:"from"`             // producer of an input; null when nobody recorded wrote it
	Over   string   `json:"over,omitempty"`   // who wrote to an input's memory after its producer, named as in From
	Rows   []string `json:"rows,omitempty"`   // XXH3-64 per leading index, on order-sensitive tensors
	Scalar bool     `json:"scalar,omitempty"` // a number set by the loop or the configuration
	Value  *float64 `json:"value,omitempty"`
	Dump   string   `json:"dump,omitempty"` // file with the elements, relative to the trace

	// Where it lies in the whole that all ranks and microbatches of a step have, and a digest that adds up over the pieces of it.
	Place *state.Place `json:"place,omitempty"`
	Parts string       `json:"parts,omitempty"` // 32 hex digits
}

// Arrival is an order drawn from the schedule inside a kernel.
type Arrival struct {
	Name  string `json:"name"`
	Order []int  `json:"order"`
}

// Contribution is one partial of a sum, listed in the order of its addition.
type Contribution struct {
	Row     int    `json:"row"`
	Tile    int    `json:"tile"`
	Reverse bool   `json:"reverse,omitempty"`
	Digest  string `json:"digest"`
}

// Key aligns two traces. It holds names only, so that a trace with records the other lacks aligns too.
type Key struct {
	Rank, Iteration, Microbatch int
	Phase, Kind, Scope, Name    string
	Occurrence                  int
}

// Location is where a record stands, as reports name it.
type Location struct {
	Rank       int    `json:"rank"`
	Iteration  int    `json:"iteration"`
	Microbatch int    `json:"microbatch"`
	Phase      string `json:"phase"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	Scope      string `json:"scope"`
	Level      string `json:"level"`
}

// Path is the scope and name together.
func (l Location) Path() string { return Path(l.Scope, l.Name) }

// At is where the record stands, seen at a level.
func (r *Record) At(level Level) Location {
	return Location{r.Rank, r.Iteration, r.Microbatch, r.Phase, r.Kind, r.Name, r.Scope, level.String()}
}

// Key of a record.
func (r *Record) Key() Key {
	return Key{r.Rank, r.Iteration, r.Microbatch, r.Phase, r.Kind, r.Scope, r.Name, r.Occurrence}
}

// SamePiece tells whether two records show the same elements of a state of one name; false where either does not say which it shows.
func (r *Record) SamePiece(o *Record) bool {
	return r.Place != nil && o.Place != nil && r.Role == o.Role && r.Place.Equal(*o.Place) &&
		slices.EqualFunc(r.Out, o.Out, func(x, y Sig) bool { return slices.Equal(x.Shape, y.Shape) })
}

// String says where in the run the record stands.
func (k Key) String() string {
	return fmt.Sprintf("rank %d iteration %d microbatch %d %s %s %s", k.Rank, k.Iteration, k.Microbatch, k.Phase, k.Kind, Path(k.Scope, k.Name))
}

// Path joins a scope and a name.
func Path(scope, name string) string {
	if scope == "" {
		return name
	}
	return scope + "." + name
}

// Level is how deep a trace looks. A level contains those before it.
type Level int

// The levels.
const (
	Off Level = iota
	Metrics
	Semantic
	Module
	Op
	Kernel
)

var levelNames = []string{"off", "metrics", "semantic", "module", "op", "kernel"}

// String is the name in flags.
func (l Level) String() string { return levelNames[l] }

// LevelNames lists the levels as flags name them.
func LevelNames() []string { return levelNames[1:] }

// ParseLevel reads a level by name or number.
func ParseLevel(s string) (Level, error) {
	for i, n := range levelNames {
		if i > 0 && (s == n || s == strconv.Itoa(i)) {
			return Level(i), nil
		}
	}
	return 0, fmt.Errorf("level %q: %s", s, spell.OneOf(s, LevelNames()))
}

// LevelOf is the first level that records a kind.
func LevelOf(kind string) Level {
	switch kind {
	case "metric", "end":
		return Metrics
	case "module":
		return Module
	case "op":
		return Op
	case "kernel":
		return Kernel
	}
	return Semantic
}
