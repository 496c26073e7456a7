package checkpoint

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"firstbit/device"
	"firstbit/model"
)

// pairs has what follows "layers.I." in names of ours with what follows it in nemotron_h's.
// Our linear weights are (in,out), theirs (out,in). A * stands for the expert's number:
// save_pretrained writes a matrix an expert, the library computes with all of them stacked.
var pairs = []struct {
	ours, theirs string
	layout       layout
}{
	{"norm.w", "norm.weight", plain},
	{"attn.wq", "mixer.q_proj.weight", transposed},
	{"attn.wk", "mixer.k_proj.weight", transposed},
	{"attn.wv", "mixer.v_proj.weight", transposed},
	{"attn.wo", "mixer.o_proj.weight", transposed},
	{"mlp.w1", "mixer.up_proj.weight", transposed},
	{"mlp.w2", "mixer.down_proj.weight", transposed},
	{"moe.router.w", "mixer.gate.weight", plain},
	{"moe.router.bias", "mixer.gate.e_score_correction_bias", plain},
	{"moe.experts.w1", "mixer.experts.*.up_proj.weight", transposed},
	{"moe.experts.w2", "mixer.experts.*.down_proj.weight", transposed},
	{"moe.shared.w1", "mixer.shared_experts.up_proj.weight", transposed},
	{"moe.shared.w2", "mixer.shared_experts.down_proj.weight", transposed},
	{"moe.latent.down", "mixer.fc1_latent_proj.weight", transposed},
	{"moe.latent.up", "mixer.fc2_latent_proj.weight", transposed},
	{"ssm.in_proj", "mixer.in_proj.weight", projected},
	{"ssm.conv.w", "mixer.conv1d.weight", channelled},
	{"ssm.conv.b", "mixer.conv1d.bias", channels},
	{"ssm.dt_bias", "mixer.dt_bias", plain},
	{"ssm.a_log", "mixer.A_log", plain},
	{"ssm.d", "mixer.D", plain},
	{"ssm.norm.w", "mixer.norm.weight", plain},
	{"ssm.out_proj", "mixer.out_proj.weight", transposed},
}

// outer are the tensors outside any layer; "backbone." is what save_pretrained writes where
// the library's own modules say "model.".
var outer = []struct{ ours, theirs string }{
	{"embed.w", "backbone.embeddings.weight"}, {"norm.w", "backbone.norm_f.weight"}, {"head.w", "lm_head.weight"},
}

// mtpOuter are those of a depth of multi-token prediction. The layers of all depths are numbered
// through; the projections stand at a depth's first, the closing norm at its last.
var mtpOuter = []struct {
	ours, theirs string
	last         bool
	layout       layout
}{
	{"enorm.w", "enorm.weight", false, plain}, {"hnorm.w", "hnorm.weight", false, plain},
	{"proj", "eh_proj.weight", false, transposed}, {"norm.w", "final_layernorm.weight", true, plain},
}

// numbered takes a name such as layers.3.norm.w apart: the number after the word, and what follows.
func numbered(word, name string) (n int, rest string, ok bool) {
	if name, ok = strings.CutPrefix(name, word+"."); !ok {
		return 0, "", false
	}
	digits, rest, ok := strings.Cut(name, ".")
	n, err := strconv.Atoi(digits)
	return n, rest, ok && err == nil
}

// hfName is nemotron_h's name and layout for a tensor of ours; inner is the number of layers of
// a depth of multi-token prediction.
func hfName(name string, inner int) (string, layout) {
	for _, o := range outer {
		if o.ours == name {
			return o.theirs, plain
		}
	}
	if depth, rest, ok := numbered("mtp", name); ok {
		return hfDepthName(rest, depth, inner)
	}
	return hfLayerName("backbone", name, 0)
}

func hfLayerName(scope, name string, first int) (string, layout) {
	if layer, rest, ok := numbered("layers", name); ok {
		for _, p := range pairs {
			if p.ours == rest {
				return fmt.Sprintf("%s.layers.%d.%s", scope, first+layer, p.theirs), p.layout
			}
		}
	}
	panic("checkpoint: a tensor of the model has no name in nemotron_h")
}

func hfDepthName(name string, depth, inner int) (string, layout) {
	for _, o := range mtpOuter {
		if o.ours == name {
			at := depth * inner
			if o.last {
				at += inner - 1
			}
			return fmt.Sprintf("mtp.layers.%d.%s", at, o.theirs), o.layout
		}
	}
	return hfLayerName("mtp", name, depth*inner)
}

// LoadHF sets every weight and router bias from a file of nemotron_h's names, experts stacked
// or one by one. A file that lacks one, or has a tensor that nemotron_h does not know, is refused
// and changes nothing. Multi-token prediction that the model lacks is left aside, as the library does.
func LoadHF(m *model.Model, f *File) error {
	r := newReader(f, func(name string) string {
		if rest, ok := strings.CutPrefix(name, "model."); ok {
			return "backbone." + rest
		}
		return name
	})
	inner := innerLayers(m)
	for _, s := range slots(m) {
		name, l := hfName(s.name, inner)
		before, after, experts := strings.Cut(name, ".*.")
		stacked := before + "." + strings.TrimSuffix(after, ".weight")
		if _, ok := r.tensors[stacked]; !experts || ok {
			if experts {
				name = stacked
			}
			r.read(s, name, l)
			continue
		}
		var x []float64
		shape := l.shape(s.tensor.Shape())
		for e := range shape[0] {
			x = append(x, r.take(expertName(name, e), shape[1:])...)
		}
		r.keep(s, x, l)
	}
	if m.Tied {
		r.tiedHead()
	}
	return r.finish(func(name string) bool { return inner == 0 && strings.HasPrefix(name, "mtp.") })
}

// tiedHead lets a file for a tied model have the head as well, if it is the embedding.
func (r *reader) tiedHead() {
	head, ok := r.tensors["lm_head.weight"]
	if !ok {
		return
	}
	r.used["lm_head.weight"] = true
	embed := r.tensors["backbone.embeddings.weight"]
	if head.format != embed.format || !slices.Equal(head.Shape, embed.Shape) || !bytes.Equal(head.data, embed.data) {
		r.fail("tensor %q: differs from the embedding: the model's head is tied to it", head.Name)
	}
}

func expertName(name string, e int) string { return strings.Replace(name, "*", strconv.Itoa(e), 1) }

// HFTensors lists the model's master weights and router biases under nemotron_h's names and in
// its layout, as save_pretrained does: one matrix an expert. A tied head is written as well.
func HFTensors(m *model.Model) (t []Tensor) {
	inner := innerLayers(m)
	for _, s := range slots(m) {
		name, l := hfName(s.name, inner)
		x, shape := s.theirs(values(s.tensor), l), l.shape(s.tensor.Shape())
		if !strings.Contains(name, "*") {
			t = append(t, s.as(name, x, shape))
			continue
		}
		n := len(x) / shape[0]
		for e := range shape[0] {
			t = append(t, s.as(expertName(name, e), x[e*n:(e+1)*n], shape[1:]))
		}
	}
	if m.Tied {
		t = append(t, Of("lm_head.weight", m.Embed.W.Master))
	}
	return t
}

// as is a part of a slot's values as a tensor of a file, in the master's format.
func (s slot) as(name string, x []float64, shape []int) Tensor {
	d := device.NewTensor(s.tensor.Format, shape...)
	for i, v := range x {
		d.Set(i, v)
	}
	return Of(name, d)
}

func values(t *device.Tensor) []float64 {
	x := make([]float64, t.Len())
	for i := range x {
		x[i] = t.Value(i)
	}
	return x
}

// innerLayers is the number of layers of a depth of multi-token prediction.
func innerLayers(m *model.Model) int {
	_, inner := m.Layers()
	return len(inner)
}
