package machine

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMemory(t *testing.T) {
	const meminfo = "MemTotal: 16000 kB\nMemFree: 10 kB\nMemAvailable: 8000 kB\nSwapTotal: 90 kB\nSwapFree: 24 kB\n"
	for name, tt := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"no group":         {map[string]string{}, 8024 << 10},
		"no limit":         {map[string]string{"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "max\n", "sys/fs/cgroup/a/memory.current": "5\n"}, 8024 << 10},
		"version 2":        {map[string]string{"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "1000\n", "sys/fs/cgroup/a/b/memory.current": "700\n", "sys/fs/cgroup/a/b/memory.stat": "anon 1\ninactive_file 50\n"}, 350},
		"around":           {map[string]string{"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/memory.max": "900\n", "sys/fs/cgroup/a/memory.current": "800\n"}, 100},
		"version 1":        {map[string]string{"proc/self/cgroup": "3:cpu:/x\n8:memory:/a\n0::/\n", "sys/fs/cgroup/memory/a/memory.limit_in_bytes": "1000\n", "sys/fs/cgroup/memory/a/memory.usage_in_bytes": "900\n", "sys/fs/cgroup/memory/a/memory.stat": "total_inactive_file 7\n"}, 107},
		"unlimited":        {map[string]string{"proc/self/cgroup": "8:memory:/a\n", "sys/fs/cgroup/memory/a/memory.limit_in_bytes": "9223372036854771712\n", "sys/fs/cgroup/memory/a/memory.usage_in_bytes": "900\n"}, 8024 << 10},
		"full":             {map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "1000\n", "sys/fs/cgroup/memory.current": "1700\n"}, 0},
		"address space":    {map[string]string{"proc/self/limits": "Max file size  1  2  bytes\nMax address space         9000                 unlimited            bytes\n", "proc/self/status": "VmPeak: 9 kB\nVmSize:\t 4 kB\n"}, 9000 - 4<<10},
		"no address limit": {map[string]string{"proc/self/limits": "Max address space         unlimited            unlimited            bytes\n", "proc/self/status": "VmSize: 4 kB\n"}, 8024 << 10},
		"another's folder": {map[string]string{"proc/self/cgroup": "0::/../../x\nnonsense\n", "sys/fs/cgroup/memory.max": "1000\n", "sys/fs/cgroup/memory.current": "1\n"}, 999},
	} {
		root := t.TempDir()
		tt.files["proc/meminfo"] = meminfo
		for path, text := range tt.files {
			require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(root, path)), 0o777))
			require.NoError(t, os.WriteFile(filepath.Join(root, path), []byte(text), 0o666))
		}
		got, known := memory(root)
		require.True(t, known, name)
		require.Equal(t, tt.want, got, name)
	}
	_, known := memory(t.TempDir())
	require.False(t, known)
	if runtime.GOOS == "linux" {
		n, known := Memory()
		require.True(t, known)
		require.Positive(t, n)
	}
}
