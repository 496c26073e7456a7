package checkpoint

import (
	"encoding/json"
	"fmt"
	"strings"

	"firstbit/files"
	"firstbit/model"
	"firstbit/ssm"
)

// hfConfig is what of nemotron_h's config.json shapes the network.
type hfConfig struct {
	Type     string   `json:"model_type"`
	Classes  []string `json:"architectures"`
	Layers   []string `json:"layers_block_type"`
	Pattern  string   `json:"hybrid_override_pattern,omitempty"` // of older files, for layers_block_type
	Vocab    int      `json:"vocab_size"`
	Width    int      `json:"hidden_size"`
	Heads    int      `json:"num_attention_heads"`
	KVHeads  int      `json:"num_key_value_heads"`
	HeadDim  int      `json:"head_dim"`
	Hidden   int      `json:"intermediate_size"`
	Eps      float64  `json:"layer_norm_epsilon"`
	InitStd  float64  `json:"initializer_range"`
	Tied     bool     `json:"tie_word_embeddings"`
	SSMHeads int      `json:"mamba_num_heads"`
	SSMDim   int      `json:"mamba_head_dim"`
	State    int      `json:"ssm_state_size"`
	SSMGroup int      `json:"n_groups"`
	Conv     int      `json:"conv_kernel"`
	DTMin    float64  `json:"time_step_min"`
	Experts  int      `json:"n_routed_experts"`
	TopK     int      `json:"num_experts_per_tok"`
	Expert   int      `json:"moe_intermediate_size"`
	Shared   int      `json:"moe_shared_expert_intermediate_size"`
	Latent   *int     `json:"moe_latent_size"`
	Scaling  float64  `json:"routed_scaling_factor"`
	Groups   int      `json:"n_group"`
	Kept     int      `json:"topk_group"`
	NormTopK bool     `json:"norm_topk_prob"`
	Depths   int      `json:"num_nextn_predict_layers"`
	Inner    []string `json:"mtp_layers_block_type"`
	InnerOld string   `json:"mtp_hybrid_override_pattern,omitempty"`

	Activation    string  `json:"mlp_hidden_act"`
	AttentionBias bool    `json:"attention_bias"`
	MLPBias       bool    `json:"mlp_bias"`
	Bias          bool    `json:"use_bias"`
	ConvBias      bool    `json:"use_conv_bias"`
	SSMActivation string  `json:"mamba_hidden_act"`
	Dropout       float64 `json:"attention_dropout"`
}

// hfDefaults are the library's for fields that a file leaves out.
func hfDefaults() hfConfig {
	return hfConfig{
		Vocab: 131072, Width: 4096, Heads: 32, KVHeads: 8, HeadDim: 128, Hidden: 21504, Eps: 1e-5, InitStd: 0.02,
		Experts: 8, TopK: 2, Expert: 7688, Shared: 7688, Scaling: 1, Groups: 1, Kept: 1, NormTopK: true,
		SSMHeads: 128, SSMDim: 64, State: 128, SSMGroup: 8, Conv: 4, DTMin: 0.001,
		Activation: "relu2", ConvBias: true, SSMActivation: "silu",
	}
}

// hfGroupTop is how many of a group's scores nemotron_h adds to the group's.
const hfGroupTop = 2

// letters pairs the pattern's letters with the library's names, older ones after newer.
var letters = []struct{ letter, name string }{
	{"M", "linear_attention"}, {"*", "full_attention"}, {"-", "mlp"}, {"E", "moe"}, {"M", "mamba"}, {"*", "attention"},
}

// ConfigFromHF is a nemotron_h config.json as a model. What such a file does not say (tiles,
// coefficients of losses, whether depths of multi-token prediction repeat) is base's; without a
// factor in base these depths are left aside, as the library does. An option that the model lacks
// is refused. The library ties no head to its embedding whatever the file says: nor does this.
func ConfigFromHF(text []byte, base model.Config) (model.Config, error) {
	h := hfDefaults()
	if err := files.JSON(plainJSON(text), &h, true); err != nil {
		return base, fmt.Errorf("config.json: %w", err)
	}
	c := base
	pattern, err := h.pattern(&c.MTP)
	if err == nil {
		err = h.supported(pattern)
	}
	if err != nil {
		return base, fmt.Errorf("config.json: %w", err)
	}
	c.Pattern, c.Vocab, c.Width, c.Hidden, c.Tied = pattern, h.Vocab, h.Width, h.Hidden, false
	c.Heads, c.KVHeads, c.HeadDim, c.Eps, c.InitStd = h.Heads, h.KVHeads, h.HeadDim, h.Eps, h.InitStd
	if strings.Contains(pattern, "M") {
		c.SSM = ssm.Config{Heads: h.SSMHeads, HeadDim: h.SSMDim, State: h.State, Groups: h.SSMGroup, Conv: h.Conv, DTMin: h.DTMin}
	}
	if strings.Contains(pattern, "E") {
		h.experts(&c)
	}
	if err := c.Validate(); err != nil {
		return base, fmt.Errorf("config.json: %w", err)
	}
	return c, nil
}

func (h hfConfig) experts(c *model.Config) {
	m := &c.MoE
	m.Experts, m.TopK, m.Hidden, m.SharedHidden, m.Scaling = h.Experts, h.TopK, h.Expert, h.Shared, h.Scaling
	m.Router, m.RouterDtype = "sigmoid", "fp32"
	m.Latent, m.Groups, m.GroupsKept, m.GroupTop = 0, 0, 0, 0
	if h.Latent != nil {
		m.Latent = *h.Latent
	}
	if h.Groups > 1 {
		m.Groups, m.GroupsKept, m.GroupTop = h.Groups, h.Kept, hfGroupTop
	}
}

// pattern is the file's layers, and after them those of a depth of multi-token prediction. A file
// of depths that repeat has the weights of one.
func (h hfConfig) pattern(mtp *model.MTPConfig) (string, error) {
	main, err := patternOf("layers_block_type", h.Layers, h.Pattern)
	if err != nil || h.Depths == 0 || mtp.Factor == 0 {
		return main, err
	}
	inner, err := patternOf("mtp_layers_block_type", h.Inner, h.InnerOld)
	switch {
	case err != nil:
		return "", err
	case mtp.Repeated && h.Depths != 1:
		return "", fmt.Errorf("num_nextn_predict_layers: %d: must be 1 of depths that repeat", h.Depths)
	case inner == "":
		inner = "*E" // the library's default
	}
	if !mtp.Repeated {
		mtp.Depths = h.Depths
	}
	return main + "/" + inner, nil
}

// patternOf is layers by name, or else by the letters of older files.
func patternOf(field string, layers []string, letter string) (string, error) {
	if layers == nil {
		return letter, nil
	}
	pattern := ""
next:
	for i, name := range layers {
		for _, l := range letters {
			if l.name == name {
				pattern += l.letter
				continue next
			}
		}
		return "", fmt.Errorf("%s: %q at %d: must be linear_attention, full_attention, mlp or moe", field, name, i)
	}
	return pattern, nil
}

// supported reports the first option that the model lacks.
func (h hfConfig) supported(pattern string) error {
	switch {
	case h.Type != "nemotron_h":
		return fmt.Errorf("model_type: %q: must be nemotron_h", h.Type)
	case h.Depths < 0:
		return fmt.Errorf("num_nextn_predict_layers: %d: must be 0 or more", h.Depths)
	case h.AttentionBias || h.MLPBias || h.Bias:
		return fmt.Errorf("attention_bias, mlp_bias, use_bias: must be false: linear layers have no bias")
	case h.Activation != "relu2":
		return fmt.Errorf("mlp_hidden_act: %q: must be relu2", h.Activation)
	case h.Dropout != 0:
		return fmt.Errorf("attention_dropout: %g: must be 0", h.Dropout)
	case !h.ConvBias:
		return fmt.Errorf("use_conv_bias: false: must be true: the convolution has a bias")
	case h.SSMActivation != "silu":
		return fmt.Errorf("mamba_hidden_act: %q: must be silu", h.SSMActivation)
	case !strings.Contains(pattern, "E"):
		return nil
	case h.NormTopK != (h.TopK > 1):
		return fmt.Errorf("norm_topk_prob: %t: must be true if, and only if, num_experts_per_tok (%d) is above 1", h.NormTopK, h.TopK)
	case h.Shared < 1:
		return fmt.Errorf("moe_shared_expert_intermediate_size: %d: must be above 0", h.Shared)
	case h.Latent != nil && *h.Latent < 1:
		return fmt.Errorf("moe_latent_size: %d: must be above 0, or null", *h.Latent)
	case h.Groups < 1 || h.Groups == 1 && h.Kept != 1:
		return fmt.Errorf("n_group, topk_group: %d, %d: must be above 0, and 1 of 1 without groups", h.Groups, h.Kept)
	}
	return nil
}

// ConfigToHF is the config.json with which the library computes the same as the model.
// A model that the library cannot express is refused.
func ConfigToHF(c model.Config) ([]byte, error) {
	h := hfDefaults()
	h.Type, h.Classes = "nemotron_h", []string{"NemotronHForCausalLM"}
	h.Vocab, h.Width, h.Hidden = c.Vocab, c.Width, c.Hidden
	h.Heads, h.KVHeads, h.HeadDim, h.Eps, h.InitStd = c.Heads, c.KVHeads, c.P(), c.Eps, c.InitStd
	main, inner := c.Layers()
	h.Layers = layersOf(main)
	if inner != "" {
		h.Inner, h.Depths = layersOf(inner), c.MTP.Depths
		if c.MTP.Repeated {
			h.Depths = 1
		}
	}
	if strings.Contains(c.Pattern, "M") {
		s := c.SSM
		h.SSMHeads, h.SSMDim, h.State, h.SSMGroup, h.Conv, h.DTMin = s.Heads, s.HeadDim, s.State, s.Groups, s.Conv, s.DTMin
	}
	if strings.Contains(c.Pattern, "E") {
		if err := h.fromExperts(c); err != nil {
			return nil, err
		}
	}
	text, err := json.MarshalIndent(h, "", "  ")
	return append(text, '\n'), err
}

func layersOf(pattern string) (layers []string) {
	for _, r := range pattern {
		for _, l := range letters {
			if l.letter == string(r) {
				layers = append(layers, l.name)
				break
			}
		}
	}
	return layers
}

func (h *hfConfig) fromExperts(c model.Config) error {
	m := c.MoE
	top := m.GroupTop
	if top == 0 && m.GroupsKept > 0 {
		top = m.TopK / m.GroupsKept
	}
	switch {
	case m.Router != "sigmoid":
		return fmt.Errorf("model.moe.router: %q: nemotron_h has sigmoid only", m.Router)
	case m.RouterDtype != "fp32":
		return fmt.Errorf("model.moe.router_dtype: %q: nemotron_h has fp32 only", m.RouterDtype)
	case m.SharedHidden == 0:
		return fmt.Errorf("model.moe.shared_hidden: 0: nemotron_h always has a shared expert")
	case m.Groups > 1 && top != hfGroupTop:
		return fmt.Errorf("model.moe.group_top: %d: nemotron_h scores a group by its best %d", top, hfGroupTop)
	}
	h.Experts, h.TopK, h.Expert, h.Shared, h.Scaling = m.Experts, m.TopK, m.Hidden, m.SharedHidden, m.Scaling
	h.NormTopK = m.TopK > 1
	if m.Latent > 0 {
		h.Latent = &m.Latent
	}
	if m.Groups > 1 {
		h.Groups, h.Kept = m.Groups, m.GroupsKept
	}
	return nil
}

// plainJSON makes null of the infinities that Python writes bare, as in time_step_limit.
func plainJSON(text []byte) []byte {
	out := make([]byte, 0, len(text))
	quoted := false
	for i := 0; i < len(text); i++ {
		switch {
		case quoted && text[i] == '\\' && i+1 < len(text):
			out = append(out, text[i])
			i++
		case text[i] == '"':
			quoted = !quoted
		case !quoted:
			if word := bare(text[i:]); word != "" {
				out = append(out, "null"...)
				i += len(word) - 1
				continue
			}
		}
		out = append(out, text[i])
	}
	return out
}

func bare(text []byte) string {
	for _, word := range []string{"-Infinity", "Infinity", "NaN"} {
		if strings.HasPrefix(string(text[:min(len(text), len(word))]), word) {
			return word
		}
	}
	return ""
}
