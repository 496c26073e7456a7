package files

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/gofrs/flock"
)

// lockName is the file that is locked where folders cannot be. It goes with the lock; one that a killed process left is locked by nobody.
const lockName = ".firstbit-lock"

// lock is a lock of the operating system on a folder, which ends with the process. A file that stands for a lock would outlive it.
type lock struct {
	file   *flock.Flock // nil: the system has no locks
	inside bool         // it is a file in the folder
}

// lockFolder locks a folder or, where that cannot be (Windows, NFS), a file in it. Where there are no locks at all (WebAssembly) the run is
// on its own.
//
// Errors: ErrClaimed, fs.ErrNotExist if the folder went meanwhile.
func lockFolder(dir string) (*lock, error) {
	l, err := tryLock(dir, os.O_RDONLY)
	if unlockable(err) {
		l, err = lockInside(dir)
	}
	if unlockable(err) {
		return &lock{}, nil
	}
	return l, err
}

func lockInside(dir string) (*lock, error) {
	l, err := tryLock(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE)
	if err == nil {
		l.inside = true
	}
	return l, err
}

func tryLock(path string, flag int) (*lock, error) {
	l := &lock{file: flock.New(path, flock.SetFlag(flag))}
	got, err := l.file.TryLock()
	switch {
	case err != nil:
		return nil, err
	case !got:
		return nil, ErrClaimed
	case !l.holds(path): // it was removed between opening and locking
		l.release()
		return nil, fs.ErrNotExist
	}
	return l, nil
}

// unlockable tells whether an error is that what was opened cannot be locked. A folder cannot be opened for writing, as NFS asks for.
func unlockable(err error) bool {
	_, fromLocking := err.(syscall.Errno) // those from opening name a path
	return fromLocking || errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EISDIR)
}

// holds tells whether a path still names what is locked.
func (l *lock) holds(path string) bool {
	if l.file == nil {
		return true
	}
	if l.inside {
		path = l.file.Path()
	}
	locked, err := l.file.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(path)
	return err == nil && os.SameFile(locked, named)
}

// release unlocks. A lock's file is removed while nobody else can have it: elsewhere it is still locked, Windows removes no file that is open.
func (l *lock) release() {
	if l == nil || l.file == nil {
		return
	}
	if l.inside && runtime.GOOS != "windows" {
		_ = os.Remove(l.file.Path()) // one that stays is locked by nobody
	}
	_ = l.file.Close()
	if l.inside && runtime.GOOS == "windows" {
		_ = os.Remove(l.file.Path())
	}
	l.file = nil
}
