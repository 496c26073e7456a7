// Command firstbit trains a small model in which every order of addition is a choice, breaks
// that choice, and finds the break again from traces.
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// The exit codes of every command.
const (
	exitSame      = 0 // it held, or the traces are identical
	exitDifferent = 1 // it did not hold, or the traces differ
	exitBad       = 2 // bad flag, file or configuration
)

// outcome is an exit code that is a result, not an error.
type outcome int

func (o outcome) Error() string { return fmt.Sprintf("exit %d", int(o)) }

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr *os.File) int {
	root := command()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.Execute()
	var o outcome
	switch {
	case err == nil:
		return exitSame
	case errors.As(err, &o):
		return int(o)
	}
	fmt.Fprintln(stderr, "firstbit: "+strings.ReplaceAll(err.Error(), "\n", " "))
	return exitBad
}

func command() *cobra.Command {
	root := &cobra.Command{
		Use:   "firstbit",
		Short: "Which bit flipped first, where, and why",
		Long: "firstbit trains a small hybrid Mamba / Transformer / mixture-of-experts model in which every choice that can change a bit is a value,\n" +
			"so that each way in which pretraining loses bitwise determinism can be reproduced, localised to one kernel and cured.",
		Example:       "  firstbit reproduce dprob-atomics\n  firstbit train --preset tiny --steps 20 --trace /tmp/a",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.AddCommand(listCommand(), reproduceCommand(), trainCommand(), diffCommand(), treeCommand(), revealCommand(), fixturesCommand(), verifyCommand(), checkpointCommand())
	for _, c := range root.Commands() {
		if c.Args == nil {
			c.Args = noArgs
		}
	}
	return root
}

// noArgs is cobra.NoArgs in one line of our own.
func noArgs(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%s: unexpected argument %q: it takes flags only, see --help", c.Name(), args[0])
	}
	return nil
}

// exactArgs wants n arguments, named for the message.
func exactArgs(names ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) != len(names) {
			return fmt.Errorf("%s: %d arguments: must be %s", c.Name(), len(args), strings.Join(names, " "))
		}
		return nil
	}
}
