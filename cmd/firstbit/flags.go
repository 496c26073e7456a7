package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"firstbit/spell"
)

// badFlag says what is wrong with a flag in words of our own, for pflag's name Go's functions.
func badFlag(c *cobra.Command, err error) error {
	if c.HasSubCommands() { // a flag of a command that is misspelt is not what is wrong
		if err := c.ValidateArgs(c.Flags().Args()); err != nil {
			return err
		}
	}
	var none *pflag.NotExistError
	var missing *pflag.ValueRequiredError
	var invalid *pflag.InvalidValueError
	var syntax *pflag.InvalidSyntaxError
	switch {
	case errors.As(err, &none):
		return unknownFlag(c, none)
	case errors.As(err, &missing):
		return fmt.Errorf("%s: needs a value: must be %s", named(missing.GetFlag()), takes(missing.GetFlag()))
	case errors.As(err, &invalid):
		large := ""
		if errors.Is(invalid, strconv.ErrRange) {
			large = "too large: "
		}
		return fmt.Errorf("%s %q: %smust be %s", named(invalid.GetFlag()), invalid.GetValue(), large, takes(invalid.GetFlag()))
	case errors.As(err, &syntax):
		return fmt.Errorf("%q: is no flag: see %s --help", syntax.GetSpecifiedFlag(), c.CommandPath())
	}
	return err
}

func unknownFlag(c *cobra.Command, none *pflag.NotExistError) error {
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, named(f)) })
	given, word := "--"+none.GetSpecifiedName(), none.GetSpecifiedName()
	if short := none.GetSpecifiedShortnames(); short != "" {
		given, word = "-"+short, short
	}
	meant := spell.Meant("--"+word, names)
	if c.Flags().Lookup(word) != nil {
		meant = "did you mean --" + word + "? "
	}
	return fmt.Errorf("unknown flag: %s: %ssee %s --help", given, meant, c.CommandPath())
}

// named is a flag as it is written.
func named(f *pflag.Flag) string {
	if f.Shorthand == f.Name {
		return "-" + f.Name
	}
	return "--" + f.Name
}

// takes says what a flag's value must be. The name of text stands in backquotes in the flag's usage.
func takes(f *pflag.Flag) string {
	switch f.Value.Type() {
	case "bool":
		return "true or false"
	case "int":
		return "a whole number"
	case "float64":
		return "a number"
	case "uint64":
		return "a whole number from 0 to 18446744073709551615"
	}
	name, _ := pflag.UnquoteUsage(f)
	return name
}

// checkFlags refuses an empty value, which is what a shell makes of a variable that is not set, and flags that exclude each other.
func checkFlags(c *cobra.Command) (err error) {
	c.Flags().Visit(func(f *pflag.Flag) {
		if err != nil {
			return
		}
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		if slices.Contains(values, "") {
			err = fmt.Errorf("%s: empty: must be %s", named(f), takes(f))
			return
		}
		err = excluded(c, f)
	})
	return err
}

// excludes is the annotation of cobra's MarkFlagsMutuallyExclusive, whose own message has three lists in brackets.
const excludes = "cobra_annotation_mutually_exclusive"

func excluded(c *cobra.Command, f *pflag.Flag) error {
	for _, group := range f.Annotations[excludes] {
		for _, other := range strings.Fields(group) {
			if other != f.Name && c.Flags().Changed(other) {
				return fmt.Errorf("--%s and --%s exclude each other: name one", f.Name, other)
			}
		}
	}
	return nil
}
