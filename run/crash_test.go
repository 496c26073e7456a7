package run

import (
	"fmt"
	"math/rand"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/parallel"
	"firstbit/train"
)

// Whatever a fault leads to ends in one line that names it: where memory would be taken for it too, and an endless loop begun.
func TestCrashesOfFaults(t *testing.T) {
	for _, c := range []struct{ layout, fault, want string }{
		{"dp=1", "flip@layers.2.moe.router.topk elem=1 bit=5", "fwd layers.2.moe.permute of step 1: runtime error: index out of range"},
		{"dp=1", "alias@layers.2.moe.router.topk with=layers.2.moe.permute step=1", "fwd layers.2.moe.permute of step 1: runtime error: index out of range"},
		{"dp=1", "flip@grads.accumulate out=order elem=1 bit=24", "train: microbatch 16777217 completes: must be from 0 to 1"},
		{"dp=1", "flip@grads.accumulate out=order elem=0 bit=31", "train: microbatch -2147483648 completes"},
		{"dp=1", "flip@grads.accumulate out=order elem=0 bit=0", "device: the path of this Call was used before"},
		{"ep=2,etp=2", "flip@*.dispatch.split out=parts bit=30", "moe: layers.2.moe.dispatch.split: parts[0] is 107374"},
		{"ep=2,etp=2", "flip@*.dispatch.split out=parts bit=31", "moe: layers.2.moe.dispatch.split: parts[0] is -214748"},
		{"ep=2,etp=2", "flip@layers.2.moe.dispatch.split out=receive elem=1 bit=30", "moe: layers.2.moe.dispatch.split: receive[1] is 107374"},
		{"ep=2", "flip@layers.2.moe.dispatch.split out=send bit=31", "send[0] is -214748"},
		{"ep=2", "flip@layers.2.moe.dispatch.split out=receive bit=0", "parallel: ranks of group dp meet in different calls"},
		{"ep=2", "flip@embed.gather phase=bwd", ""}, // never occurs
		{"ep=2", "early@layers.2.moe.dispatch.sort in=counts step=2 micro=0 phase=fwd rank=0", "fwd layers.2.moe.dispatch.sort of step 2: runtime error: index out of range"},
		{"ep=2", "flip@layers.2.moe.dispatch.split out=parts bit=0", "fwd layers.2.moe.dispatch.sort of step 1: runtime error: index out of range"},
	} {
		l, err := parallel.ParseLayout(c.layout)
		require.NoError(t, err)
		s := Spec{Config: train.Pico(), Layout: l, Faults: []string{c.fault}, Kept: Kept{Load: true}}
		s.Config.Steps, s.Config.Micro = 2, 2
		_, err = Run(s)
		if c.want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, `--inject "`+c.fault+`": the run cannot go on: `)
		require.ErrorContains(t, err, c.want)
		require.NotContains(t, err.Error(), "\n")
	}
}

// A panic is put down to faults that acted, and to no others: then it is a mistake of ours and stays a panic.
func TestOnlyFaultsThatActedExcuseACrash(t *testing.T) {
	run := func(faults ...string) error {
		s := Spec{Config: train.Pico(), Faults: faults}
		s.Config.Steps = 1
		watch := func(int) device.Middleware {
			return func(next device.Runner) device.Runner {
				return func(c *device.Call) {
					if next(c); c.ID.Path == "layers.2.norm" && c.ID.Phase == device.Fwd {
						panic("our mistake")
					}
				}
			}
		}
		s.Watch = watch
		_, err := (&job{Spec: &s}).outcome()
		return err
	}
	require.EqualError(t, run("order@layers.1.attn k=reverse", "flip@layers.1.norm", "flip@layers.2.norm.dx phase=bwd"), `--inject "flip@layers.1.norm": the run cannot go on: our mistake`)
	require.EqualError(t, run("flip@layers.1.norm", "order@layers.0.norm d=reverse"),
		`--inject "flip@layers.1.norm", "order@layers.0.norm d=reverse": the run cannot go on: our mistake`)
	for _, idle := range []string{"flip@layers.3.norm", "alias@layers.0.norm with=nothing", "order@layers.0.norm d=seq", "drop@embed.w"} {
		require.Panics(t, func() { _ = run(idle) }, idle)
	}
}

// site is where a fault may act.
type site struct {
	path  string
	phase device.Phase
	micro int
	outs  []device.Arg
}

// sites lists the Calls of a run that write whole numbers, which are sizes and indices to others.
func sites(t *testing.T, s Spec) (all []site) {
	t.Helper()
	seen := map[string]bool{}
	watch := func(rank int) device.Middleware {
		return func(next device.Runner) device.Runner {
			return func(c *device.Call) {
				at := site{path: c.ID.Path, phase: c.ID.Phase, micro: c.ID.Micro}
				for _, out := range c.Out {
					if out.I32() != nil {
						at.outs = append(at.outs, out)
					}
				}
				if key := fmt.Sprint(at.phase, at.path, at.micro); rank == 0 && len(at.outs) > 0 && !seen[key] {
					seen[key] = true
					all = append(all, at)
				}
				next(c)
			}
		}
	}
	s.Watch = watch
	_, err := (&job{Spec: &s}).outcome()
	require.NoError(t, err)
	return all
}

// Bits of whole numbers flipped anywhere, and their memory shared: a run goes on or ends in one line.
func TestFaultsInWholeNumbers(t *testing.T) {
	ended := 0
	for _, layout := range []string{"dp=1", "ep=2,etp=2", "pp=2,vpp=2,ep=2"} {
		l, err := parallel.ParseLayout(layout)
		require.NoError(t, err)
		s := Spec{Config: train.Pico(), Layout: l, Kept: Kept{Load: true}}
		s.Config.Steps, s.Config.Micro, s.Config.Cluster.Overlap = 1, 2, l.World() > 1
		all, r := sites(t, s), rand.New(rand.NewSource(1))
		for range 20 {
			a, b := all[r.Intn(len(all))], all[r.Intn(len(all))]
			out := a.outs[r.Intn(len(a.outs))]
			fault := fmt.Sprintf("flip@%s phase=%s micro=%d out=%s elem=%d bit=%d", a.path, a.phase, a.micro, out.Name, r.Intn(out.Len()), 31-r.Intn(32))
			if r.Intn(4) == 0 {
				fault = fmt.Sprintf("alias@%s with=%s", a.path, b.path)
			}
			s.Faults = []string{fault}
			if _, err := Run(s); err != nil {
				ended++
				require.NotContains(t, err.Error(), "\n", fault)
				require.Contains(t, err.Error(), fmt.Sprintf("--inject %q: ", fault))
			}
		}
	}
	require.Greater(t, ended, 15, "of 60: else the faults were harmless")
}
