//go:build unix

package main

import (
	"bufio"
	"encoding/binary"

	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// weightAttack damages folders of Hugging Face's nemotron_h and begins runs with them. They carry no digests, so other values are no damage; what
// the files say of themselves must fit.
type weightAttack struct {
	folders []string
	huge    string // a file with a header of 83 MB
}

func weights() attack {
	w := &weightAttack{}
	return attack{name: "weights", full: 600, short: 30, prepare: w.prepare, try: w.try}
}

func (x *weightAttack) prepare(a *arena) error {
	t := &trial{arena: a, dir: filepath.Join(a.dir, "weights")}
	for _, preset := range []string{"pico", "tiny"} {
		dir := t.in(preset)
		if _, err := t.succeed("train", "--preset", preset, "--steps", "1", "--export", dir); err != nil {
			return err
		}
		split, err := t.copied(dir, preset+"-split")
		if err == nil {
			err = splitWeights(split)
		}
		if err != nil {
			return err
		}
		x.folders = append(x.folders, dir, split)
	}
	x.huge = t.in("huge")
	if err := writeHuge(x.huge); err != nil {
		return err
	}
	for _, dir := range x.folders { // the control
		if _, err := t.succeed(flagsOf(dir)...); err != nil {
			return err
		}
	}
	return nil
}

// flagsOf are those of a run of a step that begins with a folder's weights.
func flagsOf(dir string) []string {
	return []string{"train", "--preset", "pico", "--steps", "1", "--weights", dir}
}

// splitWeights makes two files of one, with an index.
func splitWeights(dir string) error {
	path := filepath.Join(dir, "model.safetensors")
	s, err := openSafetensors(path)
	if err != nil {
		return err
	}
	var parts [2]safetensors
	index := value{}
	for i, name := range s.header.keys {
		if name == "__metadata__" {
			continue
		}
		p, item := &parts[i%2], s.header.items[i]
		data := s.tensor(name)
		item.get("data_offsets").items = []value{{plain: strconv.Itoa(len(p.data))}, {plain: strconv.Itoa(len(p.data) + len(data))}}
		p.data = append(p.data, data...)
		p.header.keys, p.header.items = append(p.header.keys, name), append(p.header.items, item)
		index.keys, index.items = append(index.keys, name), append(index.items, value{plain: strconv.Quote(partName(i % 2))})
	}
	text := `{"metadata":{},"weight_map":` + index.String() + "}"
	in := func(name string) string { return filepath.Join(dir, name) }
	return firstError(os.Remove(path), os.WriteFile(in("model.safetensors.index.json"), []byte(text), 0o666),
		os.WriteFile(in(partName(0)), parts[0].bytes(), 0o666), os.WriteFile(in(partName(1)), parts[1].bytes(), 0o666))
}

func partName(i int) string { return fmt.Sprintf("model-%05d-of-00002.safetensors", i+1) }

func (x *weightAttack) try(t *trial) error {
	dir, err := t.copied(pick(t.rand, x.folders), "hf")
	if err != nil {
		return err
	}
	may, err := x.damage(t, dir)
	if err != nil {
		return err
	}
	o, err := t.run(flagsOf(dir)...)
	if err != nil {
		return err
	}
	switch why := o.unclear(); {
	case o.broken() != "":
		return t.failed(o, "%s", o.broken())
	case why == "" && o.idle(), may != refusal && o.code == 0:
		return nil
	default:
		return t.failed(o, "answered by %s: %s", o.status(), why)
	}
}

func (x *weightAttack) damage(t *trial, dir string) (allowed, error) {
	names, err := filesOf(dir, "config.json", "model")
	if err != nil {
		return 0, err
	}
	name := pick(t.rand, names)
	isTensors := filepath.Ext(name) == ".safetensors"
	t.what = filepath.Base(name)
	switch {
	case t.rand.IntN(3) == 0:
		t.kind, err = damageFile(t.rand, name)
		return anything, err
	case isTensors:
		if t.rand.IntN(12) == 0 {
			t.kind = "header: of 83 MB"
			return refusal, firstError(os.Remove(name), os.Link(x.huge, name))
		}
		return forgeWeights(t, name)
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return 0, err
	}
	v, err := parse(b)
	if err != nil {
		return 0, err
	}
	t.kind = "forged: config or index"
	t.what += " " + mutate(t.rand, &v)
	return anything, os.WriteFile(name, []byte(v.String()), 0o666)
}

// forgeWeights writes a file whose header does not fit its data or the model.
func forgeWeights(t *trial, name string) (allowed, error) {
	s, err := openSafetensors(name)
	if err != nil {
		return 0, err
	}
	h := &s.header
	var tensors []int
	for i, key := range h.keys {
		if key != "__metadata__" {
			tensors = append(tensors, i)
		}
	}
	i := pick(t.rand, tensors)
	x := &h.items[i]
	t.what += " " + h.keys[i]
	b := []byte(nil)
	forge := pick(t.rand, []struct {
		name string
		do   func()
	}{
		{"header: mutated", func() { t.what += " " + mutate(t.rand, h) }},
		{"header: offsets of another tensor", func() { *x.get("data_offsets") = *h.items[pick(t.rand, without1(tensors, i))].get("data_offsets") }},
		{"header: offsets that overlap", func() { x.get("data_offsets").items[0].plain += "0" }},
		{"header: a negative extent", func() { x.get("shape").items[0].plain = "-" + x.get("shape").items[0].plain }},
		{"header: extents that overflow", func() {
			x.get("shape").items = []value{{plain: "4294967296"}, {plain: "4294967296"}, {plain: "4294967297"}}
		}},
		{"header: a tensor lost", func() {
			h.items, h.keys = append(h.items[:i:i], h.items[i+1:]...), append(h.keys[:i:i], h.keys[i+1:]...)
		}},
		{"header: a tensor twice", func() { h.items, h.keys = append(h.items, *x), append(h.keys, h.keys[i]+".x") }},
		{"header: another type", func() { x.get("dtype").plain = pick(t.rand, []string{`"F64"`, `"I32"`, `"BOOL"`, `"F8_E4M3"`, `"X"`}) }},
		{"header: longer than the file", func() {
			b = s.bytes()
			binary.LittleEndian.PutUint64(b, pick(t.rand, []uint64{1 << 63, 1<<64 - 1, 1 << 32, uint64(len(b))}))
		}},
		{"header: shorter", func() { b = s.bytes(); binary.LittleEndian.PutUint64(b, uint64(t.rand.IntN(100))) }},
		{"data: lost", func() { s.data = s.data[:t.rand.IntN(len(s.data))] }},
		{"data: more", func() { s.data = append(s.data, 1, 2, 3, 4) }},
	})
	forge.do()
	t.kind = forge.name
	if b == nil {
		b = s.bytes()
	}
	may := refusal
	if forge.name == "header: mutated" || forge.name == "header: another type" {
		may = anything // metadata is nobody's, and a type of the same size makes other numbers
	}
	return may, os.WriteFile(name, b, 0o666)
}

func without1(from []int, i int) (rest []int) {
	for _, n := range from {
		if n != i {
			rest = append(rest, n)
		}
	}
	return rest
}

// writeHuge writes a file whose header has a tensor of nothing for each sixty bytes.
func writeHuge(path string) error {
	const tensors, entry = 1_400_000, `"t%07d":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}`
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	size := tensors*(len(fmt.Sprintf(entry, 0))+1) + 1
	_, _ = w.Write(binary.LittleEndian.AppendUint64(nil, uint64(size))) // Flush says
	for i := range tensors {
		fmt.Fprintf(w, "%c"+entry, "{,"[min(i, 1)], i)
	}
	fmt.Fprint(w, "}")
	return firstError(w.Flush(), f.Close())
}
