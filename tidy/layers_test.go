// Package tidy holds the tests that read the source instead of running it: which package
// may import which, which arithmetic could be fused, what would depend on the order of a
// map, what has no doc comment. Each check comes with a snippet that it must flag.
package tidy

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A place is where a package stands in the table: its line, then its position on it.
type place struct{ line, column int }

// below says whether a package standing at q may be imported by one standing at p.
func (q place) below(p place) bool {
	return q.line < p.line || q.line == p.line && q.column < p.column
}

// layerTable reads the fenced block that follows the words "lowest first". The packages
// of a line end where its phrase begins, two or more spaces on.
func layerTable(text string) (map[string]place, error) {
	_, rest, ok := strings.Cut(text, "lowest first")
	if !ok {
		return nil, fmt.Errorf("no table: the words \"lowest first\" do not occur")
	}
	_, rest, ok = strings.Cut(rest, "\n```")
	_, block, open := strings.Cut(rest, "\n")
	block, _, closed := strings.Cut(block, "\n```")
	if !ok || !open || !closed {
		return nil, fmt.Errorf("no fenced block after \"lowest first\"")
	}
	table := map[string]place{}
	for i, line := range strings.Split(block, "\n") {
		packages, _, _ := strings.Cut(line, "  ")
		for j, name := range strings.Fields(packages) {
			dir, slash := strings.CutSuffix(name, "/")
			if _, twice := table[dir]; !slash || twice {
				return nil, fmt.Errorf("line %d, %q: want a directory that stands in the table once, as in kernel/", i+1, name)
			}
			table[dir] = place{i, j}
		}
	}
	return table, nil
}

// checkLayers finds packages that are not in the table, lines of the table without a
// package, and imports of a package that does not stand below the importer. An example stands outside its package, as a user of all of them.
func checkLayers(m *module, table map[string]place) (found []string) {
	seen := map[string]bool{"tidy": true}
	for _, p := range m.packages {
		seen[p.dir] = true
		from, ok := table[p.dir]
		if !ok && p.dir != "tidy" {
			found = append(found, fmt.Sprintf("%s/: not in the layer table", p.dir))
			continue
		}
		for _, f := range slices.Concat(p.files, p.tests) {
			if strings.HasSuffix(f.Name.Name, "_test") && filepath.Base(m.fset.Position(f.Pos()).Filename) == "example_test.go" {
				continue
			}
			for _, spec := range f.Imports {
				dir, own := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), m.path+"/")
				if !own || dir == p.dir || p.dir == "tidy" {
					continue
				}
				if to, ok := table[dir]; !ok || !to.below(from) {
					found = append(found, fmt.Sprintf("%s: %s/ imports %s/, which does not stand below it", m.at(spec.Pos()), p.dir, dir))
				}
			}
		}
	}
	for dir := range table { // sorted below
		if !seen[dir] {
			found = append(found, fmt.Sprintf("%s/: in the layer table, but there is no such package", dir))
		}
	}
	slices.Sort(found)
	return found
}

func TestLayers(t *testing.T) {
	m := loadModule(t)
	text, err := os.ReadFile(filepath.Join(m.root, "ARCHITECTURE.md"))
	require.NoError(t, err)
	table, err := layerTable(string(text))
	require.NoError(t, err)
	report(t, "imports that climb the layer table of ARCHITECTURE.md", checkLayers(m, table))
}

func TestLayersNegativeControl(t *testing.T) {
	_, err := layerTable("# Layers, lowest first\nText.\n\n```\nlow/ lower/  — numbers\nmiddle/\n\nx/top/ — with a phrase\n```\n")
	require.ErrorContains(t, err, `"—"`, "a phrase needs two spaces before it")
	table, err := layerTable("Layers, lowest first\n\n```\nlow/ next/  — numbers\nmiddle/\nx/top/      — the top\ngone/\n```\nlater/\n")
	require.NoError(t, err)
	require.Equal(t, map[string]place{"low": {0, 0}, "next": {0, 1}, "middle": {1, 0}, "x/top": {2, 0}, "gone": {3, 0}}, table)

	m := madeUp(t, map[string]string{
		"low":    "package low\nimport _ \"example/next\"\n",
		"next":   "package next\nimport _ \"example/low\"\n",
		"middle": "package middle\nimport _ \"example/next\"\nimport _ \"example/x/top\"\n",
		"x/top":  "package top\nimport _ \"example/middle\"\nimport _ \"example/absent\"\n",
		"stray":  "package stray\n",
	})
	require.Equal(t, []string{
		"gone/: in the layer table, but there is no such package",
		"low/a.go:2: low/ imports next/, which does not stand below it",
		"middle/a.go:3: middle/ imports x/top/, which does not stand below it",
		"stray/: not in the layer table",
		"x/top/a.go:3: x/top/ imports absent/, which does not stand below it",
	}, checkLayers(m, table))

	for _, bad := range []string{"", "lowest first", "lowest first\n```\nlow/", "lowest first\n```\nlow\n```\n", "lowest first\n```\nlow/ low/\n```\n"} {
		_, err := layerTable(bad)
		require.Error(t, err, "%q", bad)
	}
}
