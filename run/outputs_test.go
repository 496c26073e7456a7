package run

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/checkpoint"
	"firstbit/parallel"
	"firstbit/trace"
	"firstbit/train"
)

// small is a run of pico.
func small(steps int) Spec {
	c := train.Pico()
	c.Steps = steps
	return Spec{Config: c}
}

// tree lists what lies in a folder, a level deep.
func tree(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func write(t *testing.T, path string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte("mine"), 0o600))
}

// A run that fails keeps the steps that are whole, and what others have put beside them.
func TestAFailingRunKeepsWhatIsWhole(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "R")
	s := small(9)
	s.Layout = parallel.Layout{DP: 2}
	s.Trace = trace.Options{Dir: dir, Level: trace.Op}
	s.Save = Save{Dir: filepath.Join(dir, "ck"), Every: 1, Keep: 3}
	s.Faults = []string{"flip@*.wk elem=99999 step=9"}
	s.Each = func(r train.Result) error {
		if r.Step == 1 {
			write(t, filepath.Join(dir, "notes"))
		}
		return nil
	}
	_, err := Run(s)
	require.ErrorContains(t, err, "elem=99999: the output has ")
	require.FileExists(t, filepath.Join(dir, "notes"))
	require.Equal(t, []string{"step000006", "step000007", "step000008"}, tree(t, s.Save.Dir))
	_, err = checkpoint.Open(s.Save.Dir)
	require.NoError(t, err)
	tr, err := trace.Open(dir)
	require.NoError(t, err)
	require.True(t, tr.Truncated)
	require.Equal(t, 8, tr.Whole)
}

// One that has no whole step leaves nothing, but for what was there before or is not its own.
func TestARunWithoutAWholeStepLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	there := filepath.Join(dir, "there")
	require.NoError(t, os.Mkdir(there, 0o700))
	spec := func(fault, to string) Spec {
		s := small(3)
		s.Trace = trace.Options{Dir: filepath.Join(to, "t", "t"), Level: trace.Op, Dump: "*.w?"}
		s.Save, s.Export = Save{Dir: filepath.Join(to, "t", "t", "ck"), Every: 1}, filepath.Join(to, "hf", "hf")
		s.Faults = []string{fault}
		return s
	}
	for _, fault := range []string{"flip@*.wk elem=99999 step=1", "order@*.logits tiles=arrival"} {
		_, err := Run(spec(fault, filepath.Join(dir, "new")))
		require.Error(t, err)
		_, err = Run(spec(fault, there))
		require.Error(t, err)
		require.Equal(t, []string{"there"}, tree(t, dir))
		require.Empty(t, tree(t, there))
	}
	s := spec("flip@*.wk elem=99999 step=1", there)
	s.Begin = func() {
		write(t, filepath.Join(s.Trace.Dir, "notes"))
		write(t, filepath.Join(s.Save.Dir, "notes"))
	}
	_, err := Run(s)
	require.Error(t, err)
	require.Equal(t, []string{"t"}, tree(t, there))
	require.Equal(t, []string{"ck", "notes"}, tree(t, s.Trace.Dir))
	require.Equal(t, []string{"notes"}, tree(t, s.Save.Dir))
}

// Whatever cannot be written is known before the first step, and then the others have left nothing.
func TestOutputsAreProbed(t *testing.T) {
	root := t.TempDir()
	file, full := filepath.Join(root, "file"), filepath.Join(root, "full")
	write(t, file)
	require.NoError(t, os.Mkdir(full, 0o700))
	write(t, filepath.Join(full, "x"))
	for _, c := range []struct {
		set  func(s *Spec)
		want string
	}{
		{func(s *Spec) { s.Save.Dir = filepath.Join(file, "x") }, "save " + file + "/x: not a directory"},
		{func(s *Spec) { s.Save.Dir = file }, "save " + file + ": " + file + " is a file: must be a folder"},
		{func(s *Spec) { s.Save.Dir = s.Trace.Dir }, "save " + root + "/new/t: a run writes there already: name another folder"},
		{func(s *Spec) { s.Export = filepath.Join(file, "x") }, "export " + file + "/x: not a directory"},
		{func(s *Spec) { s.Export = full }, "export " + full + ": is not empty: name a new folder"},
		{func(s *Spec) { s.Export = s.Save.Dir }, "export " + root + "/new/ck: a run writes there already: name another folder"},
		{func(s *Spec) { s.Export = filepath.Dir(s.Save.Dir) }, "export " + root + "/new: is not empty: name a new folder"},
		{func(s *Spec) { s.Trace.Dir = filepath.Join(file, "x") }, "trace " + file + "/x: not a directory"},
		{func(s *Spec) { s.Trace.Dir = full }, "trace " + full + ": is not empty: name a new folder"},
		{func(s *Spec) { s.Resume = full }, "checkpoint " + full + ": holds none: must have a folder such as step000001"},
	} {
		s := small(1)
		s.Trace = trace.Options{Dir: filepath.Join(root, "new", "t"), Level: trace.Metrics}
		s.Save.Dir, s.Export = filepath.Join(root, "new", "ck"), filepath.Join(root, "new", "hf")
		s.Begin = func() { t.Errorf("%s: the run has begun", c.want) }
		c.set(&s)
		_, err := Run(s)
		require.EqualError(t, err, c.want)
		require.Equal(t, []string{"file", "full"}, tree(t, root), c.want)
		require.Equal(t, []string{"x"}, tree(t, full), c.want)
	}
}

// Weights that cannot be put in their place are not lost, and neither is what is in it.
func TestAnExportThatIsInTheWayStays(t *testing.T) {
	root := t.TempDir()
	s := small(2)
	s.Export = filepath.Join(root, "hf")
	s.Each = func(r train.Result) error {
		if r.Step == 2 {
			write(t, filepath.Join(s.Export, "config.json"))
		}
		return nil
	}
	o, err := Run(s)
	require.Len(t, o.Steps, 2, "what the run printed is not lost either")
	names := tree(t, root)
	require.Len(t, names, 2)
	stage := filepath.Join(root, names[0])
	require.EqualError(t, err, "export "+s.Export+": directory not empty: what was written stays in "+stage)
	require.Equal(t, []string{"config.json", "model.safetensors"}, tree(t, stage))
	require.Equal(t, []string{"config.json"}, tree(t, s.Export))
	b, err := os.ReadFile(filepath.Join(s.Export, "config.json"))
	require.NoError(t, err)
	require.Equal(t, "mine", string(b))
}

// Of two runs that write into one folder the second is refused, whatever either writes there.
func TestOneRunToAFolder(t *testing.T) {
	root := t.TempDir()
	at := func(name string) string { return filepath.Join(root, name) }
	first := small(4)
	first.Trace = trace.Options{Dir: at("t"), Level: trace.Metrics}
	first.Save, first.Export = Save{Dir: at("ck"), Every: 1, Keep: 1}, at("hf")
	tried := 0
	first.Each = func(r train.Result) error {
		if r.Step != 3 {
			return nil
		}
		for _, dir := range []string{"t", "ck", "hf"} {
			for _, kind := range []string{"trace", "save", "export"} {
				second := small(9)
				switch kind {
				case "trace":
					second.Trace = trace.Options{Dir: at(dir), Level: trace.Metrics}
				case "save":
					second.Save = Save{Dir: at(dir)}
				case "export":
					second.Export = at(dir)
				}
				if dir == "ck" {
					second.Resume = at(dir) // a reader is not in the way
				}
				_, err := Run(second)
				require.EqualError(t, err, kind+" "+at(dir)+": a run writes there already: name another folder")
				tried++
			}
		}
		return nil
	}
	_, err := Run(first)
	require.NoError(t, err)
	require.Equal(t, 9, tried)
	require.Equal(t, []string{"step000004"}, tree(t, at("ck")))
	require.Equal(t, []string{"config.json", "model.safetensors"}, tree(t, at("hf")))
	tr, err := trace.Open(at("t"))
	require.NoError(t, err)
	require.Equal(t, 4, *tr.Run.Last)
	require.Equal(t, []string{"ck", "hf", "t"}, tree(t, root))

	second := small(6)
	second.Resume, second.Save = at("ck"), Save{Dir: at("ck"), Keep: 1}
	_, err = Run(second)
	require.NoError(t, err, "once the first has ended")
	require.Equal(t, []string{"step000006"}, tree(t, at("ck")))
}

// A disk that is full ends the run at the step that finds it so.
func TestAFullDiskEndsTheRunAtItsStep(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("no /dev/full here")
	}
	for _, c := range []struct {
		name   string
		layout parallel.Layout
		level  trace.Level
		file   string
	}{
		{"records", parallel.Layout{DP: 2}, trace.Op, trace.FileName(1, 3)},
		{"few records", parallel.Layout{DP: 1}, trace.Metrics, trace.FileName(0, 3)},
		{"initialisation", parallel.Layout{DP: 2}, trace.Op, trace.FileName(1, 0)},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := small(60)
			s.Layout, s.Trace = c.layout, trace.Options{Dir: filepath.Join(t.TempDir(), "t"), Level: c.level}
			s.Save = Save{Dir: filepath.Join(s.Trace.Dir, "ck"), Every: 1}
			last := 0
			s.Begin = func() { require.NoError(t, os.Symlink("/dev/full", filepath.Join(s.Trace.Dir, c.file))) }
			s.Each = func(r train.Result) error {
				last = r.Step
				return nil
			}
			_, err := Run(s)
			require.EqualError(t, err, "trace "+s.Trace.Dir+": no space left on device")
			if c.name == "initialisation" {
				require.Zero(t, last)
				require.NoDirExists(t, s.Trace.Dir)
				return
			}
			require.LessOrEqual(t, last, 3)
			ck, err := checkpoint.Open(s.Save.Dir)
			require.NoError(t, err)
			require.Equal(t, 2, ck.Step)
			require.Len(t, tree(t, s.Save.Dir), 2, "nothing temporary")
			require.NoError(t, os.Remove(filepath.Join(s.Trace.Dir, c.file))) // no reader opens a device
			tr, err := trace.Open(s.Trace.Dir)
			require.NoError(t, err)
			require.Equal(t, 2, tr.Whole)
		})
	}
}

// As does an error of whoever watches.
func TestWhoWatchesEndsTheRunAtItsStep(t *testing.T) {
	s := small(60)
	s.Layout = parallel.Layout{DP: 2}
	steps, full := 0, errors.New("full")
	s.Each = func(r train.Result) error {
		if steps++; r.Step == 3 {
			return full
		}
		return nil
	}
	_, err := Run(s)
	require.ErrorIs(t, err, full)
	require.Equal(t, 3, steps)
}
