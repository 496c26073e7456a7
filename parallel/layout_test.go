package parallel

import (
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
)

func TestLayout(t *testing.T) {
	for text, want := range map[string]int{"": 1, "dp=1": 1, "dp=8": 8, "dp=2432": 2432, "dp=16384": MaxRanks, "tp=2": 2, "tp=2,dp=3,pp=4,cp=5": 120,
		"ep=8": 8, "tp=4,ep=8": 8, "tp=4,ep=2,etp=2": 4, "tp=2,cp=2,ep=2,dp=1": 4, "pp=2,vpp=3,dp=2": 4} {
		l, err := ParseLayout(text)
		require.NoError(t, err, text)
		require.Equal(t, want, l.World(), text)
		again, err := ParseLayout(l.String())
		require.NoError(t, err)
		require.Equal(t, l, again)
	}
	const axes = "must be AXIS=N with an axis of dp, tp, pp, vpp, cp, ep, etp"
	for text, want := range map[string]string{
		"dp":             `layout "dp": "dp": ` + axes,
		"8":              `layout "8": "8": ` + axes,
		"xp=2":           `layout "xp=2": "xp=2": did you mean dp or tp or pp? ` + axes,
		"dp=2,dp=2":      `layout "dp=2,dp=2": dp: given twice`,
		"dp=2,":          `layout "dp=2,": "": ` + axes,
		"dp=0":           `layout "dp=0": "dp=0": must be from 1 to 16384`,
		"dp=-1":          `layout "dp=-1": "dp=-1": must be from 1 to 16384`,
		"dp=16385":       `layout "dp=16385": "dp=16385": must be from 1 to 16384`,
		"dp=1e2":         `layout "dp=1e2": "dp=1e2": must be from 1 to 16384`,
		"dp=16384,tp=2":  `layout "dp=16384,tp=2": more than 16384 ranks`,
		"tp=2,dp=1,ep=4": `layout "dp=1,tp=2,ep=4": etp·ep = 4 must divide tp·cp·dp = 2; the nearest that fits: "dp=2,tp=2,ep=4"`,
		"vpp=2":          `layout "dp=1,vpp=2": vpp needs pp of at least 2; the nearest that fits: "dp=1"`,
	} {
		_, err := ParseLayout(text)
		require.EqualError(t, err, want, text)
	}
}

// Every axis cuts the ranks into sets of one size that do not overlap, and a rank's coordinate is its index.
func TestAxes(t *testing.T) {
	for _, text := range []string{"tp=2,cp=2,dp=2,pp=2", "tp=2,dp=4,ep=4,etp=2", "tp=4,cp=2,ep=2,pp=3", "dp=6,ep=3", "tp=2,pp=4"} {
		l, err := ParseLayout(text)
		require.NoError(t, err)
		w := NewWorld(l, 4)
		sizes := map[string]int{tpAxis: l.TP, cpAxis: l.CP, dpAxis: l.DP, ppAxis: l.PP, epAxis: l.EP, etpAxis: l.ETP, edpAxis: l.stage() / l.EP / l.ETP,
			dataAxis: l.CP * l.DP, microAxis: l.TP * l.CP, expertsAxis: l.EP * l.ETP, stageAxis: l.stage(), allAxis: l.World()}
		for r := range l.World() {
			rank := w.Rank(r)
			for axis, size := range sizes {
				m := rank.member(axis)
				require.Equal(t, size, m.Size(), "%s %s", text, axis)
				if m.Group != nil {
					require.Equal(t, r, m.Ranks[m.Index], "%s %s", text, axis)
				}
			}
			at := device.Coord{PP: rank.PP().Index, DP: rank.DP().Index, TP: rank.TP().Index, CP: rank.CP().Index, EP: rank.EP().Index}
			require.Equal(t, l.At(r), at, "%s rank %d", text, r)
			want := 1
			if l.PP > 1 && (at.PP == 0 || at.PP == l.PP-1) {
				want = 2
			}
			require.Equal(t, want, rank.Ends().Size())
		}
	}
}

// Whatever the text, a layout or one line; what is read reads the same again.
func FuzzParseLayout(f *testing.F) {
	for _, s := range []string{"", "dp=8", "dp=2,tp=2,pp=2,vpp=2,cp=2,ep=4,etp=1", "tp=0", "ep=3", "dp=9999999999", "dp=2,dp=2", "vpp=2", "=", "tp=2,", "pp=-1", "cp=0\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		l, err := ParseLayout(s)
		if err != nil {
			require.NotContains(t, err.Error(), "\n")
			return
		}
		again, err := ParseLayout(l.String())
		require.NoError(t, err)
		require.Equal(t, l, again)
		require.LessOrEqual(t, l.World(), MaxRanks)
	})
}
