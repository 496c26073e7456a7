package trace

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"

	"github.com/zeebo/xxh3"
)

// End is the last record of a file. It says whose the file is and where it belongs, so that no other passes for it, and hashes what stands
// before it, so that no change goes unseen.
type End struct {
	Kind      string `json:"kind"` // end
	Rank      int    `json:"rank"`
	Iteration *int   `json:"iteration"` // null in a file of all iterations
	Records   int    `json:"records"`
	Digest    string `json:"digest"`   // XXH3-128, seed 0, of the bytes of the file before this line
	Previous  string `json:"previous"` // the digest of the rank's file before this one; empty: there is none
}

// File writes the records of one rank in one iteration.
type File struct {
	end  End
	w    io.Writer
	hash *xxh3.Hasher
	enc  *json.Encoder
}

// NewFile begins a file; previous is the digest of the rank's file before it.
func NewFile(w io.Writer, rank, iteration int, previous string) *File {
	f := &File{end: End{Kind: "end", Rank: rank, Iteration: &iteration, Previous: previous}, w: w, hash: xxh3.New()}
	f.enc = json.NewEncoder(io.MultiWriter(w, f.hash))
	f.enc.SetEscapeHTML(false)
	return f
}

// Write adds a record.
func (f *File) Write(r *Record) error {
	f.end.Records++
	return f.enc.Encode(r)
}

// End writes the end record and returns the file's digest.
func (f *File) End() (digest string, err error) {
	f.end.Digest = hexOf(f.hash)
	text, err := json.Marshal(f.end)
	if err == nil {
		_, err = f.w.Write(append(text, '\n'))
	}
	return f.end.Digest, err
}

func hexOf(h *xxh3.Hasher) string {
	sum := h.Sum128().Bytes()
	return hex.EncodeToString(sum[:])
}

// FileName is the trace file of a rank and iteration.
func FileName(rank, iteration int) string {
	return fmt.Sprintf("rank%05d_iter%06d.jsonl", rank, iteration)
}
