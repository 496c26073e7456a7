package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/pkg/profile"

	"firstbit/spell"
)

// profiles are the kinds of profile, and the files that pkg/profile writes them into.
var profiles = []struct {
	kind, file string
	mode       func(*profile.Profile)
}{{"cpu", "cpu.pprof", profile.CPUProfile}, {"mem", "mem.pprof", profile.MemProfile}, {"trace", "trace.out", profile.TraceProfile}}

func profileKinds() (kinds []string) {
	for _, p := range profiles {
		kinds = append(kinds, p.kind)
	}
	return kinds
}

// startProfile begins a profile in the current directory; stop ends it.
func startProfile(kind string) (stop func(), err error) {
	if kind == "" {
		return func() {}, nil
	}
	for _, p := range profiles {
		if p.kind != kind {
			continue
		}
		f, err := os.OpenFile(p.file, os.O_WRONLY|os.O_CREATE, 0o666) // pkg/profile ends the program where it cannot
		if err != nil {
			if at := (*fs.PathError)(nil); errors.As(err, &at) {
				err = at.Err
			}
			return nil, fmt.Errorf("--profile %s: %s cannot be written into the current directory: %w", kind, p.file, err)
		}
		if err := f.Close(); err != nil {
			return nil, fmt.Errorf("--profile %s: %w", kind, err)
		}
		return profile.Start(p.mode, profile.ProfilePath("."), profile.Quiet, profile.NoShutdownHook).Stop, nil
	}
	return nil, fmt.Errorf("--profile %q: %s", kind, spell.OneOf(kind, profileKinds()))
}
