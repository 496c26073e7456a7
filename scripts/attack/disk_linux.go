package main

import (
	"errors"
	"fmt"
	"syscall"
)

// mountSmall puts a file system of so many bytes at a folder, which takes the right to do so.
func mountSmall(dir string, size int64) (unmount func() error, err error) {
	err = syscall.Mount("attack", dir, "tmpfs", 0, fmt.Sprintf("size=%d", size))
	if errors.Is(err, syscall.EPERM) {
		return nil, errors.ErrUnsupported
	}
	return func() error { return syscall.Unmount(dir, syscall.MNT_DETACH) }, err
}
