package main

import (
	"os"
	"strings"
	"testing"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

// refused runs the program on what must be refused before anything runs: one line, in words of our own, and nothing a terminal would obey.
func refused(t *testing.T, args ...string) (stderr string) {
	t.Helper()
	code, stdout, stderr := firstbit(t, args...)
	require.Equal(t, exitBad, code, "%q: %s", args, stderr)
	require.Empty(t, stdout, "%q", args)
	require.True(t, strings.HasPrefix(stderr, "firstbit: "), "%q: %s", args, stderr)
	line := strings.TrimSuffix(stderr, "\n")
	require.Equal(t, -1, strings.IndexFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }), "%q: %q", args, stderr)
	for _, word := range []string{"strconv", "pflag", "invalid argument", "%!"} {
		require.NotContains(t, stderr, word, args)
	}
	return line
}

// Every flag of every command, with every sort of value it cannot have.
func TestEveryFlagRefusesWhatItCannotTake(t *testing.T) {
	t.Chdir(t.TempDir())
	const escape = "\x1b]0;x\a\u202e"
	number := []string{"", "abc", "-1", "3.5", "1e3", "NaN", "99999999999999999999", "１", escape}
	bad := map[string][]string{"bool": {"maybe", escape}, "int": number, "uint64": number, "float64": {"", "abc", "-1", "NaN", "Inf", "1e999", escape}, "string": {"", "NaN", "-1", "💥", "\xff", escape}, "stringArray": {"", "NaN", "-1", "💥", "\xff", escape}}
	folders := []string{"trace", "save", "export"} // which may have any name
	arguments := map[string][]string{"tree": {"seq"}, "orders": {"x"}, "reveal": {"matmul"}, "reproduce": {"clip-norm"}, "diff": {"a", "b"}, "fixtures": {"packs"}, "checkpoint": {"show", "x"}}
	seen := 0
	var try func(c *cobra.Command)
	try = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			try(sub)
		}
		if !c.HasParent() || c.HasSubCommands() {
			return
		}
		command := append(strings.Fields(c.CommandPath())[1:], arguments[c.Name()]...)
		c.InitDefaultHelpFlag()
		c.Flags().VisitAll(func(f *pflag.Flag) {
			require.NotEmpty(t, bad[f.Value.Type()], f.Name)
			for _, value := range bad[f.Value.Type()] {
				if value != "" && strings.Contains(strings.Join(folders, " "), f.Name) {
					continue
				}
				refused(t, append(command, "--"+f.Name+"="+value)...)
				seen++
			}
		})
		refused(t, append(command, "--no-such-flag")...)
	}
	try(command())
	require.Greater(t, seen, 100)
}

// What is misspelt is answered with what was meant.
func TestMisspelt(t *testing.T) {
	t.Chdir(t.TempDir())
	for command, want := range map[string]string{
		"trian --preset tiny":               `unknown command "trian": did you mean train? must be one of `,
		"help trian":                        `unknown command "trian": did you mean train? must be one of `,
		"completion bsh":                    `unknown command "bsh": did you mean zsh or bash? must be one of `,
		"verify repeet --layout dp=2":       `verify "repeet": did you mean repeat? must be one of `,
		"help verify repeet":                `verify "repeet": did you mean repeat? must be one of `,
		"train --stpes 3":                   "unknown flag: --stpes: did you mean --steps? see firstbit train --help",
		"train -steps 3":                    "unknown flag: -steps: did you mean --steps? see firstbit train --help",
		"train --steps abc":                 `--steps "abc": must be a whole number`,
		"train --steps":                     "--steps: needs a value: must be a whole number",
		"tree seq -n x":                     `-n "x": must be a whole number`,
		"train --preset tny":                `preset "tny": did you mean tiny? must be one of `,
		"train --set modle.width=3":         `--set "modle.width": no field "modle": did you mean model? must be one of `,
		"train --precision mfxp8":           `precision: "mfxp8": did you mean mxfp8`,
		"train --recipe canonicl":           `recipe "canonicl": did you mean canonical? must be one of `,
		"train --profile cpus":              `--profile "cpus": did you mean cpu? must be one of `,
		"train --layout tpp=2":              `did you mean tp or pp or vpp? must be AXIS=N`,
		"train --trace x --level modul":     `--level "modul": did you mean module? must be one of `,
		"train --inject flpi@x":             `unknown kind "flpi": did you mean flip? must be one of `,
		"train --inject flip@x;elme=2":      `unknown key "elme": did you mean elem? must be one of `,
		"train --inject flip@x;phase=fdw":   `phase: "fdw": did you mean fwd? must be one of `,
		"train --plan *;k:revrese":          `order "revrese": unknown: did you mean reverse? allowed are `,
		"reproduce dprob":                   `cause "dprob": did you mean dprob-atomics? must be one of `,
		"reproduce clip-norm --layout eahc": `--layout "eahc": did you mean each? must be a layout, each or turn=N`,
		"fixtures x --cause bitflip":        `cause "bitflip": did you mean bit-flip? must be one of `,
		"reveal matmull":                    `no Call of that name: nearest batch, norm, embed; of kernels by themselves: did you mean matmul? must be one of `,
		"reveal matmul --plan kk:seq":       `plan has no reduction "kk": did you mean k? `,
		"tree parwise":                      `order "parwise": unknown: did you mean pairwise? allowed are `,
	} {
		args := strings.Fields(command)
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], ";", " ")
		}
		require.Contains(t, refused(t, args...), want, command)
	}
}

// Flags that exclude each other say so, whichever comes first.
func TestFlagsThatExcludeEachOther(t *testing.T) {
	for command, want := range map[string]string{
		"tree seq --json --svg":                       "--json and --svg exclude each other: name one",
		"tree seq --svg --json":                       "--json and --svg exclude each other: name one",
		"tree seq --svg --dot":                        "--dot and --svg exclude each other: name one",
		"train --steps 2 --set steps=3":               "--steps and --set steps=3 exclude each other: name one",
		"train --set precision=bf16 --precision fp32": "--precision and --set precision=bf16 exclude each other: name one",
		"verify repeat --seed 2 --set seed=3":         "--seed and --set seed=3 exclude each other: name one",
		"reproduce --all clip-norm":                   `reproduce: --all and "clip-norm" exclude each other: name causes, or --all`,
		"reproduce clip-norm clip-norm":               `cause "clip-norm": named twice`,
		"diff --layouts x":                            "--layouts: one trace: must be two",
		"train --reshard":                             "--reshard: needs --resume DIR",
		"train --dump x":                              "--dump: needs --trace DIR",
		"train --inject flip@x;elem=2;elem=3":         "elem: given twice",
	} {
		args := strings.Fields(command)
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], ";", " ")
		}
		require.Contains(t, refused(t, args...), want, command)
	}
	code, _, stderr := firstbit(t, "tree", "seq", "--svg")
	require.Zero(t, code, stderr)
}

// A profile that cannot be written is known before the run.
func TestProfileThatCannotBeWritten(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.Mkdir("cpu.pprof", 0o700))
	require.Equal(t, "firstbit: --profile cpu: cpu.pprof cannot be written into the current directory: is a directory", refused(t, "train", "--preset", "pico", "--profile", "cpu"))
}

func TestVersion(t *testing.T) {
	code, text, _ := firstbit(t, "version")
	require.Zero(t, code)
	require.Regexp(t, `^firstbit \S+, commit \S+, go1\.\d+\S*, \w+/\w+, (no )?AVX2\n$`, text)
	_, flag, _ := firstbit(t, "--version")
	require.Equal(t, text, flag)
	_, object, _ := firstbit(t, "version", "--json")
	v := jsonOf(t, object)
	for _, field := range []string{"version", "commit", "go", "os", "arch", "avx2"} {
		require.Contains(t, v, field)
	}
	require.Contains(t, text, v["os"].(string)+"/"+v["arch"].(string))
}

// The shell completes commands, flags, and words that flags and arguments may be; a flag that another excludes it no longer offers.
func TestCompletion(t *testing.T) {
	for begun, want := range map[string]string{"tr": "train", "train --ste": "--steps", "train --preset ": "pico", "verify repeat --recipe ": "canonical",
		"reproduce ": "dprob-atomics", "fixtures x --cause ": "bit-flip", "reveal ": "matmul", "tree seq --s": "--svg", "checkpoint ": "show", "verify ": "repeat"} {
		code, stdout, stderr := firstbit(t, append([]string{"__complete"}, strings.Split(begun, " ")...)...)
		require.Zero(t, code, stderr)
		require.Regexp(t, "(?m)^"+want+"(\t|$)", stdout, begun)
	}
	_, stdout, _ := firstbit(t, "__complete", "tree", "seq", "--json", "--s")
	require.NotContains(t, stdout, "--svg")
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		code, stdout, stderr := firstbit(t, "completion", shell)
		require.Zero(t, code, stderr)
		require.Contains(t, stdout, "firstbit")
	}
}
