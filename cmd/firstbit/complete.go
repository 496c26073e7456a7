package main

import (
	"cmp"

	"github.com/spf13/cobra"

	"firstbit/experiments"
	"firstbit/swarm"
	"firstbit/trace"
	"firstbit/train"
	"firstbit/tune"
)

// complete tells the shell the words that flags and arguments may be. Commands and the names of flags it knows; of the others it offers files.
func complete(root *cobra.Command) error {
	var causes []string
	for _, c := range experiments.Causes() {
		causes = append(causes, c.ID)
	}
	err := offer(root, "preset", train.PresetNames())
	err = cmp.Or(err, offer(root, "precision", train.Precisions))
	err = cmp.Or(err, offer(root, "recipe", tune.Recipes))
	err = cmp.Or(err, offer(root, "library", tune.Releases()))
	err = cmp.Or(err, offer(root, "bisect", []string{bisectLibrary}))
	err = cmp.Or(err, offer(root, "level", trace.LevelNames()))
	err = cmp.Or(err, offer(root, "profile", profileKinds()))
	err = cmp.Or(err, offer(root, "cause", causes))
	err = cmp.Or(err, offer(root, "kind", swarm.Kinds()))
	for _, c := range root.Commands() {
		switch c.Name() {
		case "reproduce", "list":
			c.ValidArgsFunction = only(causes)
		case "reveal":
			c.ValidArgsFunction = only(experiments.RevealNames())
		case "checkpoint":
			c.ValidArgsFunction = cobra.FixedCompletions([]string{"show"}, cobra.ShellCompDirectiveDefault)
		}
	}
	return err
}

func only(words []string) cobra.CompletionFunc {
	return cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)
}

// offer completes a flag to words, in every command that has it.
func offer(c *cobra.Command, flag string, words []string) error {
	if c.Flags().Lookup(flag) != nil {
		return c.RegisterFlagCompletionFunc(flag, only(words))
	}
	for _, sub := range c.Commands() {
		if err := offer(sub, flag, words); err != nil {
			return err
		}
	}
	return nil
}
