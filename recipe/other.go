package recipe

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"firstbit/files"
)

// fromYAML reads a test case of Megatron-LM's: ENV_VARS and MODEL_ARGS, each a mapping.
func fromYAML(text []byte) (*Recipe, error) {
	var file struct {
		Env  yaml.Node `yaml:"ENV_VARS"`
		Args yaml.Node `yaml:"MODEL_ARGS"`
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("%s: must be YAML with MODEL_ARGS", strings.ReplaceAll(err.Error(), "\n", " "))
	}
	if file.Args.Kind != yaml.MappingNode {
		return nil, errors.New("MODEL_ARGS: must be a mapping of arguments such as --num-layers: 12")
	}
	r := &Recipe{whole: true}
	if err := r.fromMapping(file.Args.Content); err != nil {
		return nil, err
	}
	for i := 0; i+1 < len(file.Env.Content); i += 2 {
		if name := file.Env.Content[i].Value; known(name) {
			r.Env = set(r.Env, name, file.Env.Content[i+1].Value)
		}
	}
	return r, nil
}

// fromMapping adds the arguments of a mapping, keys and values in turn.
func (r *Recipe) fromMapping(content []*yaml.Node) error {
	for i := 0; i+1 < len(content); i += 2 {
		name, value := content[i].Value, content[i+1]
		if name == "<<" && value.Alias != nil && value.Alias.Kind == yaml.MappingNode && content[i].Tag == "!!merge" {
			if err := r.fromMapping(scalars(value.Alias.Content)); err != nil {
				return err
			}
			continue
		}
		if !strings.HasPrefix(name, "--") {
			return fmt.Errorf("MODEL_ARGS, line %d: %q: must begin with --", content[i].Line, name)
		}
		if value.Tag == "!!bool" && value.Value == "false" || value.Tag == "!!null" {
			continue
		}
		words := []string{name}
		switch {
		case value.Kind != yaml.ScalarNode && value.Kind != yaml.SequenceNode:
			return fmt.Errorf("MODEL_ARGS, line %d: %s: must have a value", value.Line, name)
		case value.Kind == yaml.SequenceNode:
			for _, v := range value.Content {
				words = append(words, v.Value)
			}
		case value.Tag != "!!bool":
			words = append(words, value.Value)
		}
		r.add(words)
	}
	return nil
}

// scalars are the pairs of a mapping that merge no other: a merge within a merge could go round.
func scalars(content []*yaml.Node) (pairs []*yaml.Node) {
	for i := 0; i+1 < len(content); i += 2 {
		if content[i].Tag != "!!merge" {
			pairs = append(pairs, content[i], content[i+1])
		}
	}
	return pairs
}

// hfNames are fields of config.json for Megatron's arguments, of all the model types that have them; several name one argument.
var hfNames = map[string]string{
	"num_hidden_layers": "--num-layers", "num_attention_heads": "--num-attention-heads", "num_key_value_heads": "--num-query-groups",
	"num_local_experts": "--num-experts", "num_experts": "--num-experts", "n_routed_experts": "--num-experts", "num_experts_per_tok": "--moe-router-topk",
	"n_group": "--moe-router-num-groups", "topk_group": "--moe-router-group-topk", "n_shared_experts": "--moe-shared-expert-intermediate-size",
	"shared_expert_intermediate_size": "--moe-shared-expert-intermediate-size", "moe_shared_expert_intermediate_size": "--moe-shared-expert-intermediate-size",
	"router_aux_loss_coef": "--moe-aux-loss-coeff", "aux_loss_alpha": "--moe-aux-loss-coeff", "router_jitter_noise": "--moe-input-jitter-eps", "scoring_func": "--moe-router-score-function",
	"num_nextn_predict_layers": "--mtp-num-layers", "decoder_sparse_step": "--moe-layer-freq", "hybrid_override_pattern": "--hybrid-layer-pattern", "moe_latent_size": "--moe-latent-size",
	"attention_dropout": "--attention-dropout", "hidden_dropout": "--hidden-dropout",
}

// hfQuiet are fields that choose no order of a sum, no rounding and no state.
var hfQuiet = strings.Fields(`architectures model_type hidden_size intermediate_size moe_intermediate_size head_dim vocab_size max_position_embeddings rope_theta rope_scaling rope_parameters
partial_rotary_factor rms_norm_eps layer_norm_epsilon norm_eps initializer_range initializer_factor use_cache bos_token_id eos_token_id pad_token_id transformers_version _name_or_path auto_map hidden_act
mlp_hidden_act mamba_hidden_act torch_dtype dtype tie_word_embeddings sliding_window max_window_layers use_sliding_window output_router_logits norm_topk_prob routed_scaling_factor mamba_num_heads mamba_head_dim
mamba_proj_bias ssm_state_size n_groups conv_kernel chunk_size time_step_min time_step_max time_step_limit time_step_floor time_step_rank expand layers_block_type mtp_layers_block_type
mtp_hybrid_override_pattern first_k_dense_replace  moe_layer_freq mlp_only_layers num_logits_to_keep residual_in_fp32 rescale_prenorm_residual topk_method attention_bias mlp_bias use_bias use_conv_bias pretraining_tp`)

// fromHF reads a Hugging Face config.json. It says what the model is, and nothing of how it is trained.
func fromHF(text []byte) (*Recipe, error) {
	var fields map[string]json.RawMessage
	if err := files.JSON(text, &fields, true); err != nil {
		return nil, fmt.Errorf("%w: must be a Hugging Face config.json", err)
	}
	names := make([]string, 0, len(fields))
	for name := range fields { // sorted below
		names = append(names, name)
	}
	slices.Sort(names)
	r := &Recipe{}
	for _, name := range names {
		value := strings.Trim(string(fields[name]), `" `)
		argument, mapped := hfNames[name]
		switch {
		case value == "null":
		case mapped:
			if value == "1" && (name == "n_group" || name == "topk_group") {
				continue // of one
			}
			r.Arguments = append(r.Arguments, Argument{argument, []string{value}, fmt.Sprintf("%s %s", name, value)})
		case !slices.Contains(hfQuiet, name):
			if len(value) > 60 {
				value = value[:60] + "…"
			}
			r.Unknown = append(r.Unknown, Unknown{name + " " + strings.ToValidUTF8(value, "?"), "nothing here stands for it"})
		}
	}
	if len(r.Arguments) == 0 {
		return nil, errors.New("no field of a Hugging Face config.json, such as num_hidden_layers")
	}
	r.fromModel(fields)
	return r, nil
}

// fromModel adds what several fields say together, and what a config.json says by another name.
func (r *Recipe) fromModel(fields map[string]json.RawMessage) {
	text := func(name string) string { return strings.Trim(string(fields[name]), `" `) }
	add := func(as string, words ...string) {
		r.Arguments = append(r.Arguments, Argument{words[0], words[1:], as})
	}
	if t := text("torch_dtype") + text("dtype"); strings.Contains(t, "bfloat16") {
		add("torch_dtype bfloat16", "--bf16")
	} else if strings.Contains(t, "float16") {
		add("torch_dtype float16", "--fp16")
	}
	if text("tie_word_embeddings") == "false" || text("tie_word_embeddings") == "" {
		add("no tie_word_embeddings", "--untie-embeddings-and-output-weights")
	}
	if text("num_key_value_heads") != "" && text("num_key_value_heads") != text("num_attention_heads") {
		add("num_key_value_heads "+text("num_key_value_heads"), "--group-query-attention")
	}
	if n := text("first_k_dense_replace"); n != "" && n != "0" {
		add("first_k_dense_replace "+n, "--moe-layer-freq", "[0]*"+n+"+[1]")
	}
	if text("hidden_dropout") == "" {
		add("no hidden_dropout", "--hidden-dropout", "0")
	}
	if text("topk_method") == "noaux_tc" || text("model_type") == "nemotron_h" {
		add("topk_method noaux_tc", "--moe-router-enable-expert-bias")
		add("topk_method noaux_tc", "--moe-router-load-balancing-type", "none")
	}
	var layers []string
	if json.Unmarshal(fields["layers_block_type"], &layers) == nil && len(layers) > 0 && r.find("--hybrid-layer-pattern") == nil {
		pattern := ""
		for _, name := range layers {
			pattern += map[string]string{"linear_attention": "M", "mamba": "M", "full_attention": "*", "attention": "*", "mlp": "-", "moe": "E"}[name]
		}
		add("layers_block_type "+pattern, "--hybrid-layer-pattern", pattern)
	}
}
