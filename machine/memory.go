// Package machine says what the machine has to spare.
package machine

import (
	"math"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"firstbit/files"
)

// Memory is how many bytes a new allocation may take before the system, or the container that the process runs in, is out of
// memory; false: not known, as anywhere but on Linux.
func Memory() (available int64, known bool) { return memory("/") }

// memory is Memory of the system whose files lie under root.
//
// Source: Linux, Documentation/filesystems/proc.rst; admin-guide/cgroup-v1/memory.rst; admin-guide/cgroup-v2.rst.
func memory(root string) (available int64, known bool) {
	info := numbers(filepath.Join(root, "proc/meminfo"))
	if available, known = info["MemAvailable:"]; !known {
		return 0, false
	}
	available = (available + info["SwapFree:"]) << 10 // KiB
	for line := range strings.Lines(text(filepath.Join(root, "proc/self/cgroup"))) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) < 3 {
			continue
		}
		switch at := path.Clean("/" + parts[2]); {
		case parts[1] == "":
			available = min(available, left(filepath.Join(root, "sys/fs/cgroup"), at, "memory.max", "memory.current", "inactive_file"))
		case parts[1] == "memory":
			available = min(available, left(filepath.Join(root, "sys/fs/cgroup/memory"), at, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"))
		}
	}
	return max(min(available, address(root)), 0), true
}

// address is how many bytes of addresses a limit on the process, as ulimit -v sets it, leaves it.
func address(root string) int64 {
	for line := range strings.Lines(text(filepath.Join(root, "proc/self/limits"))) {
		if rest, ok := strings.CutPrefix(line, "Max address space"); ok {
			soft, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
			if most, err := strconv.ParseInt(soft, 10, 64); err == nil { // "unlimited" is none
				return most - numbers(filepath.Join(root, "proc/self/status"))["VmSize:"]<<10
			}
		}
	}
	return math.MaxInt64
}

// left is the least that a control group and those around it have left. What they hold of files is given up for new allocations.
func left(mount, at, limit, usage, inactive string) int64 {
	least := int64(math.MaxInt64)
	for {
		dir := filepath.Join(mount, at)
		most, err := strconv.ParseInt(strings.TrimSpace(text(filepath.Join(dir, limit))), 10, 64)
		used, err2 := strconv.ParseInt(strings.TrimSpace(text(filepath.Join(dir, usage))), 10, 64)
		if err == nil && err2 == nil { // "max" is none
			least = min(least, most-used+numbers(filepath.Join(dir, "memory.stat"))[inactive])
		}
		if at == "/" {
			return least
		}
		at = path.Dir(at)
	}
}

// numbers reads lines of a name and a number.
func numbers(name string) map[string]int64 {
	all := map[string]int64{}
	for line := range strings.Lines(text(name)) {
		if f := strings.Fields(line); len(f) > 1 {
			if n, err := strconv.ParseInt(f[1], 10, 64); err == nil {
				all[f[0]] = n
			}
		}
	}
	return all
}

// text is a file's, or nothing where there is none.
func text(name string) string {
	b, err := files.Read(name, 1<<20)
	if err != nil {
		return ""
	}
	return string(b)
}
