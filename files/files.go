// Package files is how a run treats a disk that others use too. It opens for reading what a user names: regular files of bounded size, and
// nothing else. A pipe or a device may never end, and a file may be larger than memory, sparse ones at no cost to whoever made them. The folders
// that it writes it claims, so that no other run writes there, and whatever others put there stays.
package files

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// Open opens a regular file of at most most bytes, through links. It opens nothing else, as opening may block, or act on a device.
//
// Errors: an fs.PathError, one line that names the file, what it is or how many bytes it has, and how many it may have.
func Open(path string, most int64) (*os.File, error) {
	info, err := os.Stat(path)
	if err == nil {
		err = check(info, most)
	}
	if err != nil {
		return nil, named(path, err)
	}
	return openRegular(path, most)
}

// openRegular opens without waiting and looks again: another file may have taken the name.
func openRegular(path string, most int64) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, named(path, err)
	}
	info, err := f.Stat()
	if err == nil {
		err = check(info, most)
	}
	if err != nil {
		f.Close()
		return nil, named(path, err)
	}
	return f, nil
}

// Read reads such a file whole.
func Read(path string, most int64) ([]byte, error) {
	f, err := Open(path, most)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, named(path, err)
	}
	b := make([]byte, min(info.Size(), most))
	n, err := io.ReadFull(f, b)
	if err == nil { // a size may be out of date, and is 0 for files that the kernel makes up
		b, err = rest(f, b, most)
		n = len(b)
	}
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, named(path, err)
	}
	return b[:n], nil
}

// rest appends what a file still holds.
func rest(f io.Reader, b []byte, most int64) ([]byte, error) {
	more, err := io.ReadAll(io.LimitReader(f, most-int64(len(b))+1))
	if b = append(b, more...); err == nil && int64(len(b)) > most {
		return nil, tooLarge(int64(len(b)), most)
	}
	return b, err
}

func check(info fs.FileInfo, most int64) error {
	switch {
	case !info.Mode().IsRegular():
		return fmt.Errorf("is a %s: must be a regular file", kindOf(info.Mode()))
	case info.Size() > most:
		return tooLarge(info.Size(), most)
	}
	return nil
}

func tooLarge(is, most int64) error { return fmt.Errorf("%d bytes: must be at most %d", is, most) }

func kindOf(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "folder"
	case m&fs.ModeNamedPipe != 0:
		return "pipe"
	}
	return "device or socket"
}

func named(path string, err error) error {
	return &fs.PathError{Op: "read", Path: path, Err: Reason(err)}
}

// Reason is what went wrong with a file, for a message that names the file itself.
func Reason(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	var l *os.LinkError // of a renaming
	if errors.As(err, &l) {
		return l.Err
	}
	return err
}
