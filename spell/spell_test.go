package spell

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		pattern, s string
		want       int
	}{
		{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"kitten", "sitting", 3}, {"widht", "width", 1}, {"fdw", "fwd", 1}, {"ca", "abc", 3}, {"*.dpbro", "x.dprob", 2}, {"Tiny", "tiny", 0},
		{"*", "anything", 0}, {"*", "", 0}, {"?", "", 1}, {"a?c", "abc", 0},
		{"layers.9.moe.*", "layers.2.moe.router.logits", 1}, {"*.wqq", "layers.1.attn.wq", 1}, {"a*b*c", "a--b++d", 1},
	} {
		require.Equal(t, c.want, Distance(c.pattern, c.s), "%s %s", c.pattern, c.s)
	}
}

func TestNearest(t *testing.T) {
	calls := []string{"embed.y", "layers.1.attn.wk", "layers.1.attn.wq", "layers.2.moe.combine", "layers.2.moe.router.logits", "loss"}
	require.Equal(t, []string{"layers.2.moe.combine", "layers.2.moe.router.logits"}, Nearest("layers.9.moe.*", calls, 2))
	require.Equal(t, []string{"layers.1.attn.wq"}, Nearest("wq", calls, 1))
	require.Equal(t, []string{"layers.1.attn.wk", "layers.1.attn.wq"}, Nearest("layers.1.attn", calls, 2))
	require.Empty(t, Nearest("x", nil, 3))
	require.Empty(t, Nearest(strings.Repeat("x", 1<<16), calls, 3), "no name is so long, and the work bounded")
}

func TestMeant(t *testing.T) {
	names := []string{"tiny", "small", "gpt", "pico"}
	require.Equal(t, "did you mean tiny? must be one of tiny, small, gpt, pico", OneOf("tny", names))
	require.Equal(t, "must be one of tiny, small, gpt, pico", OneOf("huge", names))
	require.Equal(t, "did you mean small? ", Meant("sm", names), "a beginning")
	require.Equal(t, "did you mean dp or tp? ", Meant("xp", []string{"dp", "tp", "etp", "vpp"}))
	require.Equal(t, "must be rank", OneOf("step", []string{"rank"}))
	require.Equal(t, "did you mean width? ", Meant("widht", []string{"heads", "width"}))
	require.Empty(t, Meant("", names))
	require.Empty(t, Meant("gpt", names), "the name is right")
	require.Empty(t, Meant(strings.Repeat("tiny", 1<<16), names))
	require.Empty(t, Meant("a", names))
}
