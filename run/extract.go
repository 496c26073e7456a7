package run

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"firstbit/device"
	"firstbit/files"
	"firstbit/lowp"
	"firstbit/trace"
	"firstbit/train"
)

// Site is where a Call runs.
type Site struct {
	Path  string `json:"path"`
	Phase string `json:"phase"`
	Step  int    `json:"step"`
	Micro int    `json:"micro"`
}

// Extracted is one Call of a run on the ranks that have it: what it read, the plan it ran by, and the bits it wrote. Together with the
// configuration, which says what the Call computes, it runs by itself.
type Extracted struct {
	Version  string          `json:"firstbit"`
	Config   train.Config    `json:"config"`
	Layout   string          `json:"layout"`
	Schedule string          `json:"schedule"`
	Recipe   string          `json:"recipe"`
	Plans    []string        `json:"plans"`
	Faults   []string        `json:"faults"` // of the run it was taken from; the reproduction has none
	Site     Site            `json:"site"`
	Kernel   string          `json:"kernel"`
	Ranks    []ExtractedCall `json:"ranks"`
}

// ExtractedCall is a rank's.
type ExtractedCall struct {
	Rank    int               `json:"rank"`
	Plan    string            `json:"plan"`
	Scalars []device.Scalar   `json:"scalars"`
	In      []ExtractedTensor `json:"in"`
	Out     []ExtractedTensor `json:"out"`
}

// ExtractedTensor is a tensor's elements: float32 for every float format up to 32 bits, float64 for fp64, int32 for int32, little-endian.
type ExtractedTensor struct {
	Name   string `json:"name"`
	Dtype  string `json:"dtype"`
	Shape  []int  `json:"shape"`
	Data   []byte `json:"data"`
	Update string `json:"update,omitempty"` // of an output: the input that it is too, updated in place
}

func extracted(a device.Arg) ExtractedTensor {
	x := ExtractedTensor{Name: a.Name, Dtype: a.Format.String(), Shape: slices.Clone(a.Shape()), Data: []byte{}}
	for _, v := range a.F32() {
		x.Data = binary.LittleEndian.AppendUint32(x.Data, lowp.FP32.Encode(v))
	}
	for _, v := range a.F64() {
		x.Data = binary.LittleEndian.AppendUint64(x.Data, lowp.Bits(v))
	}
	for _, v := range a.I32() {
		x.Data = binary.LittleEndian.AppendUint32(x.Data, uint32(v))
	}
	return x
}

// Tensor is the extracted one again.
func (x *ExtractedTensor) Tensor() (*device.Tensor, error) {
	f, err := lowp.Parse(x.Dtype)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", x.Name, err)
	}
	n, width := 1, 4
	for _, d := range x.Shape {
		if d < 0 || d > math.MaxInt32 {
			return nil, fmt.Errorf("%s: shape %v: must have no such extent", x.Name, x.Shape)
		}
		n = min(n*d, math.MaxInt32)
	}
	if f == lowp.FP64 {
		width = 8
	}
	if len(x.Data) != n*width {
		return nil, fmt.Errorf("%s: has %d bytes: must be %d, those of shape %v", x.Name, len(x.Data), n*width, x.Shape)
	}
	t := device.NewTensor(f, x.Shape...)
	for i := range t.F32() {
		t.F32()[i] = math.Float32frombits(binary.LittleEndian.Uint32(x.Data[4*i:]))
	}
	for i := range t.F64() {
		t.F64()[i] = math.Float64frombits(binary.LittleEndian.Uint64(x.Data[8*i:]))
	}
	for i := range t.I32() {
		t.I32()[i] = int32(binary.LittleEndian.Uint32(x.Data[4*i:]))
	}
	return t, nil
}

// among refuses steps, microbatches and ranks that a run has not.
func (at Site) among(s Spec, rank int) error {
	switch n := s.Layout.World(); {
	case at.Step < 1 || at.Step > s.Config.Steps:
		return fmt.Errorf("step %d: must be from 1 to %d, the steps of the run", at.Step, s.Config.Steps)
	case at.Micro < 0 || at.Micro >= s.Config.Micro:
		return fmt.Errorf("microbatch %d: must be from 0 to %d, those of a step", at.Micro, s.Config.Micro-1)
	case rank < 0 || rank >= n:
		return fmt.Errorf("rank %d: must be from 0 to %d, those of layout %q", rank, n-1, s.Layout)
	}
	return nil
}

// Extract runs a Spec up to the step of a site and returns what the Call there read and wrote: of one rank, or, of a collective or a message,
// of all that have it.
func Extract(s Spec, at Site, rank int) (*Extracted, error) {
	if err := at.among(s, rank); err != nil {
		return nil, err
	}
	x := &Extracted{Version: trace.Version(), Config: s.Config, Layout: s.Layout.String(), Schedule: s.Schedule.String(), Recipe: s.Recipe,
		Plans: append([]string{}, s.Plans...), Faults: append([]string{}, s.Faults...), Site: at}
	var mu sync.Mutex
	there := map[string]bool{} // names of Calls
	var on []int               // ranks that have the Call
	s.Until = at.Step
	s.Watch = func(r int) device.Middleware {
		return func(next device.Runner) device.Runner {
			return func(c *device.Call) {
				if c.Kind == device.Module || c.ID.Step != at.Step || c.ID.Micro != at.Micro || c.ID.Phase.String() != at.Phase {
					next(c)
					return
				}
				shared := c.Kind == device.Collective || c.Kind == device.P2P
				mu.Lock()
				there[c.ID.Path] = true
				if c.ID.Path == at.Path {
					on = append(on, r)
				}
				mu.Unlock()
				if c.ID.Path != at.Path || r != rank && !shared {
					next(c)
					return
				}
				call := ExtractedCall{Rank: r, Scalars: slices.Clone(c.Scalars)}
				for _, a := range c.In {
					call.In = append(call.In, extracted(a))
				}
				next(c)
				call.Plan = c.Plan.String()
				for _, a := range c.Out {
					out := extracted(a)
					for _, in := range c.In {
						if in.Tensor == a.Tensor {
							out.Update = in.Name
						}
					}
					call.Out = append(call.Out, out)
				}
				mu.Lock()
				x.Kernel = c.Kernel.Name
				x.Ranks = append(x.Ranks, call)
				mu.Unlock()
			}
		}
	}
	j := &job{Spec: &s}
	o, err := j.run()
	if err == nil {
		err = o.Missed
	}
	if err != nil {
		return nil, err
	}
	if len(x.Ranks) == 0 && len(on) > 0 {
		return nil, fmt.Errorf("%s: rank %d has no such Call: must be rank %d", at.Path, rank, slices.Min(on))
	}
	if len(x.Ranks) == 0 {
		return nil, fmt.Errorf("%s: in %s of step %d, microbatch %d, on rank %d: %s", at.Path, at.Phase, at.Step, at.Micro, rank, nearest("Call", at.Path, there))
	}
	slices.SortFunc(x.Ranks, func(a, b ExtractedCall) int { return a.Rank - b.Rank })
	return x, nil
}

// most bytes that an extracted Call may have.
const mostExtracted = 1 << 30

// Write writes a file that ReadExtracted reads.
func (x *Extracted) Write(path string) error {
	text, err := json.MarshalIndent(x, "", " ")
	if err != nil {
		return err
	}
	return files.Write(path, append(text, '\n'))
}

// ReadExtracted reads what Write wrote.
func ReadExtracted(path string) (*Extracted, error) {
	text, err := files.Read(path, mostExtracted)
	if err != nil {
		return nil, err
	}
	x, err := decodeExtracted(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return x, nil
}

func decodeExtracted(text []byte) (*Extracted, error) {
	var x Extracted
	if err := files.JSON(text, &x, false); err != nil {
		return nil, err
	}
	if len(x.Ranks) == 0 {
		return nil, errors.New("ranks: none: must be those that have the Call")
	}
	return &x, nil
}
