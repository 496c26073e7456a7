"""A few steps in fp16 with a dynamic loss scale: torch.amp.GradScaler, torch.optim.AdamW over fp32
masters, clipping by torch, and the layers of reference.py.

    loss_scale.py FOLDER

Weights are masters rounded to half. Activations and their gradients are rounded to half where
layers meet, and computed in float64 between. One step overflows, by a factor that no rounding
makes up for, and is skipped: the scaler halves its scale, and the schedule of the learning rate
stays where it is."""

import os
import sys

import torch
import torch.nn.functional as F

import reference
from files import Draw, write_json
from safetensors.torch import save_file
from schedule import rate

SEED, BATCH, TIME, STEPS, LARGEST = 3, 1, 8, 4, 65504.0
CONFIG = reference.config("*E-/*E", {"experts": 4, "top_k": 2, "hidden": 7, "shared_hidden": 6}, vocab=23, mtp={"depths": 1, "repeated": False, "factor": 0.3})
OPTIM = {"lr": 1e-2, "min_lr": 1e-3, "warmup": 2, "decay": "linear", "beta1": 0.9, "beta2": 0.95, "eps": 1e-2, "weight": 0.1, "clip": 0.5,
         "wsd_steps": 0, "wsd_decay": "linear", "loss_scale": {"initial": 2.0**18, "min": 1.0, "growth_interval": 2, "hysteresis": 1}}
most = [0.0]  # the largest gradient that was rounded


class Weight(torch.autograd.Function):
    """A master as kernels read it; its gradient stays in full precision."""

    @staticmethod
    def forward(ctx, x):
        return x.half().double()

    @staticmethod
    def backward(ctx, g):
        return g.float()


class Half(torch.autograd.Function):
    """An activation in half, and so is its gradient."""

    @staticmethod
    def forward(ctx, x):
        return x.half().double()

    @staticmethod
    def backward(ctx, g):
        most[0] = max(most[0], g.abs().max().item())
        return g.half().double()


half = Half.apply


def norm(c, x, w):
    return half(reference.rms_norm(x, w, c["eps"]))


def layers(c, weights, scope, pattern, x, losses):
    for i, letter in enumerate(pattern):
        at = f"{scope}layers.{i}."
        w = {k[len(at):]: v for k, v in weights.items() if k.startswith(at)}
        x = half(x + half(reference.MIXERS[letter](c, w, norm(c, x, w["norm.w"]), losses)))
    return x


def forward(c, w, tokens, targets):
    """reference.forward at depth one, in half."""
    losses = reference.Losses()
    pattern, _, inner = c["pattern"].partition("/")
    h = norm(c, layers(c, w, "", pattern, half(w["embed.w"][tokens]), losses), w["norm.w"])
    lm = reference.cross_entropy(half(h @ w["head.w"].T), targets)
    ahead = F.pad(tokens[:, 1:], (0, 1), value=0)
    joined = torch.cat([norm(c, half(w["embed.w"][ahead]), w["mtp.0.enorm.w"]), norm(c, h, w["mtp.0.hnorm.w"])], -1)
    d = norm(c, layers(c, w, "mtp.0.", inner, half(joined @ w["mtp.0.proj"]), losses), w["mtp.0.norm.w"])
    mtp = c["mtp"]["factor"] * reference.cross_entropy(half(d @ w["head.w"].T), F.pad(targets[:, 1:], (0, 1), value=-1))
    aux, z = losses.sum()
    return lm + mtp + aux + z, losses


def decays(name, x):
    return x.dim() > 1


def main(folder):
    c, draw, o = CONFIG, Draw(SEED), OPTIM
    masters = {n: reference.fill(n, s, draw).float() for n, s in sorted(reference.shapes(c).items())}
    learned = {n: x.requires_grad_() for n, x in masters.items() if not n.endswith("router.bias")}
    os.makedirs(folder, exist_ok=True)
    save_file({n: x.detach().clone() for n, x in masters.items()}, os.path.join(folder, "model.safetensors"))
    groups = [{"params": [x for n, x in learned.items() if decays(n, x) == d], "weight_decay": o["weight"] * d} for d in (True, False)]
    adamw = torch.optim.AdamW(groups, betas=(o["beta1"], o["beta2"]), eps=o["eps"], foreach=False)
    s = o["loss_scale"]
    scaler = torch.amp.GradScaler("cpu", init_scale=s["initial"], growth_interval=s["growth_interval"])
    position, out = 0, {}
    for step in range(1, STEPS + 1):
        tokens = draw.tokens(BATCH, TIME + 1, c["vocab"])
        tokens, targets = tokens[:, :-1].contiguous(), tokens[:, 1:].clone()
        for g in adamw.param_groups:
            g["lr"] = rate(o, position + 1, STEPS)
        adamw.zero_grad()
        scale, most[0] = scaler.get_scale(), 0.0
        loss, losses = forward(c, {n: Weight.apply(x) for n, x in masters.items()}, tokens, targets)
        scaler.scale(loss).backward()
        scaler.unscale_(adamw)
        gradients = {n: x.grad.clone() for n, x in learned.items()}
        clipped = torch.nn.utils.clip_grad_norm_(list(learned.values()), o["clip"])
        scaler.step(adamw)
        scaler.update()
        skipped = scaler.get_scale() < scale
        position += not skipped
        print(f"loss_scale, step {step}: loss {loss.item():.9f}, norm {clipped.item():.9f}, scale {scale}, largest gradient {most[0]:.0f}, "
              f"{'skipped' if skipped else 'taken'}; smallest gap {losses.gap:.1e}")
        assert losses.gap > 3e-3
        assert (most[0] > 1.2 * LARGEST) if skipped else (most[0] < LARGEST / 1.2)
        at = f"step{step}."
        out |= {at + "tokens": tokens, at + "targets": targets, at + "loss": loss.detach(), at + "scale": torch.tensor(scaler.get_scale()),
                at + "skipped": torch.tensor(int(skipped)), at + "position": torch.tensor(position)}
        if not skipped:
            out |= {at + "norm": clipped, **{at + n + ".grad": g for n, g in gradients.items()}}
        out |= {at + n: x.detach().clone() for n, x in learned.items()}
    save_file(out, os.path.join(folder, "steps.safetensors"))
    write_json(os.path.join(folder, "config.json"), {"model": c, "optim": o})


if __name__ == "__main__":
    main(sys.argv[1])
