package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// module is the packages of a tree, and what each needs for its tests.
type module struct {
	root string
	path string
	all  []listed
}

type listed struct {
	ImportPath                         string
	Imports, TestImports, XTestImports []string
	Module                             struct{ Path string }
}

func loadModule(root string) (*module, error) {
	c := exec.Command("go", "list", "-json=ImportPath,Imports,TestImports,XTestImports,Module", "./...")
	c.Dir, c.Stderr = root, os.Stderr
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	m := &module{root: root}
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var p listed
		if err := d.Decode(&p); err != nil {
			return nil, err
		}
		m.path = p.Module.Path
		m.all = append(m.all, p)
	}
	return m, nil
}

// needs is the packages that another imports, and those these import.
func (m *module) needs(imports []string, seen map[string]bool) {
	for _, p := range m.all {
		if slices.Contains(imports, p.ImportPath) && !seen[p.ImportPath] {
			seen[p.ImportPath] = true
			m.needs(p.Imports, seen)
		}
	}
}

// testing lists the packages whose tests run code of one, that one first, then those that need the fewest others.
func (m *module) testing(pkg string) []string {
	size := map[string]int{}
	var found []string
	for _, p := range m.all {
		seen := map[string]bool{}
		m.needs(slices.Concat(p.Imports, p.TestImports, p.XTestImports), seen)
		if p.ImportPath != pkg && seen[pkg] {
			size[p.ImportPath] = len(seen)
			found = append(found, p.ImportPath)
		}
	}
	slices.SortStableFunc(found, func(a, b string) int { return cmp.Compare(size[a], size[b]) })
	return append([]string{pkg}, found...)
}

// tester runs tests with a mutation laid over the tree.
type tester struct {
	*module
	dir   string
	limit time.Duration
	near  bool // only the test that failed last time and the mutation's own package
}

// try finds a test that fails with the mutation; last is what did before.
func (t tester) try(m mutant, last result) result {
	overlay, why := t.overlay(m)
	if why != "" {
		return result{stale, why}
	}
	pkg := path.Join(t.path, path.Dir(m.file))
	if p, test, ok := strings.Cut(last.by, " "); ok && last.outcome == caught {
		name, _, _ := strings.Cut(test, "/")
		if r := t.fails(overlay, path.Join(t.path, p), "^"+name+"$"); r.outcome != survived {
			return r
		}
	}
	all := t.testing(pkg)
	if t.near {
		all = all[:1]
	}
	for _, p := range all {
		if r := t.fails(overlay, p, ""); r.outcome != survived {
			return r
		}
	}
	return result{outcome: survived}
}

// overlay writes the changed file and what the go command needs to see it; why: it cannot.
func (t tester) overlay(m mutant) (name, why string) {
	original := filepath.Join(t.root, filepath.FromSlash(m.file))
	text, err := os.ReadFile(original)
	if err != nil {
		return "", "there is no such file"
	}
	if n := strings.Count(string(text), m.old); n != 1 {
		return "", fmt.Sprintf("the file has the text %d times", n)
	}
	changed := filepath.Join(t.dir, "changed.go")
	name = filepath.Join(t.dir, "overlay.json")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {original: changed}})
	if err == nil {
		err = os.WriteFile(changed, []byte(strings.Replace(string(text), m.old, m.new, 1)), 0o644)
	}
	if err == nil {
		err = os.WriteFile(name, replace, 0o644)
	}
	if err != nil {
		return "", err.Error()
	}
	return name, ""
}

// event is what go test tells of a test.
type event struct{ Action, Test, Output, FailedBuild string }

// fails runs the tests of a package until the first that fails. Tests that do not come to their end fail in the one that was under way.
func (t tester) fails(overlay, pkg, run string) result {
	args := []string{"test", "-json", "-failfast", "-vet=off", "-overlay", overlay, "-timeout", t.limit.String()}
	if run != "" {
		args = append(args, "-run", run)
	}
	c := exec.Command("go", append(args, pkg)...)
	c.Dir = t.root
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		return result{uncompiled, err.Error()}
	}
	first, under, compiler, built := "", "", "", true
	s := bufio.NewScanner(out)
	s.Buffer(nil, 1<<24)
	for s.Scan() {
		var e event
		if json.Unmarshal(s.Bytes(), &e) != nil {
			continue
		}
		switch {
		case e.Action == "build-output" && compiler == "" && !strings.HasPrefix(e.Output, "#"):
			compiler = strings.TrimSpace(e.Output)
		case e.FailedBuild != "":
			built = false
		case e.Action == "run":
			under = e.Test
		case e.Action == "fail" && e.Test != "" && first == "":
			first = e.Test
		}
	}
	switch err := c.Wait(); {
	case !built:
		return result{uncompiled, compiler}
	case err == nil:
		return result{outcome: survived}
	}
	short := strings.TrimPrefix(strings.TrimPrefix(pkg, t.path), "/")
	return result{caught, short + " " + cmp.Or(first, under, "(no test)")}
}
