//go:build unix

package files

import "syscall"

// nonblock lets a pipe be opened, and refused, though nobody writes to it.
const nonblock = syscall.O_NONBLOCK
