package files

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// Fill fills the claimed folder, which must be empty, with all that write writes into another, or with nothing. What is written but cannot
// be put in its place stays under its temporary name, which the error says.
func (f *Folder) Fill(write func(dir string) error) error {
	made := slices.Contains(f.made, filepath.Clean(f.Dir))
	parent := f.Dir
	if made { // its name is ours to give; one that was there may be a mount, or where somebody stands
		parent = filepath.Dir(filepath.Clean(f.Dir))
	}
	stage, err := os.MkdirTemp(parent, temporary)
	if err != nil {
		return Reason(err)
	}
	if err := write(stage); err != nil {
		_ = os.RemoveAll(stage) // the first error tells
		return err
	}
	if made {
		err = f.replace(stage)
	} else {
		err = f.moveUp(stage)
	}
	if err != nil {
		return fmt.Errorf("%w: what was written stays in %s", Reason(err), stage)
	}
	return nil
}

// replace gives another folder the name of the claimed one, which is empty.
func (f *Folder) replace(stage string) error {
	info, err := os.Stat(f.Dir)
	if err != nil {
		return err
	}
	if err := os.Chmod(stage, info.Mode().Perm()); err != nil {
		return err
	}
	if f.lock.inside { // it is in the way
		f.lock.release()
	}
	if err := removeFolder(f.Dir); err != nil { // a folder cannot be renamed over another
		return err
	}
	return os.Rename(stage, f.Dir)
}

// moveUp moves what a folder in the claimed one holds up into it, all or nothing, and over nothing.
func (f *Folder) moveUp(stage string) error {
	names, err := f.Names()
	if err == nil && len(names) != 1 {
		err = errors.New("is no longer empty")
	}
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(stage)
	if err != nil {
		return err
	}
	for i, e := range entries {
		if err := os.Rename(filepath.Join(stage, e.Name()), filepath.Join(f.Dir, e.Name())); err != nil {
			for _, e := range entries[:i] {
				_ = os.Rename(filepath.Join(f.Dir, e.Name()), filepath.Join(stage, e.Name())) // the first error tells
			}
			return err
		}
	}
	return os.Remove(stage)
}

// Write writes a file at once: whoever reads it finds it as it was or as it is now, even if this process is killed.
func Write(path string, b []byte) error {
	f, err := os.OpenFile(filepath.Join(filepath.Dir(path), temporary+filepath.Base(path)), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return Reason(err)
	}
	_, err = f.Write(b)
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the first error tells
	}
	return Reason(err)
}
