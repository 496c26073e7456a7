package play

import (
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/report"
)

func TestRun(t *testing.T) {
	var kinds []string
	var done *report.Page
	err := Run([]byte(`{"preset":"pico","precision":"bf16","steps":2,"runs":[{"schedule":1},{"schedule":2,"plans":["logits.dw k:arrival"]}]}`), t.TempDir(), func(kind string, v any) {
		if kind == "step" || kind == "stage" {
			return
		}
		kinds = append(kinds, kind)
		done, _ = v.(*report.Page)
	})
	require.NoError(t, err)
	require.Equal(t, []string{"page", "done"}, kinds)
	require.Equal(t, "logits.dw", done.Diff.First.Path())
	require.Equal(t, [2]string{"--preset pico --precision bf16 --steps 2 --schedule 1", "--preset pico --precision bf16 --steps 2 --schedule 2 --plan 'logits.dw k:arrival'"}, done.Runs)
	require.Equal(t, `firstbit report --a '--preset pico --precision bf16 --steps 2 --schedule 1' --b '--preset pico --precision bf16 --steps 2 --schedule 2 --plan '\''logits.dw k:arrival'\''' -o report.html`, done.Command)
}

func TestCause(t *testing.T) {
	p, err := (&Setting{Cause: "dprob-atomics", Steps: 3}).Pair(t.TempDir())
	require.NoError(t, err)
	require.Equal(t, 3, p.Specs[0].Until)
	require.Equal(t, "firstbit report --cause dprob-atomics --steps 3 -o report.html", p.Command)
}

func TestRunRefuses(t *testing.T) {
	for request, want := range map[string]string{
		`{`:                                   "the setting: ",
		`{"steps":"2"}`:                       "the setting: ",
		`{"step":2}`:                          "the setting: ",
		`{"steps":101}`:                       "run A: steps 101: must be at most 100 here",
		`{"steps":-1}`:                        "run A: steps: -1: must be from 1",
		`{"layout":"dp=32"}`:                  "run A: layout dp=32: 32 ranks: must be at most 16 here",
		`{"set":["data=/etc"]}`:               "run A: set data=/etc: a browser has no files",
		`{"preset":"large"}`:                  `run A: preset "large"`,
		`{"runs":[{},{"plans":["x"]}]}`:       "run B: ",
		`{"cause":"no-such"}`:                 `cause "no-such"`,
		`{"cause":"bit-flip","steps":100000}`: "steps 100000: must be from 1 to ",
	} {
		err := Run([]byte(request), t.TempDir(), func(string, any) {})
		require.ErrorContains(t, err, want, request)
	}
}
