// Package model is the network: embedding, blocks by a pattern string, head and loss,
// forward and backward written out.
//
// Letters: B batch, T time, D width, V vocabulary, H heads, KV key-value heads, P head
// dim, F hidden width. Tensors are row-major with tokens (B·T) as rows.
package model

import (
	"fmt"
	"strings"

	"firstbit/moe"
	"firstbit/ssm"
)

// Config is the shape of the network.
type Config struct {
	Pattern   string     `json:"pattern"`   // one mixer a letter: M Mamba-2, * attention, - MLP, E mixture of experts; | where a stage ends; after / the layers of an MTP depth
	Vocab     int        `json:"vocab"`     // V
	Width     int        `json:"width"`     // D
	Heads     int        `json:"heads"`     // H
	KVHeads   int        `json:"kv_heads"`  // KV, dividing H
	HeadDim   int        `json:"head_dim"`  // P; 0: width/heads
	Hidden    int        `json:"hidden"`    // F of the MLP
	Tied      bool       `json:"tied"`      // the head is the embedding
	Eps       float64    `json:"eps"`       // of RMSNorm
	InitStd   float64    `json:"init_std"`  // standard deviation of initial weights; of those that write to the residual divided by √(2L)
	Dropout   float64    `json:"dropout"`   // probability that an element of a mixer's output is dropped
	Recompute bool       `json:"recompute"` // every block keeps its input alone and runs again before its backward
	MTP       MTPConfig  `json:"mtp"`
	SSM       ssm.Config `json:"ssm"`
	MoE       moe.Config `json:"moe"`
}

// P is the width of a head.
func (c Config) P() int {
	if c.HeadDim > 0 {
		return c.HeadDim
	}
	return c.Width / c.Heads
}

// maxParams bounds a model that a laptop is asked to hold: with gradients and moments, 16 bytes each.
const maxParams = 1 << 29

// Params counts the weights. The extents Validate allows cannot overflow it.
func (c Config) Params() int64 {
	d := int64(c.Width)
	n := d * int64(c.Vocab)
	if !c.Tied {
		n *= 2
	}
	main, inner := c.Layers()
	n += d + c.layerParams(main)
	if inner != "" {
		depths := int64(c.MTP.Depths)
		if c.MTP.Repeated {
			depths = 1
		}
		n += depths * (2*d*d + 3*d + c.layerParams(inner))
	}
	return n
}

func (c Config) layerParams(pattern string) (n int64) {
	d := int64(c.Width)
	for _, letter := range pattern {
		n += d
		switch letter {
		case '*':
			n += 2 * d * int64(c.P()) * int64(c.Heads+c.KVHeads)
		case '-':
			n += 2 * d * int64(c.Hidden)
		case 'M':
			n += c.SSM.Params(d)
		case 'E':
			m, width := c.MoE, d
			if m.Latent > 0 {
				width = int64(m.Latent)
				n += 2 * d * width
			}
			n += d*int64(m.Experts+2*m.SharedHidden) + 2*width*int64(m.Experts)*int64(m.Hidden)
		}
	}
	return n
}

// Validate reports the first field that cannot be.
func (c Config) Validate() error {
	if err := c.checkPattern(); err != nil {
		return err
	}
	_, inner := c.Layers()
	for _, f := range []struct {
		name string
		v    int
	}{{"vocab", c.Vocab}, {"width", c.Width}, {"heads", c.Heads}, {"kv_heads", c.KVHeads}, {"hidden", c.Hidden}} {
		if f.v < 1 || f.v > 1<<20 {
			return fmt.Errorf("model.%s: %d: must be from 1 to %d", f.name, f.v, 1<<20)
		}
	}
	switch {
	case c.HeadDim == 0 && c.Width%c.Heads != 0:
		return fmt.Errorf("model.heads: %d: must divide model.width (%d), or set model.head_dim", c.Heads, c.Width)
	case c.Heads%c.KVHeads != 0:
		return fmt.Errorf("model.kv_heads: %d: must divide model.heads (%d)", c.KVHeads, c.Heads)
	case c.HeadDim < 0 || c.HeadDim > 1<<16:
		return fmt.Errorf("model.head_dim: %d: must be from 0 (width/heads) to %d", c.HeadDim, 1<<16)
	case !(c.Eps > 0):
		return fmt.Errorf("model.eps: %g: must be above 0", c.Eps)
	case !(c.Dropout >= 0 && c.Dropout < 1):
		return fmt.Errorf("model.dropout: %g: must be from 0 to below 1", c.Dropout)
	case !(c.InitStd > 0):
		return fmt.Errorf("model.init_std: %g: must be above 0", c.InitStd)
	}
	if strings.ContainsRune(c.Pattern, 'E') {
		if err := c.MoE.Validate(); err != nil {
			return err
		}
	}
	if strings.ContainsRune(c.Pattern, 'M') {
		if err := c.SSM.Validate(); err != nil {
			return err
		}
	}
	if inner != "" {
		if err := c.MTP.validate(); err != nil {
			return err
		}
	}
	if n := c.Params(); n > maxParams {
		return fmt.Errorf("model: %d parameters: must be at most %d", n, maxParams)
	}
	return nil
}
