"""Reference files in plain float64 PyTorch, from the public definitions, for what transformers'
nemotron_h lacks: multi-token prediction, the load-balancing loss and the z-loss, routers with
a softmax before and after top-k. Nothing here is fast: the state-space model is its recurrence,
and every expert sees every token.

    reference.py FOLDER

The same functions are first held to nemotron_h itself on the models of nemotron_h.py. Weights
have the names and layout of this repository: linear ones are (in,out)."""

import os
import sys

import torch
import torch.nn.functional as F

import nemotron_h
from files import Draw, linear_radius, write, write_json
from safetensors.torch import save_file

BATCH, TIME = 2, 13


def rms_norm(x, w, eps):
    return x / (x.pow(2).mean(-1, keepdim=True) + eps).sqrt() * w


def relu2(x):
    return x.clamp(min=0) ** 2


def attention(c, w, x, _):
    """softmax(q·kᵀ/√P, causal)·v, query heads in groups that share a key and a value."""
    batch, time, _ = x.shape
    heads, kv, width = c["heads"], c["kv_heads"], c["head_dim"]
    q = (x @ w["attn.wq"]).view(batch, time, heads, width)
    k = (x @ w["attn.wk"]).view(batch, time, kv, width).repeat_interleave(heads // kv, 2)
    v = (x @ w["attn.wv"]).view(batch, time, kv, width).repeat_interleave(heads // kv, 2)
    score = torch.einsum("bthp,bshp->bhts", q, k) / width**0.5
    future = torch.ones(time, time, dtype=torch.bool).triu(1)
    p = score.masked_fill(future, float("-inf")).softmax(-1)
    return torch.einsum("bhts,bshp->bthp", p, v).reshape(batch, time, -1) @ w["attn.wo"]


def mlp(c, w, x, _):
    return relu2(x @ w["mlp.w1"]) @ w["mlp.w2"]


def mamba(c, w, x, losses):
    """S_t = exp(dt_t·A)·S_{t−1} + dt_t·x_t⊗B_t ; y_t = S_t·C_t + D·x_t ; norm(y·silu(z))·out_proj.
    Dao and Gu 2024, the recurrence."""
    s = c["ssm"]
    batch, time, _ = x.shape
    heads, width, state, groups = s["heads"], s["head_dim"], s["state"], s["groups"]
    inner, shared = heads * width, groups * state
    z, xbc, dt = (x @ w["ssm.in_proj"]).split([inner, inner + 2 * shared, heads], -1)

    taps = w["ssm.conv.w"].shape[1]
    past = F.pad(xbc, (0, 0, taps - 1, 0))
    xbc = F.silu(sum(past[:, j : j + time] * w["ssm.conv.w"][:, j] for j in range(taps)) + w["ssm.conv.b"])
    u, b, k = xbc.split([inner, shared, shared], -1)
    u = u.view(batch, time, heads, width)
    b = b.view(batch, time, groups, state).repeat_interleave(heads // groups, 2)
    k = k.view(batch, time, groups, state).repeat_interleave(heads // groups, 2)

    dt = F.softplus(dt + w["ssm.dt_bias"])
    losses.edge = min(losses.edge, (dt - s["dt_min"]).abs().min().item())
    dt = dt.clamp(min=s["dt_min"])
    decay = (dt * -w["ssm.a_log"].exp()).exp()
    held, out = torch.zeros(batch, heads, width, state, dtype=x.dtype), []
    for t in range(time):
        held = decay[:, t, :, None, None] * held + torch.einsum("bh,bhp,bhn->bhpn", dt[:, t], u[:, t], b[:, t])
        out.append(torch.einsum("bhpn,bhn->bhp", held, k[:, t]) + w["ssm.d"][:, None] * u[:, t])
    y = torch.stack(out, 1).reshape(batch, time, inner) * F.silu(z)
    y = rms_norm(y.view(batch, time, groups, -1), 1.0, c["eps"]).reshape(batch, time, inner) * w["ssm.norm.w"]
    return y @ w["ssm.out_proj"]


class Losses:
    """The losses that routers add, and how near another choice and the edge of a clamp were."""

    def __init__(self):
        self.aux, self.z, self.gap, self.edge = [], [], float("inf"), float("inf")

    def sum(self):
        return sum(self.aux), sum(self.z)

    def top(self, x, k):
        """The k largest, in no order that matters."""
        best = x.sort(-1, descending=True)
        if k < x.shape[-1]:
            self.gap = min(self.gap, (best.values[..., k - 1] - best.values[..., k]).min().item())
        return best.indices[..., :k]


def choose(m, compared, bias, losses):
    """The K largest of compared + bias, within the kept groups. The score of a group is the sum
    of its group_top largest."""
    biased = (compared + bias).detach()
    groups = m.get("groups", 0)
    if groups > 1:
        parts = biased.view(len(biased), groups, -1)
        score = parts.sort(-1, descending=True).values[..., : m["group_top"] or m["top_k"] // m["groups_kept"]].sum(-1)
        kept = torch.zeros_like(score, dtype=torch.bool).scatter(1, losses.top(score, m["groups_kept"]), True)
        biased = parts.masked_fill(~kept[..., None], float("-inf")).view_as(biased)
    return losses.top(biased, m["top_k"])


def experts(c, w, x, losses):
    m = c["moe"]
    rows = x.flatten(0, 1)
    logits = rows @ w["moe.router.w"].T
    scores = logits.sigmoid() if m["router"] == "sigmoid" else logits.softmax(-1)
    compared = logits if m["router"] == "softmax_topk" else scores
    index = choose(m, compared, w["moe.router.bias"], losses)
    s = compared.gather(1, index)
    if m["router"] == "softmax_topk":
        p = s.softmax(-1)
    elif m["router"] == "sigmoid" and m["top_k"] > 1:
        p = s / (s.sum(-1, keepdim=True) + 1e-20)
    else:
        p = s
    p = m["scaling"] * p

    z = m["z_coeff"] * logits.logsumexp(-1).pow(2).mean()
    losses.z.append(z)
    losses.aux.append(balance(m, scores, x.shape[:2], losses))

    inside = rows @ w["moe.latent.down"] if m.get("latent") else rows
    h = relu2(torch.einsum("td,edf->tef", inside, w["moe.experts.w1"]))
    each = torch.einsum("tef,efd->ted", h, w["moe.experts.w2"])
    y = (p[..., None] * each.gather(1, index[..., None].expand(-1, -1, each.shape[-1]))).sum(1)
    if m.get("latent"):
        y = y @ w["moe.latent.up"]
    return (y + relu2(rows @ w["moe.shared.w1"]) @ w["moe.shared.w2"]).view_as(x)


def balance(m, scores, shape, losses):
    """Σ_i (Σ_t P_ti)·n_i · E·coeff/(K·T²): P a token's scores as shares of their sum, n_i how many
    tokens have expert i among their K largest scores, without bias and groups. T is the tokens of
    the batch, or those of a sequence, over which the loss is then averaged."""
    share = scores / (scores.sum(-1, keepdim=True) + 1e-20) if m["router"] == "sigmoid" else scores
    n = F.one_hot(losses.top(scores.detach(), m["top_k"]), m["experts"]).sum(1).to(scores.dtype)
    by = shape if m.get("aux") == "sequence" else (1, shape[0] * shape[1])
    share, n = share.view(*by, -1).sum(1), n.view(*by, -1).sum(1)
    return (share * n).sum(-1).mean() * m["experts"] * m["aux_coeff"] / (m["top_k"] * by[1] ** 2)


MIXERS = {"*": attention, "-": mlp, "M": mamba, "E": experts}


def layers(c, weights, scope, pattern, x, losses):
    """x + mixer(norm(x)), a letter at a time."""
    for i, letter in enumerate(pattern):
        at = f"{scope}layers.{i}."
        w = {k[len(at):]: v for k, v in weights.items() if k.startswith(at)}
        x = x + MIXERS[letter](c, w, rms_norm(x, w["norm.w"], c["eps"]), losses)
    return x


def forward(c, w, tokens, targets):
    """Logits and losses. Multi-token prediction as in DeepSeek-V3 and Megatron Core: at depth k the
    embedding of token t+k joins the hidden state of depth k−1 and predicts token t+k+1."""
    losses = Losses()
    pattern, _, inner = c["pattern"].partition("/")
    x = layers(c, w, "", pattern, w["embed.w"][tokens], losses)
    h = rms_norm(x, w["norm.w"], c["eps"])
    head = w["embed.w"] if c["tied"] else w["head.w"]
    logits = h @ head.T
    out = {"logits": logits, "loss.lm": cross_entropy(logits, targets)}
    total, predicted = out["loss.lm"], 0
    for k in range(1, 1 + (c["mtp"]["depths"] if inner else 0)):
        scope = "mtp.0." if c["mtp"]["repeated"] else f"mtp.{k - 1}."
        ahead = F.pad(tokens[:, k:], (0, k), value=0)
        joined = torch.cat([rms_norm(w["embed.w"][ahead], w[scope + "enorm.w"], c["eps"]),
                            rms_norm(h, w[scope + "hnorm.w"], c["eps"])], -1)
        h = layers(c, w, scope, inner, joined @ w[scope + "proj"], losses)
        h = rms_norm(h, w[scope + "norm.w"], c["eps"])
        one = cross_entropy(h @ head.T, F.pad(targets[:, k:], (0, k), value=-1))
        predicted = predicted + c["mtp"]["factor"] / c["mtp"]["depths"] * one
    if inner:
        out["loss.mtp"], total = predicted, total + predicted
    if losses.aux:
        out["loss.aux"], out["loss.z"] = losses.sum()
        total = total + out["loss.aux"] + out["loss.z"]
    return {**out, "loss": total}, losses


def cross_entropy(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1)


def config(pattern, moe={}, **fields):
    """A configuration of this repository, every extent its own."""
    return {
        "pattern": pattern, "vocab": 23, "width": 14, "heads": 4, "kv_heads": 2, "head_dim": 5, "hidden": 18,
        "eps": 1e-5, "init_std": 0.5, "tied": False,
        "ssm": {"heads": 6, "head_dim": 4, "state": 5, "groups": 3, "conv": 4, "dt_min": 0.03125},
        "moe": {"experts": 8, "top_k": 3, "hidden": 9, "shared_hidden": 11, "latent": 0, "router": "sigmoid",
                "router_dtype": "fp32", "scaling": 2.5, "groups": 0, "groups_kept": 0, "group_top": 0, "aux": "batch",
                "aux_coeff": 0.75, "z_coeff": 0.125, "tile_m": 4, "tile_n": 8, "tile_sub": 3, **moe}, **fields}


CASES = {
    "losses": (config("ME*E", {"top_k": 2, "groups": 2, "groups_kept": 1}), 2),
    "losses_sequence": (config("E-E", {"aux": "sequence", "latent": 6}, tied=True), 1),
    "softmax": (config("E*E", {"router": "softmax"}), 8),
    "softmax_topk": (config("E*E", {"router": "softmax_topk"}), 6),
    "mtp": (config("M*E-/*E", mtp={"depths": 2, "repeated": False, "factor": 0.3}), 2),
    "mtp_repeated": (config("*E/M-E", mtp={"depths": 2, "repeated": True, "factor": 0.3}), 2),
}


def layer_shapes(c, letter):
    d, m, s = c["width"], c["moe"], c["ssm"]
    q, kv = c["heads"] * c["head_dim"], c["kv_heads"] * c["head_dim"]
    inner, shared = s["heads"] * s["head_dim"], s["groups"] * s["state"]
    channels, at = inner + 2 * shared, m["latent"] or d
    latent = {"moe.latent.down": (d, at), "moe.latent.up": (at, d)} if m["latent"] else {}
    return {"norm.w": (d,)} | {
        "*": {"attn.wq": (d, q), "attn.wk": (d, kv), "attn.wv": (d, kv), "attn.wo": (q, d)},
        "-": {"mlp.w1": (d, c["hidden"]), "mlp.w2": (c["hidden"], d)},
        "E": {"moe.router.w": (m["experts"], d), "moe.router.bias": (m["experts"],),
              "moe.experts.w1": (m["experts"], at, m["hidden"]), "moe.experts.w2": (m["experts"], m["hidden"], at),
              "moe.shared.w1": (d, m["shared_hidden"]), "moe.shared.w2": (m["shared_hidden"], d), **latent},
        "M": {"ssm.in_proj": (d, inner + channels + s["heads"]), "ssm.conv.w": (channels, s["conv"]),
              "ssm.conv.b": (channels,), "ssm.dt_bias": (s["heads"],), "ssm.a_log": (s["heads"],), "ssm.d": (s["heads"],),
              "ssm.norm.w": (inner,), "ssm.out_proj": (inner, d)},
    }[letter]


def shapes(c):
    d = c["width"]
    pattern, _, inner = c["pattern"].partition("/")
    all = {"embed.w": (c["vocab"], d), "norm.w": (d,)} | ({} if c["tied"] else {"head.w": (c["vocab"], d)})
    scopes = [("", pattern)]
    for k in range((1 if c["mtp"]["repeated"] else c["mtp"]["depths"]) if inner else 0):
        scopes.append((f"mtp.{k}.", inner))
        all |= {f"mtp.{k}.{n}": v for n, v in {"enorm.w": (d,), "hnorm.w": (d,), "proj": (2 * d, d), "norm.w": (d,)}.items()}
    for scope, letters in scopes:
        for i, letter in enumerate(letters):
            all |= {f"{scope}layers.{i}.{n}": v for n, v in layer_shapes(c, letter).items()}
    return all


def fill(name, shape, draw):
    if name.endswith("router.bias"):
        return draw.around(shape, 0, 0.25)
    if name.endswith(("norm.w", "ssm.d")):
        return draw.around(shape, 1, 0.5)
    if name.endswith("a_log"):
        return draw.uniform(shape, -0.5, 2.5)
    if name.endswith("dt_bias"):
        return draw.uniform(shape, -5, 0)
    if ".conv." in name:
        return draw.around(shape, 0, 0.5)
    if name == "embed.w":
        return draw.around(shape, 0, 1.5)
    inputs = shape[-1] if name.endswith(("router.w", "head.w")) else shape[-2]
    return draw.around(shape, 0, linear_radius(inputs))


def stored(c, name, x):
    """A weight or its gradient as the repository stores it: what the functions above have kind by kind
    (z, x, B, C, dt; and the channels x, B, C) lies there group by group."""
    s = c["ssm"]
    inner, shared = s["heads"] * s["head_dim"], s["groups"] * s["state"]
    if name.endswith("ssm.in_proj"):
        dim, kinds = 1, [inner, inner, shared, shared, s["heads"]]
    elif ".ssm.conv." in name:
        dim, kinds = 0, [inner, shared, shared]
    else:
        return x
    parts = [p.unflatten(dim, (s["groups"], -1)) for p in x.split(kinds, dim)]
    return torch.cat(parts, dim + 1).flatten(dim, dim + 1)


def make(folder, name):
    c, seed = CASES[name]
    draw = Draw(seed)
    w = {n: fill(n, s, draw) for n, s in sorted(shapes(c).items())}
    learned = {n: x.requires_grad_() for n, x in w.items() if not n.endswith("router.bias")}
    tokens = draw.tokens(BATCH, TIME + 1, c["vocab"])
    tokens, targets = tokens[:, :-1].contiguous(), tokens[:, 1:].clone()
    if "mtp" not in c:
        targets[0, 3] = -1  # left out
    out, losses = forward(c, w, tokens, targets)
    out["loss"].backward()
    assert all(x.grad is not None and x.grad.abs().max() > 0 for x in learned.values())
    to = os.path.join(folder, name)
    write(to, {"tokens": tokens, "targets": targets, **out}, {n: stored(c, n, x.grad) for n, x in learned.items()})
    write_json(os.path.join(to, "config.json"), c)
    save_file({n: stored(c, n, x.detach()).float().contiguous() for n, x in w.items()}, os.path.join(to, "model.safetensors"))
    print(f"{name}: " + ", ".join(f"{n} {x.item():.12f}" for n, x in out.items() if x.dim() == 0) + f"; smallest gap {losses.gap:.1e}, edge {losses.edge:.1e}")
    assert losses.gap > 1e-4 and losses.edge > 1e-5


THEIRS = {  # what follows "layers.I.mixer." there, for matrices that lie transposed here
    "q_proj.weight": "attn.wq", "k_proj.weight": "attn.wk", "v_proj.weight": "attn.wv", "o_proj.weight": "attn.wo",
    "up_proj.weight": "mlp.w1", "down_proj.weight": "mlp.w2", "in_proj.weight": "ssm.in_proj", "out_proj.weight": "ssm.out_proj",
    "experts.up_proj": "moe.experts.w1", "experts.down_proj": "moe.experts.w2", "fc1_latent_proj.weight": "moe.latent.down",
    "fc2_latent_proj.weight": "moe.latent.up", "shared_experts.up_proj.weight": "moe.shared.w1",
    "shared_experts.down_proj.weight": "moe.shared.w2",
}
SAME = {"gate.weight": "moe.router.w", "gate.e_score_correction_bias": "moe.router.bias", "conv1d.bias": "ssm.conv.b",
        "dt_bias": "ssm.dt_bias", "A_log": "ssm.a_log", "D": "ssm.d", "norm.weight": "ssm.norm.w"}
OUTER = {"model.embeddings.weight": "embed.w", "model.norm_f.weight": "norm.w", "lm_head.weight": "head.w"}


def renamed(name, x):
    if name in OUTER:
        return OUTER[name], x
    _, _, i, *rest = name.split(".")
    if rest[0] == "norm":
        return f"layers.{i}.norm.w", x
    rest = ".".join(rest[1:])
    if rest == "conv1d.weight":
        return f"layers.{i}.ssm.conv.w", x.squeeze(1)
    if rest in SAME:
        return f"layers.{i}.{SAME[rest]}", x
    return f"layers.{i}.{THEIRS[rest]}", x.transpose(-1, -2)


def hold_to_transformers():
    """The functions above and nemotron_h compute the same logits and gradients."""
    for name, (case, time, seed) in nemotron_h.CASES.items():
        draw = Draw(seed)
        model = nemotron_h.build(case, draw)
        tokens = draw.tokens(nemotron_h.BATCH, time, case.vocab_size)
        theirs = model(tokens, labels=tokens)
        theirs.loss.backward()
        w = dict(renamed(n, x.detach().clone()) for n, x in model.state_dict().items())
        c = {"pattern": case.hybrid_override_pattern, "heads": case.num_attention_heads, "kv_heads": case.num_key_value_heads,
             "head_dim": case.head_dim, "eps": case.layer_norm_epsilon, "tied": False,
             "ssm": {"heads": case.mamba_num_heads, "head_dim": case.mamba_head_dim, "state": case.ssm_state_size,
                     "groups": case.n_groups, "dt_min": case.time_step_min},
             "moe": {"experts": case.n_routed_experts, "top_k": case.num_experts_per_tok, "router": "sigmoid",
                     "scaling": case.routed_scaling_factor, "groups": case.n_group, "groups_kept": case.topk_group,
                     "group_top": 2, "latent": case.moe_latent_size, "aux_coeff": 0.0, "z_coeff": 0.0}}
        for x in w.values():
            x.requires_grad_()
        ours, _ = forward(c, w, tokens, F.pad(tokens[:, 1:], (0, 1), value=-1))
        ours["loss"].backward()
        far = [distance(ours["logits"], theirs.logits)]
        for n, p in model.named_parameters():
            n, g = renamed(n, p.grad)
            far.append(distance(w[n].grad, g))
        print(f"{name}: logits and {len(far) - 1} gradients within {max(far):.1e} of transformers'")
        assert max(far) < 1e-12


def distance(a, b):
    return ((a - b).abs().max() / b.abs().max()).item()


def main(folder):
    hold_to_transformers()
    for name in CASES:
        make(folder, name)


if __name__ == "__main__":
    main(sys.argv[1])
