// Command firstbit trains a small model in which every order of addition is a choice, breaks
// that choice, and finds the break again from traces.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"firstbit/spell"
)

// The exit codes of every command.
const (
	exitSame      = 0        // it held, or the traces are identical
	exitDifferent = 1        // it did not hold, or the traces differ
	exitBad       = 2        // bad flag, file or configuration, or what is printed cannot be written
	exitUnread    = 128 + 13 // nobody reads what is printed: what a shell sees of a program that SIGPIPE ends; see interruption for other signals
)

// outcome is an exit code that is a result, not an error.
type outcome int

func (o outcome) Error() string { return fmt.Sprintf("exit %d", int(o)) }

func main() {
	reportBrokenPipes()
	boundGarbage()
	os.Exit(perform(os.Args[1:], os.Stdout, os.Stderr))
}

// perform ends with one line on stderr unless all went well, or nobody reads what is printed.
func perform(args []string, stdout, stderr *os.File) int {
	out := &output{file: stdout, colour: coloured(stdout)}
	live.begin(stderr)
	defer live.end()
	err := execute(args, out, visibly{stderr})
	var o outcome
	var i interruption
	if failed := out.close(); failed != nil && (err == nil || errors.As(err, &o)) {
		err = failed
	}
	switch {
	case err == nil:
		return exitSame
	case errors.As(err, &o):
		return int(o)
	case unread(err):
		return exitUnread
	}
	live.end()
	fmt.Fprintln(stderr, "firstbit: "+oneLine(err.Error()))
	if errors.As(err, &i) {
		return i.code
	}
	return exitBad
}

func execute(args []string, stdout, stderr io.Writer) error {
	root := command()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.InitDefaultHelpCmd() // cobra's own commands answer as ours do
	root.InitDefaultCompletionCmd()
	strict(root)
	if err := complete(root); err != nil {
		return err
	}
	return root.Execute()
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
	root.Version = build().String()
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(badFlag)
	root.PersistentPreRunE = func(c *cobra.Command, _ []string) error {
		live.name(c.CommandPath())
		return checkFlags(c)
	}
	root.AddCommand(listCommand(), reproduceCommand(), trainCommand(), diffCommand(), localizeCommand(), extractCommand(), treeCommand(), revealCommand(), fixturesCommand(), verifyCommand(),
		checkpointCommand(), versionCommand())
	root.AddCommand(swarmCommand(), spreadCommand(), routeCommand(), reportCommand(), scoreCommand(), ordersCommand(), taxCommand(), recipeCommand())
	return root
}

// strict has every command refuse what it does not take, cobra's own among them.
func strict(c *cobra.Command) {
	for _, sub := range c.Commands() {
		strict(sub)
	}
	switch {
	case c.HasSubCommands() && c.Args == nil, c.Name() == "completion":
		c.Args, c.RunE = knownCommand, func(c *cobra.Command, _ []string) error { return c.Help() }
	case c.Name() == "help":
		c.Args, c.Run, c.RunE = cobra.ArbitraryArgs, nil, help
	case c.Args == nil, c.Parent().Name() == "completion":
		c.Args = noArgs
	}
}

// knownCommand refuses what is none of a command's own commands.
func knownCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	return fmt.Errorf("unknown command %q: %s", args[0], spell.OneOf(args[0], names))
}

func help(c *cobra.Command, args []string) error {
	asked, rest, err := c.Root().Find(args)
	if err == nil && asked.HasSubCommands() {
		err = asked.ValidateArgs(rest)
	}
	if err != nil {
		return err
	}
	asked.InitDefaultHelpFlag() // so that the help lists it
	return asked.Help()
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
		return notEmpty(args, names...)
	}
}

// notEmpty refuses what a shell makes of a variable that is not set.
func notEmpty(args []string, names ...string) error {
	for i, a := range args {
		if a == "" {
			return fmt.Errorf("argument %d: empty: must be %s", i+1, names[min(i, len(names)-1)])
		}
	}
	return nil
}
