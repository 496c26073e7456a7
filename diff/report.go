// Package diff aligns two traces, reads their first mismatch and localises its cause.
package diff

import (
	"encoding/json"
	"fmt"
	"slices"
	"sort"

	"firstbit/trace"
)

// Finding is a record with a verdict on it.
type Finding struct {
	Verdict string `json:"verdict"`
	trace.Location
}

// RankVerdict is the first mismatch of one rank.
type RankVerdict struct {
	Rank    int      `json:"rank"`
	Verdict string   `json:"verdict"`
	First   *Finding `json:"first"`
}

// Field is a field of run.json in which the runs differ.
type Field struct {
	Field    string `json:"field"`
	A        string `json:"a"`
	B        string `json:"b"`
	Explains bool   `json:"explains"` // it may change bits, so it explains a difference
}

// Bytes settle a verdict: the first element in which an output differs.
type Bytes struct {
	Output  string `json:"output"`
	Element int    `json:"element"`
	A       string `json:"a"` // bit patterns, hex
	B       string `json:"b"`
	ValueA  string `json:"value_a"`
	ValueB  string `json:"value_b"`
	Ulps    uint64 `json:"ulps"`
	Count   int    `json:"count"` // elements that differ
	Of      int    `json:"of"`

	integer bool // Ulps is a difference of integers
}

// Distance says how far apart the first differing elements are.
func (b *Bytes) Distance() string {
	if b.integer {
		return fmt.Sprintf("%d apart", b.Ulps)
	}
	return fmt.Sprintf("%d ulp apart", b.Ulps)
}

// LevelStep is one level of a localisation.
type LevelStep struct {
	Level    string   `json:"level"`
	Compared int      `json:"compared"`  // records
	RuledOut int      `json:"ruled_out"` // of them equal and before the first mismatch
	First    *Finding `json:"first"`
}

// Report is the result of a comparison.
type Report struct {
	Identical         bool          `json:"identical"`
	Steps             int           `json:"steps"`
	Records           int           `json:"records"`
	Shared            *Shared       `json:"shared"`                 // of two traces
	Truncated         *string       `json:"cut"`                    // says which trace was cut short; null: none was
	NotRecorded       *string       `json:"not_recorded,omitempty"` // what a trace lacks, so that it was not compared
	LeftOut           int           `json:"left_out,omitempty"`     // of two layouts: IDs that one has alone, or has otherwise
	ConfigDifferences []Field       `json:"config_differences"`
	First             *Finding      `json:"first"`
	Roots             []Finding     `json:"roots"`
	Ranks             []RankVerdict `json:"ranks"`
	Pattern           *string       `json:"pattern"`
	Class             *string       `json:"class"`
	Evidence          []string      `json:"evidence"`
	Confirmed         bool          `json:"confirmed"`
	Bytes             *Bytes        `json:"bytes"`
	Action            string        `json:"action"`
	Within            *string       `json:"within,omitempty"` // of two layouts: how far apart they may be, and how many records are no further
	Levels            []LevelStep   `json:"levels,omitempty"`

	// The records of First in the two runs; nil where one run has none.
	A, B *trace.Record `json:"-"`
	// Differing lists the records that differ on First's rank, in order of execution.
	Differing []*trace.Record `json:"-"`
	// Layouts tells that IDs were compared, of two layouts.
	Layouts  bool `json:"-"`
	ruledOut int
	pending  []dumped
}

// actions says what to do about a verdict.
var actions = map[string]string{
	"origin": "investigate-call", "memory": "investigate-call", "downstream": "trace-upstream", "unresolved": "trace-ranks",
	"narrow": "trace-deeper", "blind-spot": "trace-upstream", "outside-window": "widen-window", "restore": "check-restore",
	"artifact": "fix-probe", "missing": "compare-configs",
}

// derived are fields that others decide, or that say what became of the run. Traces whose records of states have no places have replicas.
var derived = []string{"replicas", "holds", "last", "ends", "digest"}

// configDifferences compares run.json field by field, nested ones by their path.
func configDifferences(a, b map[string]any) []Field {
	fa, fb := map[string]string{}, map[string]string{}
	flatten("", a, fa)
	flatten("", b, fb)
	names := map[string]bool{}
	for n := range fa { // collected, sorted below
		names[n] = true
	}
	for n := range fb { // sorted below
		names[n] = true
	}
	fields := []Field{}
	for n := range names { // sorted below
		if fa[n] != fb[n] && !slices.Contains(derived, n) {
			fields = append(fields, Field{n, fa[n], fb[n], n != "level" && n != "parts" && n != "digests."+trace.PartsDigest})
		}
	}
	sort.Slice(fields, func(i, j int) bool { return fields[i].Field < fields[j].Field })
	return fields
}

// specs are what was injected, without what it came to.
func specs(faults any) any {
	list, ok := faults.([]any)
	if !ok {
		return faults
	}
	texts := []any{}
	for _, f := range list {
		if m, ok := f.(map[string]any); ok {
			f = m["spec"]
		}
		texts = append(texts, f)
	}
	return texts
}

func flatten(prefix string, v any, out map[string]string) {
	if prefix == "faults" {
		v = specs(v)
	}
	if m, ok := v.(map[string]any); ok {
		for k, e := range m { // a map again: order reaches nothing
			flatten(trace.Path(prefix, k), e, out)
		}
		return
	}
	text, err := json.Marshal(v)
	if err != nil {
		text = []byte(fmt.Sprint(v))
	}
	out[prefix] = string(text)
}
