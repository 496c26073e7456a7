package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// Folder is a folder that this run writes into and no other does. The claim ends with the process, however that ends.
type Folder struct {
	Dir string

	made []string // the folders that had to be made, the innermost first
	lock *lock
}

// ErrClaimed is that another run has claimed a folder.
var ErrClaimed = errors.New("a run writes there already: name another folder")

// Claim claims a folder, and makes it first where there is none.
//
// Errors: one line that does not name the folder, with ErrClaimed where another has it.
func Claim(dir string) (*Folder, error) {
	f := &Folder{Dir: dir}
	if err := f.claim(); err != nil {
		f.Release()
		return nil, Reason(err)
	}
	return f, nil
}

// ClaimEmpty claims a folder that is new or empty.
func ClaimEmpty(dir string) (*Folder, error) {
	f, err := Claim(dir)
	if err != nil {
		return nil, err
	}
	if err = f.Probe(); err == nil {
		err = f.empty()
	}
	if err != nil {
		f.Release()
		return nil, err
	}
	return f, nil
}

func (f *Folder) empty() error {
	names, err := f.Names()
	if err == nil && len(names) > 0 {
		err = errors.New("is not empty: name a new folder")
	}
	return err
}

// claim tries again when the folder goes meanwhile: a run that fails removes what it made.
func (f *Folder) claim() (err error) {
	const tries = 100 // more often than runs fail at once; a link to nowhere fails every time
	for range tries {
		var made []string
		made, err = makeAll(f.Dir)
		f.made = append(made, f.made...)
		if err == nil {
			f.lock, err = lockFolder(f.Dir)
		}
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return err
}

// makeAll makes a folder and those above it. It returns the ones that it made, the innermost first.
func makeAll(dir string) (made []string, err error) {
	var missing []string
	at := filepath.Clean(dir)
	info, err := os.Stat(at)
	for ; errors.Is(err, fs.ErrNotExist) && at != filepath.Dir(at); info, err = os.Stat(at) {
		missing = append(missing, at)
		at = filepath.Dir(at)
	}
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%s is a file: must be a folder", at)
	}
	for _, at := range slices.Backward(missing) {
		err := os.Mkdir(at, 0o777)
		if errors.Is(err, fs.ErrExist) { // another was faster, and it is theirs
			continue
		}
		if err != nil {
			return made, err
		}
		made = slices.Insert(made, 0, at)
	}
	return made, nil
}

// Hold claims the folder anew if it was removed or replaced since.
func (f *Folder) Hold() error {
	if f.lock != nil && f.lock.holds(f.Dir) {
		return nil
	}
	f.lock.release()
	f.lock = nil
	return Reason(f.claim())
}

// Names are the names in the folder.
func (f *Folder) Names() ([]string, error) {
	entries, err := os.ReadDir(f.Dir)
	if err != nil {
		return nil, Reason(err)
	}
	var names []string
	for _, e := range entries {
		if e.Name() != lockName {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// What is written begins under a name of temporary, until it is whole. The probe's is fixed, so that the next run removes what a killed one left.
const (
	temporary = ".firstbit-"
	probe     = temporary + "probe"
)

// Probe reports why nothing can be written into the folder; nil: it can.
func (f *Folder) Probe() error {
	at := filepath.Join(f.Dir, probe)
	err := os.Mkdir(at, 0o777)
	if err == nil || errors.Is(err, fs.ErrExist) {
		err = removeFolder(at)
	}
	return Reason(err)
}

// Release ends the claim. The folders that it made go, if nothing is in them and no other run has claimed them since.
func (f *Folder) Release() {
	if f == nil {
		return
	}
	f.lock.release()
	for _, at := range f.made {
		if err := unmake(at); err != nil {
			break
		}
	}
	f.made = nil
}

func unmake(at string) error {
	l, err := lockFolder(at)
	if err != nil {
		return err
	}
	defer l.release()
	if l.inside { // it is in the way
		l.release()
	}
	return removeFolder(at)
}

// removeFolder removes an empty folder and nothing else, whatever has its name by now.
func removeFolder(at string) error {
	info, err := os.Lstat(at)
	if err == nil && !info.IsDir() {
		err = errors.New("is no folder any more")
	}
	if err != nil {
		return err
	}
	return os.Remove(at)
}
