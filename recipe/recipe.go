// Package recipe reads what people train with, a script of Megatron-LM's arguments or a Hugging Face config.json, makes a configuration
// of the same pattern that a laptop trains, and says which causes of the catalog the recipe is exposed to.
package recipe

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/expand"

	"firstbit/files"
)

// Recipe is what a file says.
type Recipe struct {
	Arguments []Argument // in the order of the file, each name once
	Env       []Setting  // sorted by name
	Unknown   []Unknown  // what could not be read, and what nothing here stands for
	Harmless  int        // arguments that choose nothing
	Unmapped  int        // arguments among Unknown

	whole bool // the file has arguments of a launch; a config.json has none
	job
}

// Argument is one of Megatron-LM's, without what repeats of it set before.
type Argument struct {
	Name   string // with its dashes
	Values []string
	As     string // how the file says it, where that is otherwise
}

// String is the argument as it is written.
func (a Argument) String() string {
	if a.As != "" {
		return a.As
	}
	return strings.Join(append([]string{a.Name}, a.Values...), " ")
}

// Setting is an environment variable.
type Setting struct{ Name, Value string }

// Unknown is what has no place in firstbit: it counts as unknown, never as safe.
type Unknown struct {
	Argument string `json:"argument"`
	Why      string `json:"why"`
}

// Read reads a recipe from a file. Variables of env are as if the script had been started with them, and win over a list's or YAML's own.
//
// Errors: what is no recipe, arguments whose values cannot be.
func Read(path string, env []Setting) (*Recipe, error) {
	text, err := files.Read(path, 1<<20)
	if err != nil {
		return nil, files.Reason(err)
	}
	return Parse(text, filepath.Ext(path), env)
}

// Parse reads a recipe of that file name extension.
func Parse(text []byte, ext string, env []Setting) (r *Recipe, err error) {
	switch trimmed := bytes.TrimSpace(text); {
	case len(trimmed) == 0:
		return nil, errors.New("empty: must be a shell script, a list of arguments, YAML with MODEL_ARGS, or a Hugging Face config.json")
	case trimmed[0] == '{' && ext != ".sh":
		r, err = fromHF(text)
	case ext == ".yaml" || ext == ".yml":
		r, err = fromYAML(text)
	default:
		r, err = fromScript(text, env)
	}
	if err != nil {
		return nil, err
	}
	for _, v := range env {
		r.Env = set(r.Env, v.Name, v.Value)
	}
	slices.SortFunc(r.Env, func(a, b Setting) int { return strings.Compare(a.Name, b.Name) })
	if len(r.Arguments) == 0 {
		return nil, errors.New("no arguments of Megatron-LM, such as --num-layers 12, and no command that starts a .py with some")
	}
	return r, r.understand()
}

// fromScript takes the command with the most arguments, or else a list: lines, or values of variables, that begin with an argument.
func fromScript(text []byte, env []Setting) (*Recipe, error) {
	s, vars, err := runScript(text, env)
	if err != nil {
		return nil, err
	}
	r := &Recipe{Unknown: s.notes, whole: true}
	var most []string
	var list []string
	for _, c := range s.commands {
		if strings.HasPrefix(c.words[0], "--") {
			list = append(list, c.words...)
			continue
		}
		at := slices.IndexFunc(c.words, func(w string) bool { return strings.HasSuffix(w, ".py") })
		if at < 0 || len(c.words)-at <= len(most) {
			continue
		}
		most, r.Env = c.words[at+1:], c.env
		r.launcher(c.words[:at], c.env)
	}
	for name, v := range sorted(vars) {
		switch {
		case v.Kind != expand.String || !known(name):
		case most == nil:
			r.Env = append(r.Env, Setting{name, v.Str})
		case !v.Exported:
			r.Unknown = append(r.Unknown, Unknown{name + "=" + v.Str, "set and not exported: the job does not see it"})
		}
	}
	if most == nil {
		most = append(list, named(vars)...)
	}
	r.Env = slices.DeleteFunc(r.Env, func(v Setting) bool { return !known(v.Name) })
	r.add(most)
	return r, nil
}

// named are the arguments that variables have.
func named(vars map[string]expand.Variable) (words []string) {
	for _, v := range sorted(vars) {
		fields := strings.Fields(v.Str)
		if v.Kind == expand.Indexed {
			fields = strings.Fields(strings.Join(v.List, " "))
		}
		if len(fields) > 0 && strings.HasPrefix(fields[0], "--") {
			words = append(words, fields...)
		}
	}
	return words
}

// sorted visits variables by name.
func sorted(vars map[string]expand.Variable) func(func(string, expand.Variable) bool) {
	names := make([]string, 0, len(vars))
	for name := range vars { // sorted below
		names = append(names, name)
	}
	slices.Sort(names)
	return func(yield func(string, expand.Variable) bool) {
		for _, name := range names {
			if !yield(name, vars[name]) {
				return
			}
		}
	}
}

// add splits words into arguments and their values. Of an argument that is given twice the last counts.
func (r *Recipe) add(words []string) {
	var at *Argument
	for _, w := range words {
		if strings.HasPrefix(w, "--") && len(w) > 2 {
			name, value, ok := strings.Cut(w, "=")
			r.Arguments = slices.DeleteFunc(r.Arguments, func(a Argument) bool { return a.Name == name })
			r.Arguments = append(r.Arguments, Argument{Name: name})
			at = &r.Arguments[len(r.Arguments)-1]
			if ok {
				at.Values = []string{value}
			}
			continue
		}
		if at == nil {
			r.Unknown = append(r.Unknown, Unknown{w, "stands before every argument"})
			continue
		}
		at.Values = append(at.Values, w)
	}
}

// find is an argument of that name; nil: it is not given.
func (r *Recipe) find(name string) *Argument {
	for i := range r.Arguments {
		if r.Arguments[i].Name == name {
			return &r.Arguments[i]
		}
	}
	return nil
}

// variable is an environment variable; ok: it is set, and to something.
func (r *Recipe) variable(name string) (value string, ok bool) {
	for _, v := range r.Env {
		if v.Name == name {
			return v.Value, v.Value != ""
		}
	}
	return "", false
}

// launch stands for the number of ranks, which the launcher says.
const launch = "--nproc-per-node"

// because cites what decides something: arguments and variables that are given, or else says that the first of them is not.
func (r *Recipe) because(names ...string) string {
	var cited []string
	for _, name := range names {
		if a := r.find(name); a != nil {
			if len(names) == 1 || !slices.Equal(a.Values, []string{"1"}) { // an axis of one rank
				cited = append(cited, a.String())
			}
		} else if name == launch && r.world > 0 {
			cited = append(cited, fmt.Sprintf("%d ranks", r.world))
		} else if v, ok := r.variable(name); ok {
			cited = append(cited, name+"="+v)
		}
	}
	return cmp.Or(strings.Join(cited, ", "), fmt.Sprintf("no %s", names[0]))
}
