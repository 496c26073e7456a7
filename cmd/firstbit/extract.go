package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"firstbit/device"
	"firstbit/run"
	"firstbit/spell"
)

func extractCommand() *cobra.Command {
	var f trainFlags
	var at run.Site
	var rank int
	var to, again string
	c := &cobra.Command{
		Use:   "extract [CALL]",
		Short: "Write one Call of a run as a reproduction that runs by itself, or run one: exit 0 the same bits, 1 different",
		Long: "Write one Call of a run, with its inputs, plan and the bits it wrote, into a file; of a collective or a message those of all ranks that have it.\n" +
			"--rerun runs such a file: the Call alone, on the inputs in it, without the faults of the run that it comes from.",
		Example: "  firstbit extract layers.1.attn.wq --preset tiny --step 3 -o wq.json\n  firstbit extract --rerun wq.json",
		Args:    cobra.MaximumNArgs(1),
	}
	f.add(c)
	fs := c.Flags()
	fs.IntVar(&at.Step, "step", 1, "the `STEP`")
	fs.IntVar(&at.Micro, "micro", 0, "the `MICROBATCH`")
	fs.StringVar(&at.Phase, "phase", "fwd", "the `PHASE`: fwd, rec, bwd, opt")
	fs.IntVar(&rank, "rank", 0, "the `RANK` of a Call that ranks do not make together")
	fs.StringVarP(&to, "output", "o", "", "the `FILE` to write")
	fs.StringVar(&again, "rerun", "", "run the Call in this `FILE`")
	c.RunE = func(c *cobra.Command, args []string) error {
		if again != "" {
			if len(args) > 0 || to != "" {
				return errors.New("--rerun: CALL and --output exclude it")
			}
			return rerunCall(c, again, f.json)
		}
		if len(args) == 0 || to == "" {
			return errors.New("extract: CALL and --output FILE must be given, or --rerun FILE")
		}
		for _, name := range ownOutputs {
			if fs.Changed(name) && name != "json" {
				return fmt.Errorf("--%s: extract writes the Call alone", name)
			}
		}
		s, err := f.spec(fs.Changed)
		if err != nil {
			return err
		}
		if _, ok := device.ParsePhase(at.Phase); !ok {
			return fmt.Errorf("--phase %q: %s", at.Phase, spell.OneOf(at.Phase, device.PhaseNames()))
		}
		at.Path = args[0]
		x, err := run.Extract(s, at, rank)
		if err != nil {
			return err
		}
		if err := x.Write(to); err != nil {
			return err
		}
		if f.json {
			return printJSON(c.OutOrStdout(), map[string]any{"file": to, "site": x.Site, "kernel": x.Kernel, "plan": x.Ranks[0].Plan, "ranks": len(x.Ranks)})
		}
		fmt.Fprintf(c.OutOrStdout(), "%s: %s %s of step %d, kernel %s, %d ranks, plan %q\n", to, at.Phase, at.Path, at.Step, x.Kernel, len(x.Ranks), x.Ranks[0].Plan)
		return nil
	}
	return c
}

func rerunCall(c *cobra.Command, path string, asJSON bool) error {
	x, err := run.ReadExtracted(path)
	if err != nil {
		return err
	}
	differences, err := x.Rerun()
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	out := c.OutOrStdout()
	if asJSON {
		err = printJSON(out, map[string]any{"identical": len(differences) == 0, "site": x.Site, "kernel": x.Kernel, "differences": differences})
	} else if len(differences) == 0 {
		fmt.Fprintf(out, "identical    %s %s of step %d, kernel %s\n", x.Site.Phase, x.Site.Path, x.Site.Step, x.Kernel)
	}
	for _, d := range differences {
		if !asJSON {
			fmt.Fprintf(out, "different    rank %d %s[%d]: kept %s, now %s; %d of %d elements differ\n", d.Rank, d.Output, d.Element, d.Want, d.Got, d.Count, d.Of)
		}
	}
	if err != nil || len(differences) == 0 {
		return err
	}
	return outcome(exitDifferent)
}
