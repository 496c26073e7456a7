//go:build unix

package files

import (
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A pipe that nobody writes to is refused at once, also where it takes the name after the first look.
func TestPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	done := make(chan error, 1)
	go func() {
		f, err := openRegular(pipe, 1)
		if err == nil {
			f.Close()
		}
		done <- err
	}()
	select {
	case err := <-done:
		require.EqualError(t, err, "read "+pipe+": is a pipe: must be a regular file")
	case <-time.After(10 * time.Second):
		t.Fatal("blocks")
	}
	_, err := Read(pipe, 1)
	require.EqualError(t, err, "read "+pipe+": is a pipe: must be a regular file")
}
