package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"firstbit/checkpoint"
)

func checkpointCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "checkpoint",
		Short:   "Look into checkpoints that train --save wrote",
		Example: "  firstbit checkpoint show /tmp/run",
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return fmt.Errorf("checkpoint: must be followed by show")
			}
			return fmt.Errorf("checkpoint %q: must be show", args[0])
		},
		Args: cobra.ArbitraryArgs,
	}
	c.AddCommand(showCommand())
	return c
}

func showCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:     "show DIR",
		Short:   "Verify a checkpoint, or the newest of a folder, and list what is in it",
		Example: "  firstbit checkpoint show /tmp/run\n  firstbit checkpoint show /tmp/run/step000010 --json",
		Args:    exactArgs("DIR"),
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object: the manifest")
	c.RunE = func(c *cobra.Command, args []string) error {
		found, err := checkpoint.Open(args[0])
		if err != nil {
			return err
		}
		if asJSON {
			return printJSON(c.OutOrStdout(), found.Manifest)
		}
		return printCheckpoint(c.OutOrStdout(), found)
	}
	return c
}

func printCheckpoint(out io.Writer, c *checkpoint.Checkpoint) error {
	_, err := fmt.Fprintf(out, "%s: after step %d; layout %s, precision %s, recipe %s, library %s; saved under schedule %s\n",
		c.Dir, c.Step, c.Layout, c.Precision, c.Recipe, c.Library, c.Provenance.Schedule)
	for _, f := range c.Files {
		fmt.Fprintf(out, "%s  %d bytes  %d tensors\n", f.Name, f.Bytes, len(f.Tensors))
		for _, t := range f.Tensors {
			_, err = fmt.Fprintf(out, "  %-40s %-5s %-16s %s\n", t.Name, t.Dtype, fmt.Sprint(t.Shape), t.Digest)
		}
	}
	return err
}
