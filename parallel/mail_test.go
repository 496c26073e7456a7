package parallel

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/device"
	"firstbit/lowp"
)

// Messages come as they were sent, in any order of microbatches, whoever is faster; a sender may write its tensor again at once.
func TestMessages(t *testing.T) {
	const micros = 7
	for round := range 8 {
		require.NoError(t, simulateIn(t, NewWorld(Layout{PP: 3, DP: 2}, 4), func(r Rank, dev *device.Device) error {
			m, random := r.PP(), rand.New(rand.NewPCG(uint64(round), uint64(r.Index)))
			x := device.NewTensor([]lowp.Format{lowp.FP32, lowp.BF16, lowp.FP64, lowp.INT32}[round%4], 2, 3)
			for step := range 3 {
				for _, micro := range random.Perm(micros) {
					if m.Index == 2 {
						break
					}
					dev.At(step, micro, device.Fwd)
					for i := range x.Len() {
						x.Set(i, float64(10*step+micro+i))
					}
					m.Send(dev.In("stage"), "x", m.Index+1, x)
					for i := range x.Len() {
						x.Set(i, -1)
					}
					if random.IntN(3) == 0 {
						runtime.Gosched()
					}
				}
				for _, micro := range random.Perm(micros) {
					if m.Index == 0 {
						break
					}
					dev.At(step, micro, device.Fwd)
					y := m.Recv(dev.In("stage"), "x", m.Index-1, x.Format, 2, 3)
					for i := range y.Len() {
						if want := float64(10*step + micro + i); y.Value(i) != want {
							return fmt.Errorf("step %d microbatch %d: %g: must be %g", step, micro, y.Value(i), want)
						}
					}
				}
			}
			return nil
		}))
	}
}

// A state handed from rank to rank inside one phase, and gradients back.
func TestChains(t *testing.T) {
	const ranks = 9
	for range 10 {
		require.NoError(t, simulateIn(t, NewWorld(Layout{CP: ranks}, 4), func(r Rank, dev *device.Device) error {
			m, x := r.CP(), device.NewTensor(lowp.FP32, 1)
			pass := func(from, to int) {
				if from >= 0 && from < ranks {
					x.Set(0, m.Recv(dev, "state", from, lowp.FP32, 1).Value(0))
				}
				x.Set(0, x.Value(0)+1)
				if to >= 0 && to < ranks {
					m.Send(dev, "state", to, x)
				}
			}
			for step := range 5 {
				dev.At(step, 0, device.Fwd)
				x.Set(0, 0)
				pass(m.Index-1, m.Index+1)
				if x.Value(0) != float64(m.Index+1) {
					return fmt.Errorf("fwd: rank %d has %g", m.Index, x.Value(0))
				}
				dev.Enter(device.Bwd)
				x.Set(0, 0)
				pass(m.Index+1, m.Index-1)
				if x.Value(0) != float64(ranks-m.Index) {
					return fmt.Errorf("bwd: rank %d has %g", m.Index, x.Value(0))
				}
			}
			return nil
		}))
	}
}

// Each side names the other.
func TestPeers(t *testing.T) {
	peers := make([]string, 4)
	note := func(next device.Runner) device.Runner {
		return func(c *device.Call) {
			peers[c.ID.At.PP*2+c.ID.At.DP] = fmt.Sprint(c.Kind, " ", c.Group, " ", c.ID.Path, " ", c.Kernel.Name, " ", c.Peer)
			next(c)
		}
	}
	require.NoError(t, simulateIn(t, NewWorld(Layout{PP: 2, DP: 2}, 4), func(r Rank, dev *device.Device) error {
		dev.At(1, 0, device.Fwd)
		if r.PP().Index == 0 {
			r.PP().Send(dev.In("pipeline"), "chunk.1", 1, vector(1))
		} else {
			r.PP().Recv(dev.In("pipeline"), "chunk.1", 0, lowp.FP32, 1)
		}
		return nil
	}, note))
	require.Equal(t, []string{
		"p2p pp.0 pipeline.chunk.1.send send rank 2 fwd pipeline.chunk.1.recv",
		"p2p pp.1 pipeline.chunk.1.send send rank 3 fwd pipeline.chunk.1.recv",
		"p2p pp.0 pipeline.chunk.1.recv recv rank 0 fwd pipeline.chunk.1.send",
		"p2p pp.1 pipeline.chunk.1.recv recv rank 1 fwd pipeline.chunk.1.send",
	}, peers)
}

// A message's storage is written again once it was taken: a run holds no more than were under way together.
func TestMailIsReused(t *testing.T) {
	w := NewWorld(Layout{PP: 2}, 4)
	require.NoError(t, simulateIn(t, w, func(r Rank, dev *device.Device) error {
		for step := range 100 {
			dev.At(step, 0, device.Fwd)
			if r.Index == 0 {
				r.PP().Send(dev, "x", 1, vector(5))
				r.PP().Recv(dev, "back", 1, lowp.FP32, 5)
			} else {
				r.PP().Recv(dev, "x", 0, lowp.FP32, 5)
				r.PP().Send(dev, "back", 0, vector(5))
			}
		}
		return nil
	}))
	for _, b := range w.groups[0].boxes {
		require.Len(t, b.spare, 1)
		require.Empty(t, b.letters)
	}
}

// wrongMessages end a run of three stages with one error, always the same.
var wrongMessages = []struct {
	name string
	body func(m Member, dev *device.Device) error
	want string
}{
	{"nobody sends", func(m Member, dev *device.Device) error {
		if m.Index == 1 {
			m.Recv(dev, "x", 0, lowp.FP32, 2)
		}
		return nil
	}, "parallel: ranks wait for ever: each of ranks 0, 2 has ended; rank 1 waits in opt x.recv (recv) of step 1 microbatch 0 for rank 0 opt x.send"},
	{"another microbatch", func(m Member, dev *device.Device) error {
		switch m.Index {
		case 0:
			dev.At(1, 3, device.Opt)
			m.Send(dev, "x", 1, vector(2))
		case 1:
			m.Recv(dev, "x", 0, lowp.FP32, 2)
		}
		return nil
	}, "parallel: ranks wait for ever: each of ranks 0, 2 has ended; rank 1 waits in opt x.recv (recv) of step 1 microbatch 0 for rank 0 opt x.send"},
	{"two that wait for each other", func(m Member, dev *device.Device) error {
		if m.Index < 2 {
			m.Recv(dev, "x", 1-m.Index, lowp.FP32, 2)
		}
		return nil
	}, "parallel: ranks wait for ever: rank 0 waits in opt x.recv (recv) of step 1 microbatch 0 for rank 1 opt x.send; rank 1 waits in opt x.recv (recv) of step 1 microbatch 0 for rank 0 opt x.send; rank 2 has ended"},
	{"a message and a meeting", func(m Member, dev *device.Device) error {
		if m.Index == 1 {
			m.Recv(dev, "x", 0, lowp.FP32, 2)
		}
		m.AllReduce(dev, "y", vector(1))
		return nil
	}, "parallel: ranks wait for ever: each of ranks 0, 2 waits in opt y (all_reduce) of step 1 microbatch 0; rank 1 waits in opt x.recv (recv) of step 1 microbatch 0 for rank 0 opt x.send"},
	{"another shape", func(m Member, dev *device.Device) error {
		switch m.Index {
		case 0:
			m.Send(dev, "x", 1, device.NewTensor(lowp.FP32, 2, 3))
		case 1:
			m.Recv(dev, "x", 0, lowp.FP32, 3, 2)
		}
		return nil
	}, "parallel: rank 1 in opt x.recv (recv) of step 1 microbatch 0 expects fp32 of [3×2]: rank 0 opt x.send sent fp32 of [2×3]"},
	{"another format, and an error of a higher rank", func(m Member, dev *device.Device) error {
		switch m.Index {
		case 0:
			m.Send(dev, "x", 1, device.NewTensor(lowp.BF16, 2))
		case 1:
			m.Recv(dev, "x", 0, lowp.FP32, 2)
		case 2:
			return errors.New("the disk is full")
		}
		return nil
	}, "parallel: rank 1 in opt x.recv (recv) of step 1 microbatch 0 expects fp32 of [2]: rank 0 opt x.send sent bf16 of [2]"},
	{"a sender that fails before", func(m Member, dev *device.Device) error {
		switch m.Index {
		case 0:
			return errors.New("the disk is full")
		case 1:
			m.Recv(dev, "x", 0, lowp.FP32, 2)
		}
		return nil
	}, "the disk is full"},
	{"nobody receives", func(m Member, dev *device.Device) error {
		if m.Index > 0 {
			m.Send(dev, "x", 0, vector(2))
		}
		return nil
	}, "parallel: rank 1 opt x.send of step 1 microbatch 0 was never taken by rank 0 opt x.recv"},
}

func TestWrongMessagesEndTheRunWithOneError(t *testing.T) {
	for _, m := range wrongMessages {
		t.Run(m.name, func(t *testing.T) {
			for range repeats() {
				require.EqualError(t, simulateIn(t, NewWorld(Layout{PP: 3}, 4), func(r Rank, dev *device.Device) error {
					return m.body(r.PP(), dev)
				}), m.want)
			}
		})
	}
}
