package main

import (
	"fmt"
	"os"
	"strings"
)

// What became of a mutation. Only the first is as it must be.
const (
	caught     = "caught"
	survived   = "SURVIVED"
	stale      = "stale"      // the file does not have the text, or more than once
	uncompiled = "no program" // it does not compile
	untried    = "not tried"  // there is no such line in the table yet
)

// result is what became of a mutation, and the package and test that caught it, or what is wrong.
type result struct{ outcome, by string }

const head = `# Mutations

Each line is a change of one place in the code, and a test of ` + "`go test ./...`" + ` that fails with it, by package and name. The texts are in
` + "`scripts/mutants/mutants.txt`" + `; ` + "`make mutants`" + ` makes the table again.

| mutation | file | caught by |
|---|---|---|
`

// readTable reads what the last run wrote; a table that does not exist has no lines.
func readTable(path string) (map[string]result, error) {
	rows := map[string]result{}
	if path == "" {
		return rows, nil
	}
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return rows, nil
	}
	if err != nil {
		return nil, err
	}
	for _, line := range strings.Split(string(text), "\n") {
		cells := strings.Split(line, " | ")
		if len(cells) != 3 || !strings.HasPrefix(cells[1], "`") {
			continue
		}
		r := result{caught, strings.Trim(strings.TrimSuffix(cells[2], " |"), "`")}
		for _, outcome := range []string{survived, stale, uncompiled, untried} {
			if by, ok := strings.CutPrefix(r.by, outcome); ok {
				r = result{outcome, strings.TrimPrefix(by, ": ")}
			}
		}
		rows[strings.TrimPrefix(cells[0], "| ")] = r
	}
	return rows, nil
}

func writeTable(path string, mutants []mutant, rows map[string]result) error {
	if path == "" {
		return nil
	}
	var b strings.Builder
	b.WriteString(head)
	for _, m := range mutants {
		r, ok := rows[m.title]
		if !ok {
			r = result{outcome: untried}
		}
		by := "`" + r.by + "`"
		if r.outcome != caught {
			by = strings.TrimSuffix(r.outcome+": "+r.by, ": ")
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", m.title, "`"+m.file+"`", by)
	}
	return os.WriteFile(path, []byte(b.String()), 0o644)
}
