package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"firstbit/checkpoint"
)

// stateFlags are the flags of train that save a run's state and continue from one.
func (f *trainFlags) stateFlags(c *cobra.Command) {
	fs := c.Flags()
	fs.StringVar(&f.save, "save", "", "write checkpoints into this `FOLDER`: after the last step, and as --save-every says")
	fs.IntVar(&f.saveEvery, "save-every", 0, "save after every so many steps too")
	fs.IntVar(&f.keep, "keep", 0, "remove all but so many of the newest checkpoints; 0: none")
	fs.StringVar(&f.resume, "resume", "", "continue from this checkpoint's `FOLDER`, or from the newest in this folder, with the bits of a run that never stopped; "+
		"all but steps and schedule must be as they were, and under recipe canonical the layout")
	fs.BoolVar(&f.reshard, "reshard", false, "continue on another layout though its bits are others: orders of addition, and a rank's own random streams")
}

// needs checks flags that mean something only beside another, and those that must not be empty.
func (f *trainFlags) needs(changed func(string) bool) error {
	for _, flag := range []string{"save-every", "keep"} {
		if changed(flag) && f.save == "" {
			return fmt.Errorf("--%s: needs --save DIR", flag)
		}
	}
	if f.reshard && f.resume == "" {
		return fmt.Errorf("--reshard: needs --resume DIR")
	}
	for _, d := range []struct{ flag, dir string }{{"save", f.save}, {"resume", f.resume}} {
		if changed(d.flag) && d.dir == "" {
			return fmt.Errorf("--%s: empty: must be a folder", d.flag)
		}
	}
	return nil
}

func checkpointCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:     "checkpoint show DIR",
		Short:   "Verify a checkpoint of train --save, or the newest of a folder, and list what is in it",
		Example: "  firstbit checkpoint show /tmp/run\n  firstbit checkpoint show /tmp/run/step000010 --json",
		Args:    exactArgs("show", "DIR"),
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object: the manifest")
	c.RunE = func(c *cobra.Command, args []string) error {
		if args[0] != "show" {
			return fmt.Errorf("checkpoint %q: must be show", args[0])
		}
		found, err := checkpoint.Open(args[1])
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
	_, err := fmt.Fprintf(out, "%s: after step %d; layout %s, precision %s, recipe %s, library %s; saved under schedule %s by firstbit %s\n",
		c.Dir, c.Step, c.Layout, c.Precision, c.Recipe, c.Library, c.Provenance.Schedule, c.Provenance.Version)
	for _, f := range c.Files {
		fmt.Fprintf(out, "%s  %d bytes  %d tensors\n", f.Name, f.Bytes, len(f.Tensors))
		for _, t := range f.Tensors {
			_, err = fmt.Fprintf(out, "  %-40s %-5s %-16s %s%s\n", t.Name, t.Dtype, fmt.Sprint(t.Shape), t.Digest, t.Place)
		}
	}
	return err
}
