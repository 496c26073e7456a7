// Command pack compresses a file by zstd as far as it goes: pack IN OUT.
package main

import (
	"fmt"
	"os"

	"github.com/klauspost/compress/zstd"
)

// window is what a reader must have room for; fzstd allows 32 MiB.
const window = 16 << 20

func main() {
	if err := pack(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "pack:", err)
		os.Exit(2)
	}
}

func pack(in, out string) error {
	text, err := os.ReadFile(in)
	if err != nil {
		return err
	}
	w, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithWindowSize(window))
	if err != nil {
		return err
	}
	return os.WriteFile(out, w.EncodeAll(text, nil), 0o644)
}
