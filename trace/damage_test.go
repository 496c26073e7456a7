package trace

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
)

// line is a record of rank 0 and iteration 1.
func line(seq int, name string) string {
	text, _ := json.Marshal(name)
	return fmt.Sprintf(`{"schema_version":2,"seq":%d,"rank":0,"iteration":1,"phase":"fwd","kind":"op","name":%s}`+"\n", seq, text)
}

// ended adds an end record to lines, which says what is true of them.
func ended(records int, lines string) string {
	one := 1
	text, _ := json.Marshal(End{"end", 0, &one, records, hashOf([]byte(lines)), ""})
	return lines + string(text) + "\n"
}

// cutEnd parts a file and its end record.
func cutEnd(text []byte) (body, end []byte) {
	i := bytes.LastIndex(text, []byte(`{"kind":"end"`))
	return text[:i], text[i:]
}

func TestDamagedFileIsNamed(t *testing.T) {
	x, y := line(0, "x"), line(1, "y")
	whole := ended(2, x+y)
	records, end, err := readWhole(strings.NewReader(whole))
	require.NoError(t, err)
	require.Len(t, records, 2)
	require.Equal(t, 1, *end.Iteration)
	for _, c := range []struct{ text, want string }{
		{x, "is truncated: after 1 records there is no end record"},
		{"", "is truncated: after 0 records"},
		{x[:20], "line 1: is truncated: it does not end"},
		{whole[:len(whole)-1], "line 3: is truncated"},
		{"[]\n", "is truncated: after 1 records"},
		{ended(1, "[]\n"), "line 1: is no record"},
		{ended(1, "\n"), "line 1: is no record"},
		{ended(1, x[:20]+"\n"), "line 1: is no record"},
		{"\x00\x00\x00", "line 1: is truncated"},
		{ended(3, x+y), "counts 3 records, the file holds 2"},
		{ended(1, x) + y, "line 3: stands after the end record"},
		{ended(1, x) + ended(0, ""), "line 3: stands after the end record"},
		{ended(1, strings.Replace(x, ":2", ":1", 1)), "line 1: schema_version 1: this program reads 2"},
		{ended(1, strings.Replace(x, "op", "oq", 1)), `kind "oq": must be one of metric, `},
		{ended(1, strings.Replace(x, "fwd", "fwe", 1)), `phase "fwe": must be one of init, `},
		{ended(2, x+strings.Replace(y, `"rank":0`, `"rank":1`, 1)), "line 2: rank 1 in a file of rank 0"},
		{ended(2, x+strings.Replace(y, `"iteration":1`, `"iteration":2`, 1)), "line 2: iteration 2 in a file of iteration 1"},
		{ended(2, x+line(1, "x")), "line 2: rank 0 iteration 1 microbatch 0 fwd op x has a second record"},
		{ended(2, y+x), "line 2: seq 0 stands after seq 1"},
		{ended(2, x+line(0, "y")), "line 2: seq 0 stands after seq 0"},
		{strings.Replace(whole, x+y, y+x, 1), "the end record has digest"},
		{strings.Replace(ended(1, x+y), x, "", 1), "the end record has digest"}, // a line dropped, the count mended by hand
		{strings.Replace(whole, `"x"`, `"z"`, 1), "the end record has digest"},
		{strings.Replace(whole, `"previous"`, `"Previous"`, 1), "line 3: is no end record"},
		{strings.Replace(whole, `"previous":""`, `"previous":"","x":1`, 1), "is no end record"},
		{strings.Replace(whole, `"previous":""`, `"previous": ""`, 1), "is no end record"},
		{strings.Replace(whole, `"kind":"end"`, `"kind":"end","kind":"end"`, 1), "is no end record"},
		{strings.Replace(whole, `"kind":"end"`, `"Kind":"end"`, 1), "is truncated"},
		{ended(1, line(0, "a\x1b[2J")), `"a\x1b[2J" holds a control character`},
		{ended(1, line(0, "a\u009b2J")), "holds a control character"},
		{strings.Repeat("x", maxLine+1), fmt.Sprintf("line 1: is longer than %d bytes", maxLine)},
	} {
		_, _, err := readWhole(strings.NewReader(c.text))
		require.ErrorContains(t, err, c.want, "%.300q", c.text)
		require.NotContains(t, err.Error(), "\n")
	}
	_, _, err = readWhole(strings.NewReader(ended(1, line(0, "größe \\ \""))))
	require.NoError(t, err, "names need not be ASCII")
}

// damage changes a trace of two ranks and steps 1 and 2.
type damage struct {
	name, want string
	do         func(d dir)
}

// dir is a trace that a test damages.
type dir struct {
	*testing.T
	path string
}

func (d dir) at(name string) string { return filepath.Join(d.path, name) }

func (d dir) read(name string) string {
	d.Helper()
	text, err := os.ReadFile(d.at(name))
	require.NoError(d, err)
	return string(text)
}

func (d dir) write(name, text string) {
	d.Helper()
	require.NoError(d, os.WriteFile(d.at(name), []byte(text), 0o644))
}

func (d dir) replace(name, old, with string) {
	d.Helper()
	text := d.read(name)
	require.Contains(d, text, old)
	d.write(name, strings.Replace(text, old, with, 1))
}

func (d dir) remove(name string) { d.Helper(); require.NoError(d, os.Remove(d.at(name))) }

func (d dir) move(from, to string) { d.Helper(); require.NoError(d, os.Rename(d.at(from), d.at(to))) }

func (d dir) pack(name string) {
	d.Helper()
	d.write(name+".zst", string(packed(d.T, []byte(d.read(name)))))
}

// describe writes run.json anew, with what change says and a digest that fits.
func (d dir) describe(change func(r *Run)) {
	d.Helper()
	r, err := DecodeRun([]byte(d.read("run.json")))
	require.NoError(d, err)
	change(&r)
	text, err := r.Encode()
	require.NoError(d, err)
	d.write("run.json", string(text))
}

func packed(t *testing.T, text []byte) []byte {
	t.Helper()
	z, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	return z.EncodeAll(text, nil)
}

// traced is a trace of ranks and steps 1 to last, each of whose records differ by a seed.
func traced(t *testing.T, ranks, last int, seed float32) dir {
	t.Helper()
	d := dir{t, filepath.Join(t.TempDir(), "trace")}
	o := Options{Dir: d.path, Level: Op}
	first, err := New(o, 0, Run{Layout: fmt.Sprintf("dp=%d", ranks), Level: "op"})
	require.NoError(t, err)
	tracers := []*Tracer{first}
	for rank := 1; rank < ranks; rank++ {
		tracers = append(tracers, first.Join(rank))
	}
	for rank, tr := range tracers {
		steps(tr, 1, last, seed+float32(rank))
	}
	require.NoError(t, first.Complete(last, nil))
	return d
}

func TestDamagedTraceIsNamed(t *testing.T) {
	r0s1, r0s2, r1s1, r1s2 := FileName(0, 1), FileName(0, 2), FileName(1, 1), FileName(1, 2)
	for _, c := range []damage{
		{"a rank is gone", r0s1 + " is missing: run.json lists steps 1-2 of rank 0", func(d dir) { d.remove(r0s1); d.remove(r0s2) }},
		{"a step of a rank is gone", r1s1 + " is missing", func(d dir) { d.remove(r1s1) }},
		{"a step of all ranks is gone", r0s2 + " is missing", func(d dir) { d.remove(r0s2); d.remove(r1s2) }},
		{"a rank under another's name", r0s1 + ": is of rank 1", func(d dir) { d.write(r0s1, d.read(r1s1)) }},
		{"a step under another's name", r0s2 + ": is of iteration 1", func(d dir) { d.write(r0s2, d.read(r0s1)) }},
		{"a rank too many", "rank00002_iter000001.jsonl: run.json does not list rank 2", func(d dir) { d.write(FileName(2, 1), d.read(r1s1)) }},
		{"a step too many", "rank00001_iter000003.jsonl: run.json does not list step 3 of rank 1", func(d dir) { d.write(FileName(1, 3), d.read(r1s2)) }},
		{"a file beside its .zst", r1s1 + " beside " + r1s1 + ".zst", func(d dir) { d.pack(r1s1) }},
		{"a file of all steps beside one of a step", "rank00001.jsonl beside " + r1s1, func(d dir) { d.write("rank00001.jsonl", d.read(r1s1)) }},
		{"a name with more zeros", "rank000000_iter000001.jsonl: must be named as", func(d dir) { d.move(r0s1, "rank000000_iter000001.jsonl") }},
		{"a name with a step without end", "must be named as", func(d dir) { d.move(r0s1, "rank00000_iter99999999999999999999.jsonl") }},
		{"a digit", r0s1 + ": the end record has digest", func(d dir) { d.replace(r0s1, `"value":0.5`, `"value":0.6`) }},
		{"a digit of an end record", "counts 4 records", func(d dir) { d.replace(r0s1, `"records":3`, `"records":4`) }},
		{"the digest of an end record", "the end record has digest", func(d dir) {
			digest := digestOf(d, r0s1)
			d.replace(r0s1, digest, digest[1:]+digest[:1])
		}},
		{"a file of another run, in the middle", r0s2 + ": does not follow the file before it", func(d dir) { d.write(r0s1, traced(d.T, 2, 2, 7).read(r0s1)) }},
		{"a file of another run, at the end", "the last files have digest", func(d dir) {
			other := traced(d.T, 2, 2, 7)
			d.write(r0s1, other.read(r0s1))
			d.write(r0s2, other.read(r0s2))
		}},
		{"cut short, though the trace is closed", r1s2 + ": line 3: is truncated", func(d dir) { text := d.read(r1s2); d.write(r1s2, text[:len(text)-150]) }},
		{"cut between lines", r1s2 + ": is truncated", func(d dir) { body, _ := cutEnd([]byte(d.read(r1s2))); d.write(r1s2, string(body)) }},
		{"packed and cut", r1s2 + ".zst: line 1: is truncated", func(d dir) {
			text := packed(d.T, []byte(d.read(r1s2)))
			d.write(r1s2+".zst", string(text[:len(text)-9]))
			d.remove(r1s2)
		}},
		{"packed and changed", r1s2 + ".zst: ", func(d dir) {
			text := packed(d.T, []byte(d.read(r1s2)))
			text[len(text)/2] ^= 4
			d.write(r1s2+".zst", string(text))
			d.remove(r1s2)
		}},
		{"no run.json", "run.json: no such file or directory: a trace holds run.json", func(d dir) { d.remove("run.json") }},
		{"a digit of run.json", "run.json: digest: the file has", func(d dir) { d.replace("run.json", `"last": 2`, `"last": 3`) }},
		{"run.json cut", "run.json: is not as a run describes itself", func(d dir) { text := d.read("run.json"); d.write("run.json", text[:len(text)/2]) }},
		{"run.json of another version", "run.json: schema_version 1: this program reads 2", func(d dir) { d.replace("run.json", `"schema_version": 2`, `"schema_version": 1`) }},
		{"run.json lists a rank outside of the layout", `holds: ranks "0-2": layout "dp=2" has ranks 0 to 1`, func(d dir) { d.describe(func(r *Run) { r.Holds[0].Ranks = "0-2" }) }},
		{"run.json lists a rank twice", "holds: rank 1 stands there twice", func(d dir) { d.describe(func(r *Run) { r.Holds = append(r.Holds, Holding{"1", "1-2"}) }) }},
		{"run.json lists steps without end", `holds: steps "1-": have no end`, func(d dir) { d.describe(func(r *Run) { r.Holds[0].Steps = "1-" }) }},
		{"run.json lists steps in no order", `holds: "2,1": must be in order`, func(d dir) { d.describe(func(r *Run) { r.Holds[0].Steps = "2,1" }) }},
		{"run.json lists words", `holds: "x": must be a list`, func(d dir) { d.describe(func(r *Run) { r.Holds[0].Ranks = "x" }) }},
		{"run.json lists many steps", FileName(0, 3) + " is missing", func(d dir) { d.describe(func(r *Run) { r.Holds[0].Steps = "1-999999999999" }) }},
		{"run.json lists nothing", "holds: names no rank", func(d dir) { d.describe(func(r *Run) { r.Holds = nil }) }},
		{"run.json has no layout", `run.json: layout "x=1"`, func(d dir) { d.describe(func(r *Run) { r.Layout = "x=1" }) }},
		{"run.json with commands for a terminal", "holds a control character", func(d dir) { d.describe(func(r *Run) { r.Library = "\x1b]0;" }) }},
		{"a folder in the place of a file", r0s1 + ": is a folder: must be a regular file", func(d dir) { d.remove(r0s1); require.NoError(d, os.Mkdir(d.at(r0s1), 0o755)) }},
		{"a file too large", r0s1 + ": 107374182400 bytes: must be at most", func(d dir) { require.NoError(d, os.Truncate(d.at(r0s1), 100<<30)) }},
		{"a run.json too large", "run.json: 107374182400 bytes: must be at most", func(d dir) { require.NoError(d, os.Truncate(d.at("run.json"), 100<<30)) }},
		{"a bomb", r0s1 + ".zst: unpacks to more than 200 times its size", func(d dir) {
			d.remove(r0s1)
			d.write(r0s1+".zst", string(packed(d.T, []byte(line(0, strings.Repeat("x", maxLine/2))+line(1, strings.Repeat("y", maxLine/2))))))
		}},
	} {
		d := traced(t, 2, 2, 1)
		_, err := Open(d.path)
		require.NoError(t, err)
		c.do(d)
		_, err = Open(d.path)
		require.ErrorContains(t, err, c.want, c.name)
		require.NotContains(t, err.Error(), "\n", c.name)
		require.Contains(t, err.Error(), d.path, c.name)
	}
}

// No byte of a trace can be another without a word.
func TestEveryByteCounts(t *testing.T) {
	d := traced(t, 1, 2, 1)
	r := rand.New(rand.NewSource(1))
	for _, name := range []string{FileName(0, 1), FileName(0, 2), "run.json"} {
		text := d.read(name)
		atEnd := strings.LastIndex(text, `{"kind":"end"`)
		for i := 0; i < len(text); i += 1 + r.Intn(5) {
			changed := []byte(text)
			changed[i] ^= byte(1 + r.Intn(255))
			var err error
			switch {
			case name == "run.json":
				_, err = DecodeRun(changed)
			case i < atEnd:
				_, _, err = readWhole(bytes.NewReader(changed))
			default: // what it is held against is elsewhere
				d.write(name, string(changed))
				_, err = Open(d.path)
			}
			require.Error(t, err, "%s byte %d: %q to %q", name, i, text[i], changed[i])
			require.NotContains(t, err.Error(), "\n")
		}
		for i := 0; i < len(text); i += 1 + len(text)/30 {
			d.write(name, text[:i])
			_, err := Open(d.path)
			require.Error(t, err, "%s cut at %d", name, i)
		}
		d.write(name, text)
	}
	_, err := Open(d.path)
	require.NoError(t, err)
}

// Steps are numbers: 1000000 comes after 999999, though its name does not.
func TestStepsAreInTheOrderOfNumbers(t *testing.T) {
	d := dir{t, filepath.Join(t.TempDir(), "trace")}
	tr, err := New(Options{Dir: d.path, Level: Op}, 0, Run{Level: "op"})
	require.NoError(t, err)
	steps(tr, 999_998, 1_000_001, 1)
	steps(tr, 3, 3, 1) // a run that goes back
	require.NoError(t, tr.Complete(1_000_001, nil))
	back, err := Open(d.path)
	require.NoError(t, err)
	var order []int
	for _, r := range back.Ranks[0].Records {
		if n := len(order); n == 0 || order[n-1] != r.Iteration {
			order = append(order, r.Iteration)
		}
	}
	require.Equal(t, []int{999_998, 999_999, 1_000_000, 1_000_001}, order)
	require.Equal(t, []Holding{{"0", "999998-1000001"}}, back.Run.Holds)
}

// A rank may have one file of all its iterations.
func TestFileOfAllIterations(t *testing.T) {
	d := traced(t, 2, 3, 1)
	var lines string
	records := 0
	for step := 1; step <= 3; step++ {
		body, _ := cutEnd([]byte(d.read(FileName(1, step))))
		lines += string(body)
		records += strings.Count(string(body), "\n")
		d.remove(FileName(1, step))
	}
	end, err := json.Marshal(End{"end", 1, nil, records, hashOf([]byte(lines)), ""})
	require.NoError(t, err)
	all := lines + string(end) + "\n"
	other, err := Open(traced(t, 2, 3, 1).path)
	require.NoError(t, err)
	d.describe(func(r *Run) {
		r.Close(3, []Held{{0, []int{1, 2, 3}, digestOf(d, FileName(0, 3))}, {1, []int{1, 2, 3}, hashOf([]byte(lines))}})
	})
	d.write("rank00001.jsonl", all)
	tr, err := Open(d.path)
	require.NoError(t, err)
	require.Equal(t, other.Ranks, tr.Ranks)

	d.pack("rank00001.jsonl")
	_, err = Open(d.path)
	require.ErrorContains(t, err, "rank00001.jsonl beside rank00001.jsonl.zst")
	d.remove("rank00001.jsonl")
	tr, err = Open(d.path)
	require.NoError(t, err)
	require.Equal(t, other.Ranks, tr.Ranks)

	d.describe(func(r *Run) { r.Holds = []Holding{{"0", "1-3"}, {"1", "1-4"}} })
	_, err = Open(d.path)
	require.ErrorContains(t, err, "rank00001.jsonl.zst: holds steps 1-3, run.json lists 1-4")
	d.describe(func(r *Run) { r.Holds = []Holding{{"0-1", "1-3"}} })
	d.remove("rank00001.jsonl.zst")
	d.write("rank00000.jsonl", all)
	for step := 1; step <= 3; step++ {
		d.remove(FileName(0, step))
	}
	_, err = Open(d.path)
	require.ErrorContains(t, err, FileName(1, 1)+" is missing")
}

// digestOf is what the end record of a file says.
func digestOf(d dir, name string) string {
	_, end := cutEnd([]byte(d.read(name)))
	var e End
	require.NoError(d, json.Unmarshal(end, &e))
	return e.Digest
}

// A run that was stopped leaves a trace that is read up to the last step that every rank has whole.
func TestCutTraceIsReadAsFarAsItIsWhole(t *testing.T) {
	begun := func(more ...int) (dir, *Tracer) { // the last step that each rank is in the middle of
		d := dir{t, filepath.Join(t.TempDir(), "trace")}
		first, err := New(Options{Dir: d.path, Level: Op}, 0, Run{Layout: fmt.Sprintf("dp=%d", len(more)), Level: "op"})
		require.NoError(t, err)
		for rank, last := range more {
			tr := first
			if rank > 0 {
				tr = first.Join(rank)
			}
			steps(tr, 1, last, float32(rank))
		}
		first.Abandon(1)
		return d, first
	}
	d, _ := begun(4, 3)
	require.Contains(t, d.read("run.json"), `"last": null`)
	tr, err := Open(d.path)
	require.NoError(t, err)
	require.True(t, tr.Truncated)
	require.Equal(t, 2, tr.Whole)
	require.Len(t, tr.Ranks, 2)
	for _, r := range tr.Ranks {
		require.Len(t, r.Records, 6)
		require.Equal(t, 2, r.Records[5].Iteration)
	}

	// What is cut may be cut anywhere, also of a packed file, but nothing else may.
	name := FileName(0, 4)
	text := d.read(name)
	for _, n := range []int{0, 1, len(text) / 2, len(text)} {
		d.write(name, text[:n])
		tr, err = Open(d.path)
		require.NoError(t, err)
		require.Equal(t, 2, tr.Whole)
	}
	d.remove(name)
	z := packed(t, []byte(text))
	d.write(name+".zst", string(z[:len(z)/2]))
	_, err = Open(d.path)
	require.NoError(t, err)
	d.remove(name + ".zst")

	before := d.read(FileName(0, 2))
	d.write(FileName(0, 2), before[:len(before)/2])
	_, err = Open(d.path)
	require.ErrorContains(t, err, FileName(0, 2)+": line 2: is truncated", "a file of rank 0 follows it")
	d.remove(FileName(0, 2))
	_, err = Open(d.path)
	require.ErrorContains(t, err, FileName(0, 3)+": does not follow the file before it")
	d.write(FileName(0, 2), strings.Replace(before, "0.5", "0.6", 1))
	_, err = Open(d.path)
	require.ErrorContains(t, err, "the end record has digest")

	for _, more := range [][]int{{1, 4}, {0, 4}} {
		d, _ = begun(more...)
		_, err = Open(d.path)
		require.EqualError(t, err, "trace "+d.path+": was cut short before any step was whole: there is nothing to compare")
	}
}

// A rank's records are numbered through all of its files.
func TestSeqGoesOnFromFileToFile(t *testing.T) {
	for seq, want := range []string{"begins with seq 0, the file before it ends with 0", ""} {
		d := dir{t, t.TempDir()}
		held := Held{}
		for step := 1; step <= 2; step++ {
			var b bytes.Buffer
			f := NewFile(&b, 0, step, held.Last)
			require.NoError(t, f.Write(&Record{SchemaVersion: SchemaVersion, Seq: (step - 1) * seq, Iteration: step, Phase: "fwd", Kind: "op", Name: "x"}))
			digest, err := f.End()
			require.NoError(t, err)
			held.Steps, held.Last = append(held.Steps, step), digest
			d.write(FileName(0, step), b.String())
		}
		r := Run{Level: "op"}
		r.Close(2, []Held{held})
		text, err := r.Encode()
		require.NoError(t, err)
		d.write("run.json", string(text))
		_, err = Open(d.path)
		if want == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, want)
		}
	}
}

func TestWindowOfNothing(t *testing.T) {
	tr, err := New(Options{Dir: filepath.Join(t.TempDir(), "t"), Level: Op, Steps: Set{{5, 9}}}, 0, Run{Level: "op"})
	require.NoError(t, err)
	steps(tr, 1, 2, 1)
	require.NoError(t, tr.Complete(2, nil))
	_, err = Open(tr.Dir)
	require.ErrorContains(t, err, "holds no records")
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(ended(1, line(0, "x"))))
	f.Add([]byte(line(0, "x") + line(1, "y")))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, text := range []string{string(b), ended(strings.Count(string(b), "\n"), string(b))} { // as it is, and as if it were whole
			records, end, err := readWhole(strings.NewReader(text))
			if err == nil {
				require.Equal(t, end.Records, len(records))
			}
		}
	})
}

func FuzzDecodeRun(f *testing.F) {
	text, err := Run{Layout: "dp=2", Holds: []Holding{{"0-1", "1-9"}}}.Encode()
	require.NoError(f, err)
	f.Add(text)
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, err := DecodeRun(b); err == nil {
			_, _ = r.contents()
		}
	})
}

// readWhole reads one file: its records and its end record. Whatever is not as it was written is an error.
func readWhole(r io.ReadSeeker) ([]Record, End, error) {
	end, err := Verify(r)
	if err != nil {
		return nil, end, err
	}
	if _, err := r.Seek(0, io.SeekStart); err != nil {
		return nil, end, err
	}
	records, err := parse(r, end)
	return records, end, err
}
