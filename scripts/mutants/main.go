// Command mutants says which tests catch which mutations of the product.
//
// A mutation is an entry of mutants.txt. It is laid over the tree, in which nothing is written, and the tests run: those of its own package,
// then those of the packages that depend on it, nearest first, until one fails. The test that failed last time is asked first.
package main

import (
	_ "embed"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

//go:embed mutants.txt
var list string

func main() {
	tree := flag.String("tree", ".", "the tree whose tests run")
	only := flag.String("run", "", "mutations whose title or file matches this regular expression; empty: all")
	table := flag.String("table", "docs/mutants.md", "where to look for what caught a mutation last time, and to write what does; empty: nowhere")
	limit := flag.Duration("limit", 20*time.Minute, "how long the tests of one package may run")
	near := flag.Bool("near", false, "ask only the test that failed last time and the mutation's own package")
	flag.Parse()
	mutants, err := parse(list)
	if err == nil {
		err = run(mutants, *tree, *only, *table, tester{limit: *limit, near: *near})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// run tries the mutations and writes the table. That one is not caught is an error.
func run(mutants []mutant, tree, only, table string, t tester) error {
	chosen, err := regexp.Compile(only)
	if err != nil {
		return fmt.Errorf("run: %w", err)
	}
	root, err := filepath.Abs(tree)
	if err != nil {
		return err
	}
	rows, err := readTable(table)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	t.dir = dir
	if t.module, err = loadModule(root); err != nil {
		return err
	}
	missed, tried := 0, 0
	for _, x := range mutants {
		if !chosen.MatchString(x.title) && !chosen.MatchString(x.file) {
			continue
		}
		begun := time.Now()
		r := t.try(x, rows[x.title])
		fmt.Printf("%-10s %-30s %s: %s (%.0f s)\n", r.outcome, x.file, x.title, r.by, time.Since(begun).Seconds())
		tried++
		if r.outcome != caught {
			missed++
		}
		rows[x.title] = r
		if err := writeTable(table, mutants, rows); err != nil {
			return err
		}
	}
	if tried == 0 {
		return fmt.Errorf("run: %q: no mutation has such a title or file", only)
	}
	fmt.Printf("%d of %d caught\n", tried-missed, tried)
	if missed > 0 {
		return fmt.Errorf("%d mutations are not caught", missed)
	}
	return nil
}

// mutant is one mutation: what stands once in a file, and what stands there instead.
type mutant struct{ title, file, old, new string }

// parse reads the list: entries parted by empty lines, each a title, a file, and lines of - and +.
func parse(text string) (all []mutant, err error) {
	titles := map[string]bool{}
	for _, entry := range strings.Split(text, "\n\n") {
		var lines []string
		for _, line := range strings.Split(entry, "\n") {
			if line != "" && line[0] != '#' {
				lines = append(lines, line)
			}
		}
		if len(lines) == 0 {
			continue
		}
		if len(lines) < 4 || titles[lines[0]] {
			return nil, fmt.Errorf("mutants.txt: %q: must be a title of its own, a file, and lines of - and +", lines[0])
		}
		var old, new []string
		for _, line := range lines[2:] {
			switch {
			case line[0] == '-' && new == nil:
				old = append(old, line[1:])
			case line[0] == '+':
				new = append(new, line[1:])
			default:
				return nil, fmt.Errorf("mutants.txt: %q: %q: must be a line of -, or of + after those", lines[0], line)
			}
		}
		m := mutant{lines[0], lines[1], strings.Join(old, "\n"), strings.Join(new, "\n")}
		if m.old == "" || m.new == "" || m.old == m.new {
			return nil, fmt.Errorf("mutants.txt: %q: changes nothing", m.title)
		}
		titles[m.title] = true
		all = append(all, m)
	}
	return all, nil
}
