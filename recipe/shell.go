package recipe

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/interp"
	"mvdan.cc/sh/v3/syntax"
)

// Bounds of a script: what it is made of, what it calls, and what it keeps.
const (
	scriptMost = 1 << 16 // bytes of a script
	callsMost  = 4000
	valueMost  = 1 << 13 // bytes of a variable
	varsMost   = 1 << 20 // bytes of all variables
	nestMost   = 4       // scripts within scripts
	wordsMost  = 1 << 13 // of a command
	bracesMost = 100     // words that one pair of braces makes
)

// command is a command that a script would have run.
type command struct {
	words []string
	env   []Setting // exported variables
	line  uint
	depth int
}

// script runs a shell script in which no command does anything, no file is there and none is written: assignments, tests, loops and
// functions are the shell's, and what it would have run is listed.
type script struct {
	mu       sync.Mutex
	calls    int
	commands []command
	notes    []Unknown
	env      []Setting // that it is started with
}

// runScript lists the commands of a script, and its variables at its end.
func runScript(text []byte, env []Setting) (*script, map[string]expand.Variable, error) {
	s := &script{env: env}
	vars, err := s.run(text, env, 0)
	slices.SortStableFunc(s.commands, func(a, b command) int { return cmp.Or(cmp.Compare(a.depth, b.depth), cmp.Compare(a.line, b.line)) })
	return s, vars, err
}

func (s *script) run(text []byte, env []Setting, depth int) (vars map[string]expand.Variable, err error) {
	switch {
	case len(text) > scriptMost:
		return nil, fmt.Errorf("%d bytes: a script must have at most %d", len(text), scriptMost)
	case depth > nestMost:
		return nil, fmt.Errorf("scripts within scripts: must be at most %d deep", nestMost)
	}
	file, err := parseShell(text)
	if err != nil {
		return nil, fmt.Errorf("%w: must be a shell script, a list of arguments, YAML with MODEL_ARGS, or a Hugging Face config.json", err)
	}
	if err := tame(file); err != nil {
		return nil, err
	}
	var pairs []string
	for _, v := range env {
		pairs = append(pairs, v.Name+"="+v.Value)
	}
	r, err := interp.New(interp.Env(expand.ListEnviron(pairs...)), interp.StdIO(nil, io.Discard, io.Discard), interp.CallHandler(s.call),
		interp.ExecHandlers(func(interp.ExecHandlerFunc) interp.ExecHandlerFunc {
			return func(ctx context.Context, words []string) error { return s.exec(ctx, words, depth) }
		}), interp.OpenHandler(noFile), interp.ReadDirHandler2(func(context.Context, string) ([]fs.DirEntry, error) { return nil, nil }),
		interp.StatHandler(func(context.Context, string, bool) (fs.FileInfo, error) { return nil, os.ErrNotExist }),
		interp.AccessHandler(func(context.Context, string, interp.AccessMode) error { return os.ErrNotExist }))
	if err != nil {
		return nil, err
	}
	defer func() { // the interpreter is a library's, and a script anybody's
		if p := recover(); p != nil {
			err = fmt.Errorf("the script cannot be read: %v", p)
		}
	}()
	err = r.Run(context.Background(), file)
	if errors.As(err, new(interp.ExitStatus)) {
		err = nil // whatever it came to
	}
	return r.Vars, err
}

// parseShell reads [0]*3 in an array as a shell does, a word, where the library's parser wants an index.
func parseShell(text []byte) (*syntax.File, error) {
	for range bracesMost {
		file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(bytes.NewReader(text), "")
		var at syntax.ParseError
		if !errors.As(err, &at) || !strings.HasPrefix(at.Text, "`[x]`") || int(at.Pos.Offset()) >= len(text) || text[at.Pos.Offset()] != '[' {
			return file, err
		}
		text = slices.Insert(slices.Clone(text), int(at.Pos.Offset()), '\\')
	}
	return nil, errors.New("too many words that begin with a bracket")
}

func noFile(context.Context, string, int, os.FileMode) (io.ReadWriteCloser, error) {
	return nil, os.ErrNotExist
}

var sequence = regexp.MustCompile(`\{(-?\d+)\.\.(-?\d+)`)

// tame takes from a script what would reach outside, or would not end: files that it writes, processes beside it, braces that stand for
// many words. Before each statement stands a call, so that bounds are looked at.
func tame(file *syntax.File) (err error) {
	guarded := func(list []*syntax.Stmt) []*syntax.Stmt {
		out := make([]*syntax.Stmt, 0, 2*len(list))
		for _, stmt := range list {
			colon := &syntax.Stmt{Position: stmt.Position, Cmd: &syntax.CallExpr{Args: []*syntax.Word{{Parts: []syntax.WordPart{&syntax.Lit{Value: ":"}}}}}}
			out = append(out, colon, stmt)
		}
		return out
	}
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.File:
			n.Stmts = guarded(n.Stmts)
		case *syntax.Block:
			n.Stmts = guarded(n.Stmts)
		case *syntax.Subshell:
			n.Stmts = guarded(n.Stmts)
		case *syntax.CmdSubst:
			n.Stmts = guarded(n.Stmts)
		case *syntax.IfClause:
			n.Then = guarded(n.Then)
		case *syntax.WhileClause:
			n.Do = guarded(n.Do)
		case *syntax.ForClause:
			n.Do = guarded(n.Do)
		case *syntax.CaseItem:
			n.Stmts = guarded(n.Stmts)
		case *syntax.Stmt:
			n.Background, n.Coprocess = false, false
			n.Redirs = slices.DeleteFunc(n.Redirs, func(r *syntax.Redirect) bool {
				return r.Op != syntax.Hdoc && r.Op != syntax.DashHdoc && r.Op != syntax.WordHdoc
			})
		case *syntax.Word:
			for i, part := range n.Parts {
				if _, ok := part.(*syntax.ProcSubst); ok {
					n.Parts[i] = &syntax.Lit{Value: "/dev/null"}
				}
			}
		case *syntax.Lit:
			if err == nil && !modest(n.Value) {
				err = fmt.Errorf("line %d: braces that stand for many words: must be at most two pairs of at most %d", n.Pos().Line(), bracesMost)
			}
		}
		return true
	})
	return err
}

// modest tells whether a literal's braces stand for few words.
func modest(text string) bool {
	if !strings.Contains(text, "{") || !strings.Contains(text, ",") && !strings.Contains(text, "..") {
		return true
	}
	for _, m := range sequence.FindAllStringSubmatch(text, -1) {
		lo, err := strconv.Atoi(m[1])
		hi, err2 := strconv.Atoi(m[2])
		if d := hi - lo; err != nil || err2 != nil || d > bracesMost || d < -bracesMost {
			return false
		}
	}
	return strings.Count(text, "{") <= 2 && strings.Count(text, ",") <= 2*bracesMost
}

var errLong = errors.New("the script does not end, or keeps too much")

// call sees every command, the shell's own too. It takes away those that would end the script, read files, or ask the machine.
func (s *script) call(ctx context.Context, words []string) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls++; s.calls > callsMost {
		return nil, fmt.Errorf("%w: more than %d commands", errLong, callsMost)
	}
	hc := interp.HandlerCtx(ctx)
	size := 0
	hc.Env.Each(func(_ string, v expand.Variable) bool {
		n := len(v.Str)
		for _, e := range v.List {
			n += len(e)
		}
		if n > valueMost {
			size = varsMost
		}
		size += n
		return true
	})
	if size > varsMost {
		return nil, fmt.Errorf("%w: a variable must have at most %d bytes, and all together %d", errLong, valueMost, varsMost)
	}
	nothing := []string{":"}
	switch words[0] {
	case "exit", "cd", "pushd", "popd", "trap", "command", "type", "builtin", "shopt", "wait", "umask", "alias", "history":
		return nothing, nil
	case "set":
		if len(words) < 2 || words[1] != "--" {
			return nothing, nil
		}
	case "source", ".":
		name := strings.Join(words[1:], " ")
		s.notes = append(s.notes, Unknown{"source " + name, "another file: what it sets is not known"})
		return nothing, nil
	case "exec":
		if len(words) == 1 {
			return nothing, nil
		}
		return words[1:], nil
	case "eval":
		return append([]string{"bash", "-c"}, strings.Join(words[1:], " ")), nil
	}
	return words, nil
}

// shells run what stands in a word, or on their input.
var shells = []string{"bash", "sh", "zsh", "srun", "sbatch", "ssh", "mpirun", "singularity", "apptainer", "docker", "nsys", "timeout", "nohup", "time"}

// exec notes a command, and what a shell that it starts would run.
func (s *script) exec(ctx context.Context, words []string, depth int) error {
	hc := interp.HandlerCtx(ctx)
	var env []Setting
	hc.Env.Each(func(name string, v expand.Variable) bool {
		if v.Exported && v.Kind == expand.String {
			env = append(env, Setting{name, v.Str})
		}
		return true
	})
	slices.SortFunc(env, func(a, b Setting) int { return strings.Compare(a.Name, b.Name) })
	for len(words) > 1 && words[0] == "env" {
		words = words[1:]
		for len(words) > 1 {
			name, value, ok := strings.Cut(words[0], "=")
			if !ok {
				break
			}
			env = set(env, name, value)
			words = words[1:]
		}
	}
	if slices.Contains(shells, words[0]) {
		for _, w := range words[1:] {
			if strings.ContainsAny(w, " \n") && strings.Contains(w, "--") {
				_, err := s.run([]byte(w), env, depth+1)
				return err
			}
		}
		if hc.Stdin != nil {
			if text, err := io.ReadAll(io.LimitReader(hc.Stdin, scriptMost+1)); err == nil && len(text) > 0 {
				_, err := s.run(text, env, depth+1)
				return err
			}
		}
	}
	if len(words) > wordsMost {
		return fmt.Errorf("%w: a command must have at most %d words", errLong, wordsMost)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commands = append(s.commands, command{slices.Clone(words), env, hc.Pos.Line(), depth})
	return nil
}

// set gives a variable its value.
func set(env []Setting, name, value string) []Setting {
	for i := range env {
		if env[i].Name == name {
			env[i].Value = value
			return env
		}
	}
	return append(env, Setting{name, value})
}
