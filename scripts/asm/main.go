// Command asm writes the assembly of kernel, libm, lowp and reduce. It is a module of its own, so that firstbit does not depend
// on avo, which finds registers for what has a name here, and the offsets of arguments.
//
//	go -C scripts/asm run .          writes the files
//	go -C scripts/asm run . -check   fails where the files are not what it would write, and at assembly of other origin
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/pass"
	"github.com/mmcloughlin/avo/printer"
)

// root is the folder of the module that the assembly belongs to, from where this program runs.
const root = "../.."

// A source is a file of assembly, the package that declares its functions, and what writes them.
type source struct {
	path, pkg string
	functions func(asm)
}

var sources = []source{
	{"kernel/chain_amd64.s", "firstbit/kernel", chain},
	{"kernel/collective_amd64.s", "firstbit/kernel", collective},
	{"kernel/fused_amd64.s", "firstbit/kernel", fused},
	{"libm/slices_amd64.s", "firstbit/libm", elementary},
	{"lowp/lanes_amd64.s", "firstbit/lowp", scans},
	{"reduce/sums_amd64.s", "firstbit/reduce", sums},
}

func main() {
	check := flag.Bool("check", false, "compare with the files instead of writing them")
	flag.Parse()
	if err := run(*check); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(check bool) error {
	if err := os.Chdir(root); err != nil {
		return err
	}
	// Declarations are read as amd64 builds them, wherever this runs.
	if err := os.Setenv("GOARCH", "amd64"); err != nil {
		return err
	}
	errs := []error{handWritten()}
	for _, s := range sources {
		text, err := s.text()
		switch {
		case err != nil:
			err = fmt.Errorf("%s: %w", s.path, err)
		case check:
			err = same(s.path, text)
		default:
			err = os.WriteFile(s.path, text, 0o666)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// text is the assembly.
func (s source) text() ([]byte, error) {
	g := asm{build.NewContext()}
	g.Package(s.pkg)
	if _, err := g.Result(); err != nil {
		return nil, err
	}
	s.functions(g)
	file, err := g.Result()
	if err != nil {
		return nil, err
	}
	// Of moves from a register to itself that follow one another, Compile leaves every other.
	if err := pass.Concat(pass.Compile, pass.FunctionPass(pass.PruneSelfMoves)).Execute(file); err != nil {
		return nil, err
	}
	for _, f := range file.Functions() {
		if err := onlyAVX2(f); err != nil {
			return nil, err
		}
	}
	return printer.NewGoAsm(printer.Config{Name: "make asm"}).Print(file)
}

// same fails if a file does not hold this text.
func same(path string, text []byte) error {
	there, err := os.ReadFile(path)
	if err == nil && !bytes.Equal(there, text) {
		err = fmt.Errorf("%s is not what scripts/asm writes: run make asm", path)
	}
	return err
}

// handWritten fails if a package has assembly that is not written here.
func handWritten() error {
	files, err := filepath.Glob("*/*.s")
	for _, f := range files {
		if !slices.ContainsFunc(sources, func(s source) bool { return s.path == filepath.ToSlash(f) }) {
			err = errors.Join(err, fmt.Errorf("%s is not written by scripts/asm", f))
		}
	}
	return err
}
