"""Reference files made with the nemotron_h of Hugging Face's transformers: weights as
save_pretrained writes them, token ids, logits, loss and the gradient of every parameter.

    nemotron_h.py FOLDER

The library casts to float32 in places whatever the model's type. Its source is run with those
casts to float64 instead; each line so changed is listed in FOLDER/float64.txt."""

import importlib.util
import os
import re
import sys
import types

import torch
from transformers import NemotronHConfig
from transformers.loss import loss_utils
from transformers.models.nemotron_h import modeling_nemotron_h

from files import Draw, linear_radius, write, write_json

BATCH = 2


def float64(module):
    """The module with its casts to float32 made casts to float64, and the lines changed."""
    with open(module.__file__) as f:
        lines = f.read().split("\n")
    changed = []
    for i, line in enumerate(lines):
        lines[i] = re.sub(r"\.float\(\)", ".double()", line.replace("torch.float32", "torch.float64"))
        if lines[i] != line:
            name = module.__name__.rsplit(".", 1)[1]
            changed.append(f"{name}.py:{i + 1}: {line.strip()}\n    -> {lines[i].strip()}")
    patched = types.ModuleType(module.__name__ + "_float64")
    patched.__package__ = module.__name__.rsplit(".", 1)[0]
    patched.__file__ = module.__file__
    sys.modules[patched.__name__] = patched
    exec(compile("\n".join(lines), module.__file__, "exec"), patched.__dict__)
    return patched, changed


MODEL, CHANGED = float64(modeling_nemotron_h)
LOSS, CHANGED_LOSS = float64(loss_utils)

LETTERS = {"M": "linear_attention", "*": "full_attention", "-": "mlp", "E": "moe"}


def config(pattern, experts, **fields):
    return NemotronHConfig(
        layers_block_type=[LETTERS[c] for c in pattern], vocab_size=29, hidden_size=16, num_attention_heads=4,
        num_key_value_heads=2, head_dim=6, intermediate_size=20, ssm_state_size=5, mamba_num_heads=6, mamba_head_dim=4,
        n_groups=2, conv_kernel=4, chunk_size=8, n_routed_experts=experts, moe_intermediate_size=10,
        moe_shared_expert_intermediate_size=12, routed_scaling_factor=2.5, norm_topk_prob=True,
        attn_implementation="eager", experts_implementation="eager", use_cache=False, **fields)


# Every extent is its own within a model, so that no two can be confused. T is not always a
# multiple of the chunk.
CASES = {
    "nemotron_h_attention": (config("*E-E", 8, num_experts_per_tok=2), 24, 1),
    "nemotron_h": (config("ME*-ME", 8, num_experts_per_tok=2, n_group=2, topk_group=1), 24, 3),
    "nemotron_h_latent": (config("EM-*E", 12, num_experts_per_tok=4, n_group=4, topk_group=2, moe_latent_size=7,
                                 time_step_min=0.0625), 21, 3),
}


SHARDED = "nemotron_h_attention"  # its weights lie in several files


def fill(name, shape, draw):
    last = name.rsplit(".", 1)[-1]
    if "e_score_correction_bias" in name:
        return draw.around(shape, 0, 0.25)
    if name.endswith(("norm.weight", "norm_f.weight", "mixer.D")):
        return draw.around(shape, 1, 0.5)
    if last == "A_log":
        return draw.uniform(shape, -0.5, 2.5)
    if last == "dt_bias":
        return draw.uniform(shape, -7, 0)
    if "conv1d" in name:
        return draw.around(shape, 0, 0.5)
    if "embeddings" in name:
        return draw.around(shape, 0, 1.5)
    return draw.around(shape, 0, linear_radius(shape[-1]))


class Watch:
    """What the reference must exercise, counted while it runs."""

    def __init__(self, model):
        self.moved, self.gap, self.clamped, self.edge = 0, float("inf"), 0, float("inf")
        for module in model.modules():
            if isinstance(module, MODEL.NemotronHTopkRouter):
                module.register_forward_hook(self.router)
            if isinstance(module, MODEL.NemotronHMamba2Mixer):
                module.in_proj.register_forward_hook(lambda _, __, y, m=module: self.step(y, m))

    def router(self, module, _, out):
        scores, chosen = torch.sigmoid(out[0]), out[2]
        plain = scores.topk(chosen.shape[-1]).indices
        self.moved += int((plain.sort().values != chosen.sort().values).any(-1).sum())
        biased = scores + module.e_score_correction_bias
        taken = torch.zeros_like(biased, dtype=torch.bool).scatter(1, chosen, True)
        grouped = biased.view(len(biased), module.num_group, -1)
        score = grouped.topk(2).values.sum(-1)
        best = score.sort(descending=True).values
        if module.topk_group < module.num_group:
            gap = best[:, module.topk_group - 1] - best[:, module.topk_group]
            self.gap = min(self.gap, gap.min().item())
        kept = score >= best[:, module.topk_group - 1, None]
        allowed = kept.unsqueeze(-1).expand(grouped.shape).reshape(biased.shape)
        out_of_k = biased.masked_fill(taken | ~allowed, -9).max(-1).values
        self.gap = min(self.gap, (biased.masked_fill(~taken, 9).min(-1).values - out_of_k).min().item())

    def step(self, projected, module):
        dt = torch.nn.functional.softplus(projected[..., -module.num_heads:] + module.dt_bias)
        self.clamped += int((dt < module.time_step_limit[0]).sum())
        self.edge = min(self.edge, (dt - module.time_step_limit[0]).abs().min().item())


def build(case, draw):
    model = MODEL.NemotronHForCausalLM(case).double().train()
    model.loss_function = LOSS.ForCausalLMLoss
    with torch.no_grad():
        for name, x in sorted({**dict(model.named_parameters()), **dict(model.named_buffers())}.items()):
            x.copy_(fill(name, x.shape, draw))
    return model


def make(folder, name):
    case, time, seed = CASES[name]
    draw = Draw(seed)
    model = build(case, draw)
    tokens = draw.tokens(BATCH, time, case.vocab_size)
    watch = Watch(model)
    out = model(tokens, labels=tokens)
    out.loss.backward()
    assert out.logits.dtype == out.loss.dtype == torch.float64
    gradients = {n: p.grad for n, p in model.named_parameters()}
    assert all(g is not None and g.abs().max() > 0 for g in gradients.values())

    # The library's labels are shifted by its loss; ours come shifted, -1 for none.
    targets = torch.nn.functional.pad(tokens[:, 1:], (0, 1), value=-1)
    ours = torch.nn.functional.cross_entropy(out.logits.flatten(0, 1), targets.flatten(), ignore_index=-1)
    assert (ours - out.loss).abs() < 1e-15 * out.loss

    to = os.path.join(folder, name)
    write(to, {"tokens": tokens, "targets": targets, "logits": out.logits, "loss": out.loss}, gradients)
    library = modeling_nemotron_h.NemotronHForCausalLM(case)
    library.load_state_dict(model.state_dict())
    library.save_pretrained(to, max_shard_size="20KB" if name == SHARDED else "1GB")
    os.remove(os.path.join(to, "generation_config.json"))
    for n, x in library.state_dict().items():
        assert torch.equal(x.double(), model.state_dict()[n]), n

    print(f"{name}: loss {out.loss.item():.15f}, logits to {out.logits.abs().max():.2f}; {watch.moved} choices moved by bias or "
          f"groups, smallest gap {watch.gap:.1e}; {watch.clamped} steps clamped, nearest {watch.edge:.1e}")
    # Where rounding could change a choice or a clamp, two right answers would differ.
    assert watch.gap > 1e-4 and watch.edge > 1e-5 and watch.moved > 0
    assert watch.clamped > 0 or "linear_attention" not in case.layers_block_type


def main(folder):
    for package in ("mamba_ssm", "causal_conv1d", "kernels"):
        assert importlib.util.find_spec(package) is None, f"{package} would replace the library's own arithmetic"
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "float64.txt"), "w") as f:
        f.write("\n".join(CHANGED + CHANGED_LOSS) + "\n")
    print(f"{len(CHANGED) + len(CHANGED_LOSS)} lines cast to float64 instead of float32:", *CHANGED, *CHANGED_LOSS, sep="\n")
    for name in CASES:
        make(folder, name)


if __name__ == "__main__":
    main(sys.argv[1])
