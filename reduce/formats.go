package reduce

import (
	"errors"
	"fmt"
	"strings"

	"firstbit/lowp"
)

// Formats are those in which partial sums are added, stored and sent. The zero values of Store and Wire are fp32, which is
// as wide as any accumulate format, and so round nothing.
//
// Acc is that of the accumulator: what every addition is rounded to, and every leaf as it enters. A sum over ranks may have one of fp64,
// whose result alone is rounded, once: what a switch that adds wider than its messages does.
//
// Store is that of the workspace: the sum of a part (a slice of splitk, a block, a lane, a segment) is rounded to it when the part is
// done, before parts are joined.
//
// Wire is that of messages: of two partial sums that meet, one comes from elsewhere and is rounded to it, and the
// other is still in its register. A running sum comes to the leaf that it meets, as in a ring; a sum at the right comes to the one
// at the left; of a symmetric kernel, the others' leaves come to the owner's sum, and a kid of nccltree comes to its parent. To a
// node of an adder for many, all come. The result is not sent by the sum itself.
type Formats struct{ Acc, Store, Wire lowp.Format }

// uniform tells whether partial sums are rounded to Acc alone.
func (f Formats) uniform() bool { return f.Store == lowp.FP32 && f.Wire == lowp.FP32 }

// String is what a plan writes after the order: fp32, fp32~bf16, fp32@bf16, fp32~bf16@bf16.
func (f Formats) String() string {
	s := f.Acc.String()
	if f.Store != lowp.FP32 {
		s += "~" + f.Store.String()
	}
	if f.Wire != lowp.FP32 {
		s += "@" + f.Wire.String()
	}
	return s
}

// parseFormats reads what String writes.
func parseFormats(s string) (f Formats, err error) {
	s, wire, sent := strings.Cut(s, "@")
	acc, store, stored := strings.Cut(s, "~")
	if f.Acc, err = parseFormat(accumulate, acc); err == nil && stored {
		f.Store, err = parseFormat("stored", store)
	}
	if err == nil && sent {
		f.Wire, err = parseFormat("sent", wire)
	}
	return f, err
}

const accumulate = "accumulate"

func parseFormat(what, s string) (lowp.Format, error) {
	f, err := lowp.Parse(s)
	wide := f == lowp.FP64 && what == accumulate
	if err == nil && (!f.Float() || f == lowp.FP64) && !wide {
		err = errors.New("must be fp32, bf16 or fp16")
	}
	if err != nil {
		return f, fmt.Errorf("%s format %.40q: %w", what, s, err)
	}
	return f, nil
}
