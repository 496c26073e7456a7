package files

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRead(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	require.NoError(t, os.WriteFile(path, []byte("abc"), 0o600))
	require.NoError(t, os.Symlink(path, link))
	for _, most := range []int64{3, 4, 1 << 40} {
		b, err := Read(link, most)
		require.NoError(t, err)
		require.Equal(t, "abc", string(b))
		require.LessOrEqual(t, cap(b), 1<<10, "memory follows the file, not the bound")
	}
	f, err := Open(path, 3)
	require.NoError(t, err)
	require.NoError(t, f.Close())

	sparse := filepath.Join(dir, "sparse")
	require.NoError(t, os.WriteFile(sparse, nil, 0o600))
	require.NoError(t, os.Truncate(sparse, 100<<30))
	for _, tt := range []struct {
		path string
		most int64
		want string
	}{
		{path, 2, "3 bytes: must be at most 2"},
		{link, 0, "3 bytes: must be at most 0"},
		{sparse, 1 << 30, "107374182400 bytes: must be at most 1073741824"},
		{dir, 3, "is a folder: must be a regular file"},
		{os.DevNull, 3, "is a device or socket: must be a regular file"},
	} {
		_, err := Read(tt.path, tt.most)
		require.EqualError(t, err, "read "+tt.path+": "+tt.want)
		require.EqualError(t, Reason(err), tt.want)
		_, err = Open(tt.path, tt.most)
		require.EqualError(t, err, "read "+tt.path+": "+tt.want)
	}
	_, err = Read(filepath.Join(dir, "none"), 3)
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// A file that grows after its size was read is bounded as well.
func TestRest(t *testing.T) {
	b, err := rest(strings.NewReader("cd"), []byte("ab"), 4)
	require.NoError(t, err)
	require.Equal(t, "abcd", string(b))
	_, err = rest(strings.NewReader("cde"), []byte("ab"), 4)
	require.EqualError(t, err, "5 bytes: must be at most 4")
}

// The kernel's own files have no size and are read none the less.
func TestReadFileWithoutSize(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	b, err := Read("/proc/self/stat", 1<<16)
	require.NoError(t, err)
	require.NotEmpty(t, b)
	_, err = Read("/proc/self/stat", 8)
	require.EqualError(t, err, "read /proc/self/stat: 9 bytes: must be at most 8")
}
