"""Two steps on documents that are packed into sequences, by PyTorch's own: scaled_dot_product_attention with a block-diagonal mask, the
state-space model a document at a time, cross_entropy with ignore_index, divided by the labels of the whole step or of each microbatch,
then clip_grad_norm_ and AdamW. The second step is what an epoch has left: half a window.

    packed.py FOLDER

The model is reference.py's, in float64."""

import os
import sys

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

import reference
from files import Draw, write_json
from reference import Losses, config, fill, layers, rms_norm, shapes, stored

STEPS, MICRO, BATCH, TIME = 2, 4, 2, 12
# The order in which the sampler of this repository deals the windows of the corpus, for seed 1; the test holds it to that.
WINDOWS = [3, 7, 6, 9, 0, 1, 4, 2, 8, 11, 5, 10]
CONFIG = config("M*E-/*M", {"aux": "sequence"}, mtp={"depths": 2, "repeated": False, "factor": 0.3})
LENGTHS, PROMPT, SEED = [2, 9, 5, 1, 14, 7, 3], 0.4, 3
CLIP = 0.25


class Packed:
    """A corpus and its documents."""

    def __init__(self, draw):
        self.tokens = draw.tokens(1, len(WINDOWS) * TIME + 1, CONFIG["vocab"])[0]
        self.begins = [0]
        while self.begins[-1] + LENGTHS[len(self.begins) % len(LENGTHS)] < len(self.tokens):
            self.begins.append(self.begins[-1] + LENGTHS[len(self.begins) % len(LENGTHS)])
        ends = self.begins[1:] + [len(self.tokens)]
        of = torch.cat([torch.full((e - b,), i) for i, (b, e) in enumerate(zip(self.begins, ends))])
        prompt = torch.cat([torch.arange(e - b) < int(PROMPT * (e - b)) for b, e in zip(self.begins, ends)])
        # A label counts for nothing at the last token of a document, and in the prompt of its own.
        targets = self.tokens[1:].clone()
        targets[(of[1:] != of[:-1]) | prompt[1:]] = -1
        self.of, self.targets = of, targets

    def batch(self, samples):
        at = [WINDOWS[n] * TIME for n in samples]
        return [torch.stack([x[i : i + TIME] for i in at]) for x in (self.tokens, self.targets, self.of)]


def attention(c, w, x, _):
    batch, time, _ = x.shape
    q, k, v = ((x @ w["attn." + n]).view(batch, time, -1, c["head_dim"]).transpose(1, 2) for n in ("wq", "wk", "wv"))
    past = torch.ones(time, time, dtype=torch.bool).tril()
    mask = past & (OF[:, :, None] == OF[:, None, :])
    y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None], enable_gqa=True)
    return y.transpose(1, 2).reshape(batch, time, -1) @ w["attn.wo"]


def mamba(c, w, x, losses):
    """Each document by itself."""
    rows = []
    for seq, of in zip(x, OF):
        parts = seq.split(torch.unique_consecutive(of, return_counts=True)[1].tolist())
        rows.append(torch.cat([alone(c, w, part[None], losses)[0] for part in parts]))
    return torch.stack(rows)


alone = reference.mamba
reference.MIXERS.update({"*": attention, "M": mamba})


def ahead(x, k, fill):
    """x, k steps later in the same document."""
    y = torch.full_like(x, fill)
    same = OF[:, k:] == OF[:, :-k]
    y[:, :-k] = torch.where(same, x[:, k:], y[:, :-k])
    return y


def cross_entropy(logits, targets):
    """The sum, and the number of labels."""
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1, reduction="sum"), (targets >= 0).sum()


def microbatch(w, tokens, targets, of):
    """Sums and labels of the main head and of each depth, and the routers' losses."""
    global OF
    OF = of
    losses = Losses()
    pattern, _, inner = CONFIG["pattern"].partition("/")
    x = layers(CONFIG, w, "", pattern, w["embed.w"][tokens], losses)
    h = rms_norm(x, w["norm.w"], CONFIG["eps"])
    heads = [cross_entropy(h @ w["head.w"].T, targets)]
    for k in range(1, 1 + CONFIG["mtp"]["depths"]):
        scope = f"mtp.{k - 1}."
        joined = torch.cat([rms_norm(w["embed.w"][ahead(tokens, k, 0)], w[scope + "enorm.w"], CONFIG["eps"]),
                            rms_norm(h, w[scope + "hnorm.w"], CONFIG["eps"])], -1)
        h = rms_norm(layers(CONFIG, w, scope, inner, joined @ w[scope + "proj"], losses), w[scope + "norm.w"], CONFIG["eps"])
        heads.append(cross_entropy(h @ w["head.w"].T, ahead(targets, k, -1)))
    assert losses.gap > 1e-4 and losses.edge > 1e-6, (losses.gap, losses.edge)
    return heads, sum(losses.sum())


def loss_of(step, per_token):
    """The loss of a step's microbatches, as Megatron divides it with and without calculate_per_token_loss."""
    weight = CONFIG["mtp"]["factor"] / CONFIG["mtp"]["depths"]
    if per_token:
        labels = sum(heads[0][1] for heads, _ in step)
        return sum(heads[0][0] + weight * sum(s for s, _ in heads[1:]) + BATCH * TIME * own for heads, own in step) / labels
    mean = lambda head: head[0] / head[1].clamp(min=1)
    return sum(mean(heads[0]) + weight * sum(map(mean, heads[1:])) + own for heads, own in step) / len(step)


def train(w, corpus, per_token):
    w = {n: x.clone().requires_grad_(not n.endswith("router.bias")) for n, x in w.items()}
    learned = {n: x for n, x in w.items() if x.requires_grad}
    optim = torch.optim.AdamW(learned.values(), lr=1e-2, betas=(0.9, 0.95), eps=1e-8, weight_decay=0)
    out, at = {}, 0
    for step in range(1, STEPS + 1):
        optim.zero_grad()
        window = []
        for _ in range(min(MICRO, (len(WINDOWS) - at) // BATCH)):
            window.append(microbatch(w, *corpus.batch(range(at, at + BATCH))))
            at += BATCH
        assert len(window) == (MICRO if step == 1 else MICRO // 2)
        labels = [int(heads[0][1]) for heads, _ in window]
        loss = loss_of(window, per_token)
        loss.backward()
        out[f"step{step}.loss"] = loss.detach()
        # What the gradients were before they are clipped.
        out |= {f"step{step}.grad.{n}": stored(CONFIG, n, x.grad.clone()) for n, x in learned.items()}
        norm = torch.nn.utils.clip_grad_norm_(learned.values(), CLIP)
        assert norm > CLIP, norm
        out[f"step{step}.norm"] = norm
        optim.step()
        out |= {f"step{step}.w.{n}": stored(CONFIG, n, x.detach().clone()) for n, x in learned.items()}
        print(f"packed: per_token={per_token} step {step}: loss {loss.item():.12f}, labels {labels}")
    return out


def main(folder):
    draw = Draw(SEED)
    w = {n: fill(n, s, draw) for n, s in sorted(shapes(CONFIG).items())}
    corpus = Packed(draw)
    for name, per_token in ("packed", True), ("packed_micro", False):
        to = os.path.join(folder, name)
        os.makedirs(to)
        write_json(os.path.join(to, "config.json"), CONFIG)
        save_file({n: stored(CONFIG, n, x).float().contiguous() for n, x in w.items()}, os.path.join(to, "model.safetensors"))
        both = {"corpus": corpus.tokens, "documents": torch.tensor(corpus.begins), "windows": torch.tensor(WINDOWS), **train(w, corpus, per_token)}
        save_file({n: x.contiguous() for n, x in both.items()}, os.path.join(to, "outputs.safetensors"))


if __name__ == "__main__":
    main(sys.argv[1])
