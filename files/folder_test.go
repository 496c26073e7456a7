package files

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func claimed(t *testing.T, dir string) *Folder {
	t.Helper()
	f, err := Claim(dir)
	require.NoError(t, err)
	return f
}

func TestOneClaimAtATime(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "a", "b")
	first := claimed(t, dir)
	for range 2 { // refusing changes nothing
		_, err := Claim(dir)
		require.ErrorIs(t, err, ErrClaimed)
	}
	above := claimed(t, filepath.Dir(dir)) // another folder, another claim
	above.Release()
	names, err := first.Names()
	require.NoError(t, err)
	require.Empty(t, names, "a claim shows nowhere")
	first.Release()
	require.NoDirExists(t, filepath.Join(root, "a"), "what was made and is empty goes")
	require.DirExists(t, root)

	again := claimed(t, dir)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "x"), nil, 0o600))
	again.Release()
	again.Release()
	require.FileExists(t, filepath.Join(dir, "x"))
	claimed(t, dir).Release()
	require.DirExists(t, dir, "it was there before")
}

// A run that fails takes back folders that another has claimed inside of them only up to those.
func TestClaimsBelowFoldersThatGo(t *testing.T) {
	root := t.TempDir()
	a := claimed(t, filepath.Join(root, "x", "a"))
	x := claimed(t, filepath.Join(root, "x"))
	b := claimed(t, filepath.Join(root, "x", "b"))
	a.Release()
	require.NoDirExists(t, a.Dir)
	b.Release()
	require.NoDirExists(t, b.Dir)
	require.DirExists(t, x.Dir, "it is claimed, though empty")
	x.Release()
}

func TestHold(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a")
	f := claimed(t, dir)
	require.NoError(t, f.Hold())
	require.NoError(t, os.Rename(dir, dir+"x"))
	require.NoError(t, f.Hold(), "it is made again")
	require.DirExists(t, dir)
	require.NoError(t, os.Rename(dir, dir+"y"))
	other := claimed(t, dir)
	require.ErrorIs(t, f.Hold(), ErrClaimed)
	other.Release()
	require.NoError(t, os.WriteFile(dir, []byte("mine"), 0o600))
	require.EqualError(t, f.Hold(), dir+" is a file: must be a folder")
	f.Release()
	require.FileExists(t, dir, "a file is not what was made")
}

func TestClaimEmpty(t *testing.T) {
	root := t.TempDir()
	file := filepath.Join(root, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	dangling := filepath.Join(root, "dangling")
	require.NoError(t, os.Symlink(filepath.Join(root, "nowhere"), dangling))
	for dir, want := range map[string]string{
		root:                     "is not empty: name a new folder",
		file:                     file + " is a file: must be a folder",
		filepath.Join(file, "x"): "not a directory",
		dangling:                 "no such file or directory",
		"/proc/none":             "no such file or directory",
	} {
		_, err := ClaimEmpty(dir)
		require.EqualError(t, err, want, dir)
	}
	_, err := ClaimEmpty(filepath.Join(root, "x\x00"))
	require.EqualError(t, err, "invalid argument")
	f, err := ClaimEmpty(filepath.Join(root, "new"))
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(filepath.Join(f.Dir, probe), 0o700))
	f.lock.release() // as if it had been killed there
	f.made = nil
	f, err = ClaimEmpty(f.Dir)
	require.NoError(t, err)
	f.Release()
	require.NoError(t, os.Remove(f.Dir), "nothing is in it")
	f, err = ClaimEmpty(f.Dir)
	require.NoError(t, err)
	f.Release()
	require.NoDirExists(t, f.Dir)
}

// Where a folder cannot be locked, a file in it is, and nobody sees that.
func TestLockInside(t *testing.T) {
	dir := t.TempDir()
	f := &Folder{Dir: dir}
	var err error
	f.lock, err = lockInside(dir)
	require.NoError(t, err)
	require.True(t, f.lock.holds(dir))
	_, err = lockInside(dir)
	require.ErrorIs(t, err, ErrClaimed)
	names, err := f.Names()
	require.NoError(t, err)
	require.Empty(t, names)
	require.NoError(t, f.Fill(func(stage string) error { return os.WriteFile(filepath.Join(stage, "x"), nil, 0o600) }))
	f.Release()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1, "the file goes with the claim")

	dir = filepath.Join(dir, "made")
	f = claimed(t, dir)
	f.lock.release()
	f.lock, err = lockInside(dir)
	require.NoError(t, err)
	require.NoError(t, f.Fill(func(stage string) error { return os.WriteFile(filepath.Join(stage, "x"), nil, 0o600) }))
	f.Release()
	require.FileExists(t, filepath.Join(dir, "x"))
}

// Of many that claim one folder at once, and give it back, never two have it.
func TestClaimsAtOnce(t *testing.T) {
	for name, lock := range map[string]func(dir string) (*lock, error){"folder": lockFolder, "file": lockInside} {
		dir := filepath.Join(t.TempDir(), "x", "y")
		var inside, got atomic.Int32
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for range 100 {
					made, err := makeAll(dir)
					if err != nil {
						require.ErrorIs(t, err, fs.ErrNotExist)
						continue
					}
					l, err := lock(dir)
					if err != nil {
						require.True(t, errors.Is(err, ErrClaimed) || errors.Is(err, fs.ErrNotExist), "%s: %v", name, err)
						continue
					}
					require.EqualValues(t, 1, inside.Add(1), name)
					time.Sleep(20 * time.Microsecond)
					got.Add(1)
					inside.Add(-1)
					if (got.Load()%2) == 0 && !l.inside {
						_ = removeFolder(dir)
					}
					(&Folder{Dir: dir, made: made, lock: l}).Release()
				}
			})
		}
		all.Wait()
		require.Positive(t, got.Load())
	}
}

func TestFill(t *testing.T) {
	root := t.TempDir()
	two := func(stage string) error {
		return errors.Join(os.WriteFile(filepath.Join(stage, "a"), nil, 0o600), os.WriteFile(filepath.Join(stage, "b"), nil, 0o600))
	}
	list := func(dir string) (names []string) {
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	there := filepath.Join(root, "there")
	require.NoError(t, os.Mkdir(there, 0o750))
	for _, dir := range []string{filepath.Join(root, "new", "one"), there} {
		f, err := ClaimEmpty(dir)
		require.NoError(t, err)
		before, err := os.Stat(dir)
		require.NoError(t, err)
		broken := errors.New("broken")
		require.ErrorIs(t, f.Fill(func(stage string) error { return errors.Join(two(stage), broken) }), broken)
		require.Empty(t, list(dir), "nothing half-written")

		// Somebody was faster.
		mine := filepath.Join(dir, "a")
		require.NoError(t, os.WriteFile(mine, []byte("mine"), 0o600))
		err = f.Fill(two)
		require.ErrorContains(t, err, "what was written stays in ")
		b, err := os.ReadFile(mine)
		require.NoError(t, err)
		require.Equal(t, "mine", string(b))
		require.NoError(t, os.Remove(mine))
		for _, at := range []string{dir, filepath.Dir(dir)} {
			stages, err := filepath.Glob(filepath.Join(at, temporary+"*"))
			require.NoError(t, err)
			for _, stage := range stages {
				require.Equal(t, []string{"a", "b"}, list(stage))
				require.NoError(t, os.RemoveAll(stage))
			}
		}

		require.NoError(t, f.Fill(two))
		f.Release()
		require.Equal(t, []string{"a", "b"}, list(dir))
		after, err := os.Stat(dir)
		require.NoError(t, err)
		require.Equal(t, before.Mode(), after.Mode())
	}
	require.Equal(t, []string{"new", "there"}, list(root))
}

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x")
	for _, text := range []string{"long", "x"} {
		require.NoError(t, Write(path, []byte(text)))
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, text, string(b))
	}
	require.EqualError(t, Write(filepath.Join(path, "y"), nil), "not a directory")
	require.NoError(t, os.Mkdir(path+"d", 0o700))
	require.EqualError(t, Write(path+"d", nil), "file exists")
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 2, "nothing temporary")
}
