//go:build unix

package main

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/zeebo/xxh3"
)

// A forged trace has the right digests everywhere: of its files, of their chain and of run.json. What is wrong is what it says.

func hashOf(b []byte) string {
	sum := xxh3.Hash128(b).Bytes()
	return hex.EncodeToString(sum[:])
}

// A forger has a trace's records in memory.
type forger struct {
	dir   string
	names []string
	files [][]string // lines, without the end record
}

func openForger(dir string) (*forger, error) {
	names, err := filesOf(dir, "rank")
	if err != nil {
		return nil, err
	}
	f := &forger{dir: dir, names: names}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err == nil && strings.HasSuffix(name, ".zst") {
			b, err = unpacked(name)
		}
		if err != nil {
			return nil, err
		}
		lines := strings.SplitAfter(strings.TrimSuffix(string(b), "\n"), "\n")
		f.files = append(f.files, lines[:len(lines)-1])
	}
	return f, nil
}

var fileParts = regexp.MustCompile(`^rank(\d+)_iter(\d+)`)

// close writes the files with the digests that belong to them. The files of a rank follow one another by their names.
func (f *forger) close(run []byte) error {
	ends, previous, of := "", "", ""
	for i, name := range f.names {
		m := fileParts.FindStringSubmatch(filepath.Base(name))
		if m[1] != of {
			ends, previous, of = ends+previous, "", m[1]
		}
		text := strings.Join(f.files[i], "")
		digest := hashOf([]byte(text))
		var rank, step int
		_, _ = fmt.Sscan(strings.TrimLeft(m[1][:len(m[1])-1], "0")+m[1][len(m[1])-1:], &rank) // digits
		_, _ = fmt.Sscan(strings.TrimLeft(m[2][:len(m[2])-1], "0")+m[2][len(m[2])-1:], &step)
		text += fmt.Sprintf(`{"kind":"end","rank":%d,"iteration":%d,"records":%d,"digest":"%s","previous":"%s"}`+"\n", rank, step, len(f.files[i]), digest, previous)
		previous = digest
		if err := firstError(os.Remove(name), os.WriteFile(strings.TrimSuffix(name, ".zst"), []byte(text), 0o666)); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(f.dir, "run.json"), forgeRun(run, hashOf([]byte(ends+previous))), 0o666)
}

var (
	endsField   = regexp.MustCompile(`("ends" ?: ?)"[^"]*"`)
	digestField = regexp.MustCompile(`("digest" ?: ?)"[0-9a-f]{32}"`)
)

// forgeRun sets what run.json says of the files' ends, and its own digest, the last of that name.
func forgeRun(text []byte, ends string) []byte {
	text = endsField.ReplaceAll(text, []byte(`${1}"`+ends+`"`))
	return forgeDigest(text, -1)
}

// forgeDigest sets a JSON file's own digest: of the file with zeros there. It is the first field of that name, or the last.
func forgeDigest(text []byte, which int) []byte {
	all := digestField.FindAllSubmatchIndex(text, -1)
	if len(all) == 0 {
		return text
	}
	at := all[max(which, 0)]
	if which < 0 {
		at = all[len(all)-1]
	}
	from := at[3] + 1
	copy(text[from:from+32], strings.Repeat("0", 32))
	digest := hashOf(bytes.Clone(text))
	copy(text[from:from+32], digest)
	return text
}

var outDigest = regexp.MustCompile(`"digest":"[0-9a-f]{32}"[^{}]*"from":null`) // what is written has no producer

// forgeTrace changes what a trace says, and all digests with it.
func forgeTrace(t *trial, dir string) (allowed, error) {
	f, err := openForger(dir)
	if err != nil {
		return 0, err
	}
	run, err := os.ReadFile(filepath.Join(dir, "run.json"))
	if err != nil {
		return 0, err
	}
	if t.rand.IntN(4) == 0 {
		v, err := parse(run)
		if err != nil {
			return 0, err
		}
		t.kind, t.what = "forged: run.json", mutate(t.rand, &v)
		return anything, f.close([]byte(v.String()))
	}
	may, err := f.forgeRecord(t)
	if err != nil {
		return 0, err
	}
	return may, f.close(run)
}

// forgeRecord changes a record.
func (f *forger) forgeRecord(t *trial) (allowed, error) {
	i := t.rand.IntN(len(f.files))
	l := f.files[i]
	n := t.rand.IntN(len(l))
	t.what = fmt.Sprintf("%s, record %d", filepath.Base(f.names[i]), n)
	switch t.rand.IntN(6) {
	case 0:
		t.kind = "forged: a record lost"
		f.files[i] = append(l[:n:n], l[n+1:]...)
		return different, nil
	case 1:
		t.kind = "forged: a record twice"
		f.files[i] = append(l, l[n])
		return refusal, nil
	case 2:
		t.kind = "forged: records swapped"
		m := (n + 1) % len(l)
		l[n], l[m] = l[m], l[n]
		return refusal, nil
	case 3:
		t.kind = "forged: a digest"
		for !outDigest.MatchString(l[n]) { // every file has records that wrote something
			n = (n + 1) % len(l)
		}
		at := outDigest.FindStringIndex(l[n])[0] + len(`"digest":"`) + t.rand.IntN(32)
		digit := "0123456789abcdef"[(strings.IndexByte("0123456789abcdef", l[n][at])+1+t.rand.IntN(15))%16]
		l[n] = l[n][:at] + string(digit) + l[n][at+1:]
		return different, nil
	}
	v, err := parse([]byte(l[n]))
	if err != nil {
		return 0, err
	}
	how := mutate(t.rand, &v)
	t.kind, t.what = "forged: a field of a record", t.what+" "+how
	l[n] = v.String() + "\n"
	return anything, nil
}
