package main

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/cpu"

	"firstbit/trace"
)

// buildInfo is what this program was built from, and what it runs on.
type buildInfo struct {
	Version string `json:"version"`
	Commit  string `json:"commit"` // empty: built outside of a repository, or by go run
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
	AVX2    bool   `json:"avx2"` // lanes are in use; the bits are the same without
}

func build() buildInfo {
	version, commit, _ := strings.Cut(trace.Version(), " ")
	return buildInfo{version, commit, runtime.Version(), runtime.GOOS, runtime.GOARCH, cpu.X86.HasAVX2}
}

// String is one line.
func (p buildInfo) String() string {
	lanes := "no AVX2"
	if p.AVX2 {
		lanes = "AVX2"
	}
	commit := p.Commit
	if commit == "" {
		commit = "unknown"
	}
	return fmt.Sprintf("firstbit %s, commit %s, %s, %s/%s, %s", p.Version, commit, p.Go, p.OS, p.Arch, lanes)
}

func versionCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:     "version",
		Short:   "What this program was built from, and what it runs on",
		Example: "  firstbit version\n  firstbit version --json",
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if asJSON {
			return printJSON(c.OutOrStdout(), build())
		}
		_, err := fmt.Fprintln(c.OutOrStdout(), build())
		return err
	}
	return c
}
