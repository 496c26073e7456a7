package verify

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/zeebo/xxh3"

	"firstbit/device"
	"firstbit/parallel"
	"firstbit/run"
	"firstbit/train"
)

// shaken are runs whose first step has, together, every kernel of the library. One of them is large enough for products to be shared by threads.
var shaken = []struct{ preset, layout, recipe, set string }{
	{"small", "dp=1", "fixed", "batch=2"},
	{"tiny", "dp=1", "fixed", "model.dropout=0.1 model.recompute=true model.mtp.depths=2 model.moe.jitter=0.05 model.moe.latent=16 model.moe.groups=4 model.moe.groups_kept=2 model.moe.top_k=4 model.moe.aux=sequence micro=2 batch=2"},
	{"tiny", "dp=2,tp=2", "canonical", "model.moe.aux=sequence model.dropout=0.1 batch=1 seq=16"},
	{"tiny", "tp=2,cp=2", "fixed", "model.moe.router=softmax batch=1 precision=bf16"},
	{"tiny", "tp=2,ep=2,etp=2,dp=2", "fixed", "model.moe.router=softmax_topk batch=1 seq=16"},
	{"tiny", "pp=2,dp=2", "fixed", "micro=2 batch=1 seq=16 cluster.overlap=true optim.replicated=true"},
	{"pico", "dp=2", "fixed", "precision=fp16 streams=indexed model.dropout=0.1"},
	{"pico", "dp=1", "fixed", "precision=fp8 quant.scaling=delayed"},
	{"pico", "dp=2", "fixed", "precision=fp8"},
	{"pico", "dp=1", "fixed", "precision=mxfp8"},
	{"pico", "dp=1", "fixed", "precision=nvfp4 model.moe.latent=16"},
	{"pico", "dp=2,ep=2", "canonical", "precision=fp8 micro=2 model.moe.aux=sequence"},
	{"pico", "dp=2", "canonical", "precision=mxfp8 seq=32 model.moe.aux=sequence"},
	{"pico", "dp=2", "canonical", "precision=nvfp4 model.moe.aux=sequence"},
	{"pico", "dp=1", "fixed", "precision=nvfp4 streams=indexed"},
	{"pico", "dp=1", "fixed", "documents.reset_attention_mask=true documents.eod_mask_loss=true"},
	{"pico", "dp=1", "fixed", "model.moe.unfused=true"},
	{"pico", "dp=1", "fixed", "calculate_per_token_loss=true documents.reset_attention_mask=true documents.eod_mask_loss=true micro=2"},
}

// trials are how a Call is run again: by so many threads, with operands that lie so many elements further, under another schedule.
var trials = []struct{ threads, offset int }{{1, 1}, {2, 3}, {3, 6}}

// control is a kernel whose plan has it add by arrival, and the path of its Calls: a tier that does not find it finds nothing.
const (
	control     = "matmul.wgrad"
	controlPlan = "*.wk.dw k:splitk(4,arrival)"
)

// shaker runs every Call again, and keeps what each kernel wrote.
type shaker struct {
	mu      sync.Mutex
	kernels map[string]*kernelCell
	spoil   func(c *device.Call, trial int) // for tests: a fault in a Call that is run again
}

type kernelCell struct {
	lo, hi uint64 // the sum of the digests of its Calls, which come in no order
	why    string
	first  string // the Call of why
}

// KernelCells is how many runs Kernels makes.
func KernelCells() int { return len(shaken) + 1 }

// Kernels runs each kernel of the library on fixed inputs under other schedules, by other numbers of threads and with operands that lie elsewhere
// in memory. A cell is ok if all its Calls, forward and backward, wrote the same bytes. The last is a kernel that adds by arrival, and ok if it did
// not. step is called after every run.
func Kernels(each func(Cell) error, step func()) ([]Cell, error) {
	return kernelsOf(&shaker{}, each, step)
}

func kernelsOf(s *shaker, each func(Cell) error, step func()) (cells []Cell, err error) {
	threads := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(threads)
	s.kernels = map[string]*kernelCell{}
	for i, x := range shaken {
		spec, err := shakenSpec(x.preset, x.layout, x.recipe, x.set)
		if err == nil {
			err = s.shake(spec, i)
		}
		if err != nil {
			return nil, fmt.Errorf("%s %s %s: %w", x.preset, x.layout, x.set, err)
		}
		step()
	}
	for name, k := range s.kernels { // sorted below
		cells = append(cells, k.cell(name))
	}
	slices.SortFunc(cells, func(a, b Cell) int { return strings.Compare(a.Name, b.Name) })
	racing, err := shakenSpec("pico", "dp=1", "fixed", "")
	if err != nil {
		return nil, err
	}
	racing.Plans = []string{controlPlan}
	atomic := &shaker{kernels: map[string]*kernelCell{}}
	if err := atomic.shake(racing, len(shaken)); err != nil {
		return nil, err
	}
	step()
	cell := atomic.kernels[control].cell("control: " + control + " by arrival")
	if cell.OK {
		cell.fail("adds by arrival, and nothing was seen")
	} else {
		cell.OK, cell.Why = true, nil
	}
	cells = append(cells, cell)
	for _, c := range cells {
		if each != nil {
			if err := each(c); err != nil {
				return nil, err
			}
		}
	}
	return cells, nil
}

func (k *kernelCell) cell(name string) Cell {
	var sum [16]byte
	binary.BigEndian.PutUint64(sum[:], k.hi)
	binary.BigEndian.PutUint64(sum[8:], k.lo)
	c := Cell{Name: name, OK: true, Hash: hex.EncodeToString(sum[:])}
	if k.why != "" {
		c.fail(k.why)
	}
	return c
}

func shakenSpec(preset, layout, recipe, set string) (s run.Spec, err error) {
	if s.Config, err = train.Preset(preset); err != nil {
		return s, err
	}
	for _, field := range append(strings.Fields(set), "steps=1") {
		if err := s.Config.Set(field); err != nil {
			return s, err
		}
	}
	s.Recipe = recipe
	s.Layout, err = parallel.ParseLayout(layout)
	return s, err
}

func (s *shaker) shake(spec run.Spec, which int) error {
	spec.Watch = func(rank int) device.Middleware {
		return func(next device.Runner) device.Runner {
			return func(c *device.Call) { s.call(c, next, fmt.Sprint(which, " ", rank)) }
		}
	}
	_, err := run.Run(spec)
	return err
}

// repeatable tells whether a Call may run again where it is: what it waits for is sent once, and what only shows something has nothing to repeat.
// All members of a collective run it again.
func repeatable(c *device.Call) bool {
	return c.Kernel.Run != nil && c.ID.Phase != device.Init || c.Kind == device.Collective && c.Body != nil && !strings.HasSuffix(c.Label, ".wait")
}

// call runs a Call, and again in every trial.
func (s *shaker) call(c *device.Call, next device.Runner, run string) {
	if !repeatable(c) || c.Flags&device.AsyncPending != 0 {
		next(c)
		return
	}
	before := copies(c.Out)
	next(c)
	want := copies(c.Out)
	own := c.Reschedule(device.Schedule{})
	why := ""
	for i, t := range trials {
		runtime.GOMAXPROCS(t.threads)
		c.Reschedule(device.Schedule{Seed: uint64(1000 + i)})
		put(c.Out, before)
		back := func() {}
		if c.Kernel.Run != nil && c.Whole == nil {
			back = displace(c, t.offset)
		}
		next(c)
		if s.spoil != nil {
			s.spoil(c, i)
		}
		if d := unlike(want, c.Out); d != "" && why == "" {
			why = fmt.Sprintf("%s %s on %d threads, operands %d elements further: %s", c.ID.Phase, c.ID.Path, t.threads, t.offset, d)
		}
		back()
	}
	put(c.Out, want)
	c.Reschedule(own)
	s.keep(c, want, run, why)
}

// keep adds what a Call wrote to its kernel's. Of several Calls that differ the first by name is told of.
func (s *shaker) keep(c *device.Call, wrote []*device.Tensor, run, why string) {
	h := xxh3.New()
	_, _ = fmt.Fprintln(h, run, c.ID.Phase, c.ID.Path, c.ID.Micro) // a hash does not fail
	for _, t := range wrote {
		digest := t.Digest(nil)
		_, _ = h.Write(digest[:])
	}
	sum := h.Sum128()
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.kernels[c.Kernel.Name]
	if k == nil {
		k = &kernelCell{}
		s.kernels[c.Kernel.Name] = k
	}
	k.lo, k.hi = k.lo+sum.Lo, k.hi+sum.Hi
	if at := run + c.ID.Path; why != "" && (k.why == "" || at < k.first) {
		k.why, k.first = why, at
	}
}

func copies(args []device.Arg) (all []*device.Tensor) {
	for _, a := range args {
		t := device.NewTensor(a.Format, a.Shape()...)
		t.CopyAt(0, a.Tensor)
		all = append(all, t)
	}
	return all
}

func put(args []device.Arg, values []*device.Tensor) {
	for i, t := range values {
		args[i].CopyAt(0, t)
	}
}

// displace has a Call read and write copies of its tensors that lie so many elements into their memory, those it writes full of NaN. What it updates
// in place stays where it is.
func displace(c *device.Call, offset int) (back func()) {
	in, out := slices.Clone(c.In), slices.Clone(c.Out)
	for i, a := range in {
		if !overlaps(a, out) {
			c.In[i].Tensor = at(a.Tensor, offset)
		}
	}
	for i, a := range out {
		if !overlaps(a, in) && !overlaps(a, slices.Delete(slices.Clone(out), i, i+1)) && a.I32() == nil {
			c.Out[i].Tensor = at(a.Tensor, offset)
			for e := range a.Len() {
				c.Out[i].Set(e, math.NaN())
			}
		}
	}
	return func() {
		copy(c.In, in)
		copy(c.Out, out)
	}
}

func overlaps(a device.Arg, with []device.Arg) bool {
	lo, hi := a.Span()
	return slices.ContainsFunc(with, func(b device.Arg) bool {
		l, h := b.Span()
		return lo < h && l < hi
	})
}

// at is a copy of a tensor whose first element is so many elements into its memory.
func at(t *device.Tensor, offset int) *device.Tensor {
	moved := device.NewTensor(t.Format, t.Shape()...)
	moved.Alias(device.NewTensor(t.Format, t.Len()+offset).View(offset, offset+t.Len()))
	moved.CopyAt(0, t)
	moved.From = t.From
	return moved
}

// unlike says which element of what was written has other bits; empty: none.
func unlike(want []*device.Tensor, got []device.Arg) string {
	for i, t := range want {
		x := got[i]
		if t.Digest(nil) == x.Digest(nil) {
			continue
		}
		for e := range t.Len() {
			if t.Bits(e) != x.Bits(e) {
				return fmt.Sprintf("%s[%d] is %s, and %s before", x.Name, e, x.Bits(e), t.Bits(e))
			}
		}
	}
	return ""
}
