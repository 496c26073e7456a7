// Package parity holds the model against public implementations: Hugging Face's nemotron_h,
// and plain float64 PyTorch by the definitions for what that lacks. The scripts beside this
// file made what is in testdata; scripts/parity.sh makes it again.
package parity

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/checkpoint"
	"firstbit/device"
	"firstbit/lowp"
	"firstbit/model"
	"firstbit/moe"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the summary in docs/model.md")

// How far a tensor may be from the reference, relative to the largest element of the latter.
const (
	within64 = 1e-10
	within32 = 1e-5
)

// A reference is a folder of testdata: a checkpoint of transformers or of ours with what it gives.
type reference struct {
	name, what string
	hf         bool
}

var references = []reference{
	{"nemotron_h", "transformers: `ME*-ME`, experts in groups", true},
	{"nemotron_h_latent", "transformers: `EM-*E`, latent experts, four groups of which two are kept", true},
	{"nemotron_h_attention", "transformers: `*E-E`, no groups", true},
	{"losses", "definitions: `ME*E`, load-balancing loss and z-loss", false},
	{"losses_sequence", "definitions: `E-E`, load-balancing loss by sequence, latent experts, tied head", false},
	{"softmax", "definitions: `E*E`, softmax before top-k", false},
	{"softmax_topk", "definitions: `E*E`, softmax after top-k", false},
	{"mtp", "definitions: `M*E-/*E`, two MTP depths", false},
	{"mtp_repeated", "definitions: `*E/M-E`, two MTP depths with the same weights", false},
}

// base is what a config.json of nemotron_h leaves open: no losses besides the language model's,
// and tiles that divide nothing.
func base() model.Config {
	return model.Config{MoE: moe.Config{TileM: 4, TileN: 8, TileSub: 3}}
}

// config is the reference's model.
func (r reference) config(t *testing.T) (c model.Config) {
	text, err := os.ReadFile(filepath.Join("testdata", r.name, "config.json"))
	require.NoError(t, err)
	if r.hf {
		c, err = checkpoint.ConfigFromHF(text, base())
		require.NoError(t, err)
		return c
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	require.NoError(t, d.Decode(&c))
	return c
}

// build is a model of that configuration with the reference's weights.
func (r reference) build(t *testing.T, c model.Config, f lowp.Format) *model.Model {
	m, err := model.New(c, f)
	require.NoError(t, err)
	weights, err := checkpoint.ReadWeights(filepath.Join("testdata", r.name), m)
	require.NoError(t, err)
	require.NoError(t, r.load(m, weights))
	return m
}

func (r reference) open(t *testing.T, f lowp.Format) *model.Model { return r.build(t, r.config(t), f) }

// tensors are a model's by the names that the reference's files use.
func (r reference) tensors(m *model.Model) []checkpoint.Tensor {
	if r.hf {
		return checkpoint.HFTensors(m)
	}
	var all []checkpoint.Tensor
	for _, x := range held(m) {
		all = append(all, checkpoint.Of(x.name, x.tensor))
	}
	return all
}

// load sets weights by the names that the reference's files use.
func (r reference) load(m *model.Model, f *checkpoint.File) error {
	if r.hf {
		return checkpoint.LoadHF(m, f)
	}
	from := map[string]checkpoint.Tensor{}
	for _, x := range f.Tensors {
		from[x.Name] = x
	}
	for _, to := range held(m) {
		x := from[to.name]
		values, err := x.Values()
		if err != nil || !slices.Equal(x.Shape, to.tensor.Shape()) {
			return fmt.Errorf("%s: is %v: must be %v: %w", to.name, x.Shape, to.tensor.Shape(), err)
		}
		for i, v := range values {
			to.tensor.Set(i, v)
		}
		delete(from, to.name)
	}
	for _, p := range m.Params() {
		p.W.CopyFrom(p.Master)
	}
	if len(from) > 0 {
		return fmt.Errorf("the model has no %v", slices.Sorted(maps.Keys(from)))
	}
	return nil
}

type named struct {
	name   string
	tensor *device.Tensor
}

// held are the master weights and router biases of a model by the names that we give them.
func held(m *model.Model) (all []named) {
	for _, p := range m.Params() {
		all = append(all, named{p.Name, p.Master})
	}
	for _, r := range m.Routers() {
		if !r.Shared {
			all = append(all, named{r.Scope + ".bias", r.Bias})
		}
	}
	return all
}

func (r reference) file(t *testing.T, name string) *checkpoint.File {
	f, err := checkpoint.ReadFile(filepath.Join("testdata", r.name, name+".safetensors"), checkpoint.Limit{Bytes: 1 << 30, Header: 1 << 20})
	require.NoError(t, err)
	return f
}

// A tensor is one that is compared.
type tensor struct {
	name   string
	shape  []int
	values []float64
}

func of(name string, x *device.Tensor) tensor {
	y := tensor{name: name, shape: x.Shape()}
	for i := range x.Len() {
		y.values = append(y.values, x.Value(i))
	}
	return y
}

// outputs are what is compared besides gradients.
var outputs = []string{"logits", "loss", "loss.lm", "loss.aux", "loss.z", "loss.mtp"}

// want is what the reference says: logits, losses, and gradients in the model's layout.
func (r reference) want(t *testing.T) []tensor {
	var want []tensor
	out := r.file(t, "outputs")
	for _, name := range outputs {
		x, ok := out.Tensor(name)
		if !ok && strings.HasPrefix(name, "loss.") { // of a layer that the model lacks
			continue
		}
		require.True(t, ok, name)
		v, err := x.Values()
		require.NoError(t, err)
		want = append(want, tensor{name, x.Shape, v})
	}
	gradients, m := r.file(t, "gradients"), r.open(t, lowp.FP64)
	for _, x := range r.tensors(m) { // a bias has no gradient, and a model needs it
		if strings.HasSuffix(x.Name, ".e_score_correction_bias") || strings.HasSuffix(x.Name, ".router.bias") {
			gradients.Tensors = append(gradients.Tensors, x)
		}
	}
	require.NoError(t, r.load(m, gradients))
	for _, p := range m.Params() {
		want = append(want, of(p.Name, p.W))
	}
	return want
}

// got is the same of a model, by a forward and a backward of its own.
func (r reference) got(t *testing.T, m *model.Model, middleware ...device.Middleware) []tensor {
	out := r.file(t, "outputs")
	tokens, targets := ids(t, out, "tokens"), ids(t, out, "targets")
	labelled := 0
	for _, id := range targets.I32() {
		if id >= 0 {
			labelled++
		}
	}
	for _, p := range m.Params() {
		p.ZeroGrad()
	}
	dev := device.New(device.Options{Schedule: device.Schedule{Seed: 3}}, middleware...)
	dev.At(1, 0, device.Fwd)
	losses := m.Forward(dev, tokens, targets)
	dev.At(1, 0, device.Bwd)
	m.Backward(dev, 1/float64(labelled), 1)

	parts := []tensor{scalar("loss.lm", losses.LM.Value(0)/float64(labelled))}
	if len(losses.Aux) > 0 {
		parts = append(parts, scalar("loss.aux", sum(losses.Aux)), scalar("loss.z", sum(losses.Z)))
	}
	if len(losses.MTP) > 0 {
		mtp := 0.0
		for k, l := range losses.MTP {
			mtp += l.Value(0) * m.MTPScale(k, tokens.Dim(1), 1/float64(labelled))
		}
		parts = append(parts, scalar("loss.mtp", mtp))
	}
	total := 0.0
	for _, p := range parts {
		total += p.values[0]
	}
	got := []tensor{of("logits", m.Head.Logits()), scalar("loss", total)}
	if !r.hf { // the library names no parts
		got = append(got, parts...)
	}
	for _, p := range m.Params() {
		got = append(got, of(p.Name, p.Grad))
	}
	return got
}

func scalar(name string, x float64) tensor { return tensor{name, []int{1}, []float64{x}} }

func sum(parts []*device.Tensor) (x float64) {
	for _, p := range parts {
		x += p.Value(0)
	}
	return x
}

// ids are token numbers as the model takes them.
func ids(t *testing.T, f *checkpoint.File, name string) *device.Tensor {
	x, ok := f.Tensor(name)
	require.True(t, ok, name)
	v, err := x.Values()
	require.NoError(t, err)
	y := device.NewTensor(lowp.INT32, x.Shape...)
	for i := range v {
		y.Set(i, v[i])
	}
	return y
}

// A row is one tensor's largest difference, relative to the reference's largest element.
type row struct {
	tensor
	err float64
}

func compare(t *testing.T, got, want []tensor) (rows []row) {
	require.Len(t, got, len(want))
	for i, w := range want {
		require.Equal(t, w.name, got[i].name)
		require.Len(t, got[i].values, len(w.values), w.name)
		largest, far := 0.0, 0.0
		for j, v := range w.values {
			largest = max(largest, math.Abs(v))
			far = max(far, math.Abs(got[i].values[j]-v)) // max keeps NaN
		}
		require.NotZero(t, largest, w.name)
		rows = append(rows, row{w, far / largest})
	}
	return rows
}

// worst is the row of the largest error; NaN is larger than any.
func worst(rows []row) row {
	w := rows[0]
	for _, r := range rows {
		if w.err == w.err && !(r.err <= w.err) {
			w = r
		}
	}
	return w
}

func TestParity(t *testing.T) {
	table := []string{"| reference | tensors | worst in fp64 | error | worst in fp32 | error |", "|---|---|---|---|---|---|"}
	for _, r := range references {
		t.Run(r.name, func(t *testing.T) {
			want := r.want(t)
			wide := compare(t, r.got(t, r.open(t, lowp.FP64)), want)
			narrow := compare(t, r.got(t, r.open(t, lowp.FP32)), want)
			lines := fmt.Sprintf("%-34s %-12s %9s %9s\n", "tensor", "shape", "fp32", "fp64")
			for i, w := range wide {
				lines += fmt.Sprintf("%-34s %-12s %9.1e %9.1e\n", w.name, fmt.Sprint(w.shape), narrow[i].err, w.err)
			}
			t.Log("error relative to the tensor's largest element\n" + lines)
			a, b := worst(wide), worst(narrow)
			table = append(table, fmt.Sprintf("| %s | %d | %s | %.1e | %s | %.1e |", r.what, len(wide), a.name, a.err, b.name, b.err))
			require.LessOrEqual(t, a.err, within64, a.name)
			require.LessOrEqual(t, b.err, within32, b.name)
		})
	}
	if t.Failed() || len(table) != len(references)+2 { // a part of the references alone has no summary
		return
	}
	const readme, begin, end = "../docs/model.md", "<!-- begin parity -->\n", "<!-- end parity -->"
	page, err := os.ReadFile(readme)
	require.NoError(t, err)
	head, rest, ok := strings.Cut(string(page), begin)
	require.True(t, ok)
	body, tail, ok := strings.Cut(rest, end)
	require.True(t, ok)
	want := strings.Join(table, "\n") + "\n"
	if *rewrite {
		require.NoError(t, os.WriteFile(readme, []byte(head+begin+want+end+tail), 0o644))
		return
	}
	require.Equal(t, want, body, "make golden writes the summary in docs/model.md")
}
