package verify

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/parallel"
	"firstbit/run"
	"firstbit/train"
)

// A fault that lays tensors in one memory acts, from its first step on, as in a run that begins there: nothing reads where they lay before.
func TestAliasFromALaterStep(t *testing.T) {
	for _, c := range []struct{ layout, fault string }{
		{"dp=2", "alias@grads.bucket.0 with=grads.bucket.1 step=2-"},
		{"tp=2,dp=2", "alias@grads.bucket.0.sequence with=grads.bucket.7.sequence step=2-"},
		{"dp=2", "alias@*.w1.grad with=*.w2.grad step=2-"},
	} {
		layout, err := parallel.ParseLayout(c.layout)
		require.NoError(t, err)
		s := run.Spec{Config: train.Tiny(), Layout: layout, Kept: run.Kept{Digest: true}, Save: run.Save{Dir: t.TempDir(), Every: 1}}
		s.Config.Steps = 3
		healthy, err := InProcess(s, 2)
		require.NoError(t, err)
		from := filepath.Join(s.Save.Dir, "step000001")
		s.Save, s.Faults = run.Save{}, []string{c.fault}
		whole, err := InProcess(s, 2)
		require.NoError(t, err)
		s.Resume = from
		later, err := InProcess(s, 2)
		require.NoError(t, err)
		require.Equal(t, later, whole[1:], c.fault)
		require.NotEqual(t, healthy[1:], later, "%s changed nothing", c.fault)
	}
}

// It ends with its last step: what follows is what a run without it makes of the state by then.
func TestAliasUntilAnEarlierStep(t *testing.T) {
	for _, c := range []struct{ layout, fault string }{
		{"dp=1", "alias@layers.1.attn.wq.grad with=layers.1.attn.wk.grad step=2"},
		{"dp=2,ep=2", "alias@*.moe.dispatch.a2a with=*.moe.combine.a2a.dx step=2"},
		{"dp=2", "alias@grads.bucket.0 with=grads.bucket.1 step=2"},
		{"dp=2", "alias@optim.layers.1.attn.wq with=optim.layers.1.attn.wk step=2"},
	} {
		layout, err := parallel.ParseLayout(c.layout)
		require.NoError(t, err)
		s := run.Spec{Config: train.Tiny(), Layout: layout, Kept: run.Kept{Digest: true}, Faults: []string{c.fault}, Save: run.Save{Dir: t.TempDir(), Every: 1}}
		s.Config.Steps = 4
		whole, err := InProcess(s, 2)
		require.NoError(t, err)
		s.Resume = filepath.Join(s.Save.Dir, "step000002")
		s.Save, s.Faults = run.Save{}, nil
		later, err := InProcess(s, 2)
		require.NoError(t, err)
		require.Equal(t, later, whole[2:], c.fault)
	}
}
