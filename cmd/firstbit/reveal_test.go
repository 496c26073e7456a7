package main

import (
	"bufio"
	"fmt"
	"math/rand"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/reduce"
)

// TestProgramThatAdds is no test but the program that TestRevealPrograms asks: what it does is in the environment.
func TestProgramThatAdds(*testing.T) {
	how := os.Getenv("FIRSTBIT_TEST_SUM")
	if how == "" {
		return
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for asked := 1; lines.Scan(); asked++ {
		var x []float32
		for _, f := range strings.Fields(lines.Text()) {
			v, err := strconv.ParseFloat(f, 32)
			if err != nil {
				panic(err)
			}
			x = append(x, float32(v))
		}
		switch {
		case how == "dies" && asked == 5:
			fmt.Fprintln(os.Stderr, "out of luck")
			os.Exit(3)
		case how == "hangs" && asked == 5:
			select {}
		case how == "rubbish" && asked == 5:
			fmt.Println("foo")
			continue
		case how == "twice":
			fmt.Println(0)
		case how == "varies":
			rand.Shuffle(len(x), func(i, j int) { x[i], x[j] = x[j], x[i] })
		}
		order := reduce.Seq
		if o, err := reduce.ParseOrder(how); err == nil {
			order = o
		}
		fmt.Println(decimal(float64(order.Tree(len(x)).Sum(x, 0))))
	}
	if how == "after" {
		fmt.Println(0)
	}
	os.Exit(0)
}

func TestRevealPrograms(t *testing.T) {
	command := "'" + os.Args[0] + "' -test.run=^TestProgramThatAdds$"
	reveal := func(how string, flags ...string) (code int, stdout, stderr string) {
		t.Setenv("FIRSTBIT_TEST_SUM", how)
		return firstbit(t, append([]string{"reveal", "-n", "12", "--exec", command}, flags...)...)
	}
	for _, how := range []string{"seq", "lanes(4)", "exact", "neumaier", "varies"} {
		code, stdout, stderr := reveal(how, "--json")
		require.Zero(t, code, stderr)
		v := jsonOf(t, stdout)
		require.Equal(t, how, v["class"], stdout)
		require.Equal(t, how != "varies", v["verified"])
		require.Equal(t, how == "varies", v["counter_example"] != nil)
	}
	for how, why := range map[string]string{"dies": "question 5: it ended: out of luck", "hangs": "question 5: no answer within 1s", "rubbish": `question 5: it printed "foo": must be one number`, "twice": "it printed", "after": "it printed more lines than it was asked for"} {
		var flags []string
		if how == "hangs" { // a program may take longer than that to begin
			flags = []string{"--timeout", "1"}
		}
		code, stdout, stderr := reveal(how, flags...)
		require.Equal(t, 2, code, how)
		require.Empty(t, stdout)
		require.Contains(t, stderr, why, how)
		require.Equal(t, 1, strings.Count(stderr, "\n"), stderr)
	}
	for flags, why := range map[string]string{"reveal": "KERNEL, CALL or --exec must be given", "reveal --exec /nonexistent": "--exec", "reveal matmul --exec cat": "exclude it", "reveal all_reduce -n 1": "2 ranks or more",
		"reveal all_reduce --element 3": "--element 3 of --elements 1", "reveal --exec ''": "KERNEL, CALL or --exec"} {
		code, _, stderr := firstbit(t, strings.Fields(strings.ReplaceAll(flags, "''", ""))...)
		require.Equal(t, 2, code, flags)
		if flags != "reveal --exec ''" {
			require.Contains(t, stderr, why)
		}
	}
}

// Every element of a collective adds by its own chunk, channel and rank.
func TestRevealCollectives(t *testing.T) {
	classes := map[string]bool{}
	for element := range 12 {
		_, stdout, _ := firstbit(t, "reveal", "all_reduce", "-n", "6", "--plan", "ranks:ring; channels=2", "--elements", "12", "--element", strconv.Itoa(element), "--json")
		v := jsonOf(t, stdout)
		require.Equal(t, true, v["verified"])
		classes[v["class"].(string)] = true
	}
	require.Len(t, classes, 6, "as many as chunks, in each of two channels")
	for _, c := range [][2]string{{"reduce_scatter ranks:ring", "ring(1)"}, {"reduce_scatter ranks:symmetric", "ring(0)"}, {"all_reduce ranks:nccltree/bf16", "nccltree(0,4)"}, {"all_reduce ranks:ring/fp32@bf16", "ring(1)"},
		{"all_reduce ranks:exact", "exact"}, {"all_reduce ranks:lanes(2)", "lanes(2)"}} {
		kernel, plan, _ := strings.Cut(c[0], " ")
		_, stdout, stderr := firstbit(t, "reveal", kernel, "-n", "6", "--plan", plan, "--elements", "6", "--element", "1", "--json")
		v := jsonOf(t, stdout)
		require.Equal(t, c[1], v["class"], "%s %s%s", c[0], stdout, stderr)
		require.Equal(t, true, v["verified"], c[0])
	}
}

// A Call of a run has a tree, several have a line each.
func TestRevealCallsOfARun(t *testing.T) {
	code, stdout, stderr := firstbit(t, "reveal", "layers.1.attn.attention", "--preset", "pico", "--sum", "keys", "--plan", "layers.1.attn.attention keys:lanes(4)")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "class lanes(4)")
	require.Contains(t, stdout, "its leaves are values of v, 16 of 16; as planned: true")
	code, stdout, stderr = firstbit(t, "reveal", "layers.1.attn.w?", "--preset", "pico", "--json")
	require.Zero(t, code, stderr)
	sums := jsonOf(t, stdout)["sums"].([]any)
	require.Len(t, sums, 4)
	for _, s := range sums {
		require.Equal(t, true, s.(map[string]any)["planned"])
	}
	for flags, why := range map[string]string{"layers.1.attn.wq --preset pico -n 4": "--n: is for a KERNEL", "matmul --preset pico": "--preset: is for a CALL of a run", "layers.1.attn.wx --preset pico": "no Call of that name: nearest",
		"layers.1.attn.wq --preset pico --save x": "--save: reveal writes no files", "layers.1.attn.wq --preset pico --rank 3": "rank 3"} {
		code, stdout, stderr := firstbit(t, append([]string{"reveal"}, strings.Fields(flags)...)...)
		require.Equal(t, 2, code, flags)
		require.Empty(t, stdout)
		require.Contains(t, stderr, why)
	}
}
