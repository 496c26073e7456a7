package data

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func write(t testing.TB, name string, b []byte) string {
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, b, 0o644))
	return path
}

func TestOpen(t *testing.T) {
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "a"), []byte("ab"), 0o644))
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(folder, link))
	for _, tt := range []struct {
		path  string
		want  []uint16
		vocab int
	}{
		{write(t, "a.txt", []byte("é\n")), []uint16{0xc3, 0xa9, '\n'}, 256},
		{write(t, "a.bin", []byte{1, 0, 2, 1}), []uint16{1, 258}, 259},
		{folder, []uint16{'a', 'b'}, 256},
		{link, []uint16{'a', 'b'}, 256},
	} {
		c, err := Open(tt.path, 1<<16)
		require.NoError(t, err)
		require.Equal(t, &Corpus{Name: tt.path, Tokens: tt.want, Documents: []int32{0}, Vocab: tt.vocab}, c)
	}
	c, err := Open("", 127)
	require.NoError(t, err)
	require.Same(t, Embedded(), c)
}

func TestOpenRefuses(t *testing.T) {
	big := write(t, "big.txt", nil)
	require.NoError(t, os.Truncate(big, bytesMax+1)) // sparse: takes no room
	folder := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(folder, "sub.bin"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "x.bin"), []byte{1, 0}, 0o644))
	require.NoError(t, os.Mkdir(filepath.Join(folder, "x.idx"), 0o755))
	odd := write(t, "new\nline", nil)
	for _, tt := range []struct{ path, file, want string }{
		{folder + "/none", "none", "no such file or directory: must be a text file, a folder of text files or a token file (.bin)"},
		{"a\x00b", `"a\x00b"`, "must be a text file"},
		{write(t, "a.txt", nil), "a.txt", "is empty: must hold text"},
		{write(t, "b.txt", []byte{'a', 0}), "b.txt", "is binary: must be text, or a token file named .bin"},
		{write(t, "c.txt", []byte{0xff, 'a'}), "c.txt", "is binary"},
		{write(t, "c.idx", []byte(indexMagic)), "c.idx", "is binary"},
		{write(t, "d.bin", []byte{1}), "d.bin", "1 bytes: must be uint16, an even number of bytes"},
		{write(t, "e.bin", nil), "e.bin", "holds no tokens: must hold at least one"},
		{write(t, "f.bin", []byte{255, 0, 0, 9}), "f.bin", "token 2304 at 1: must be below model.vocab (256)"},
		{write(t, "g.txt", []byte("é")), "", ""},
		{folder + "/sub.bin", "sub.bin", "holds no text: must have text files that are not hidden"},
		{folder + "/x.bin", "x.idx", "is a folder: must be a regular file"},
		{big, "big.txt", "2147483648 bytes: must be at most 2147483647"},
		{os.DevNull, os.DevNull, "is a device or socket: must be a regular file"},
		{odd, `new\nline"`, "is empty"},
	} {
		_, err := Open(tt.path, 256)
		if tt.want == "" { // the control: the same call accepts what is right
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, tt.want, tt.path)
		require.ErrorContains(t, err, tt.file+": ")
		require.NotContains(t, err.Error(), "\n")
	}
	_, err := Open("", 100)
	require.ErrorContains(t, err, "must be below model.vocab (100)")
}

// unreadable is a tree with one name that may not be opened.
type unreadable struct {
	fstest.MapFS
	name string
}

func (u unreadable) Open(name string) (fs.File, error) {
	if name == u.name {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	return u.MapFS.Open(name)
}

func (u unreadable) ReadDir(name string) ([]fs.DirEntry, error) { return fs.ReadDir(hide{u}, name) }
func (u unreadable) ReadFile(name string) ([]byte, error)       { return fs.ReadFile(hide{u}, name) }

// hide leaves a tree nothing but Open, so that reading goes by it.
type hide struct{ fs.FS }

// Folder by folder in the order of names; what is left out leaves no newline either.
func TestJoinText(t *testing.T) {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	tree := fstest.MapFS{
		"b": file("B\n"), "a.txt": file("A"), "a/z": file("AZ"), "a/b/c": file("ABC"), "c": file("C"),
		".hidden": file("H"), ".git/x": file("G"), "a/.b": file("H"),
		"z.o": file("\x00"), "0": file(""), "zz": file("\xff\xfe"),
		"link": {Data: []byte("L"), Mode: os.ModeSymlink}, "pipe": {Data: []byte("P"), Mode: os.ModeNamedPipe},
	}
	text, documents, err := joinText(tree, "here")
	require.NoError(t, err)
	require.Equal(t, "ABC\nAZ\nA\nB\n\nC", string(text))
	require.Equal(t, []int32{0, 4, 7, 9, 12}, documents)

	// What cannot be read is an error that names it, not a shorter corpus.
	for _, name := range []string{".", "a", "a/z"} {
		_, _, err = joinText(unreadable{tree, name}, "here")
		require.EqualError(t, err, "data "+filepath.Join("here", name)+": permission denied")
	}
}

func TestIsText(t *testing.T) {
	for text, want := range map[string]bool{
		"":                                    true,
		"plain":                               true,
		"é, 数, 🙂":                             true,
		"a replacement \ufffd is a character": true,
		"Stra\xdfen und \xdcbungen!!":         true,  // Latin-1: 2 of 20
		"cut within a character \xe6\x95":     true,  // 2 of 25
		strings.Repeat("a", 9) + "\xff":       true,  // 1 of 10
		strings.Repeat("a", 8) + "\xff":       false, // 1 of 9
		"nul\x00":                             false,
		"\x7fELF\x02\x01\x01\x00":             false,
		"\x1f\x8b\x08\x08\xff\xfe\xfd":        false,
	} {
		require.Equal(t, want, isText([]byte(text)), "%q", text)
	}
}

// Whatever a file holds, Open gives tokens below the vocabulary or one line.
func FuzzOpen(f *testing.F) {
	bin, idx := indexed(8, 2, []int{1, 2}, []int{3})
	f.Add("x.bin", bin, idx, 256)
	f.Add("x.bin", []byte{1, 0, 2}, []byte(nil), 2)
	f.Add("x.txt", []byte("text"), []byte(nil), 128)
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, name string, content, idx []byte, vocab int) {
		path := filepath.Join(dir, "x.txt")
		if strings.HasSuffix(name, ".bin") {
			path = filepath.Join(dir, "x.bin")
		}
		require.NoError(t, os.WriteFile(path, content, 0o644))
		os.Remove(filepath.Join(dir, "x.idx"))
		if len(idx) > 0 {
			require.NoError(t, os.WriteFile(filepath.Join(dir, "x.idx"), idx, 0o644))
		}
		c, err := Open(path, vocab)
		if err != nil {
			require.NotContains(t, err.Error(), "\n")
			return
		}
		require.NotEmpty(t, c.Tokens)
		for _, v := range c.Tokens {
			require.Less(t, int(v), min(vocab, c.Vocab))
		}
	})
}
