"""Loads folders that firstbit wrote with transformers' from_pretrained, and compares logits.

    loads.py FOLDER...

Each has config.json and model.safetensors, and outputs.safetensors with the token ids and the
logits that firstbit computed in float64."""

import os
import sys

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

import nemotron_h

WITHIN = 1e-10


def distance(model, out):
    logits = model(out["tokens"].long(), use_cache=False).logits.flatten(0, 1).double()
    return ((logits - out["logits"]).abs().max() / out["logits"].abs().max()).item()


def check(folder):
    library, info = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager", experts_implementation="eager", output_loading_info=True)
    left = {k: sorted(v) for k, v in info.items() if v}
    out = load_file(os.path.join(folder, "outputs.safetensors"))
    wide = nemotron_h.MODEL.NemotronHForCausalLM(library.config).double()
    wide.load_state_dict(library.state_dict())
    far = []
    with torch.no_grad():
        for model in (wide, library):
            far.append(distance(model, out))
        next(wide.parameters()).mul_(1 + 1e-6)
        control = distance(wide, out)
    name = os.path.basename(os.path.normpath(folder))
    print(f"  {name}: {sum(p.numel() for p in library.parameters())} weights, logits within {far[0]:.1e} in float64, "
          f"{far[1]:.1e} in float32; with the embedding off by a millionth {control:.1e}; left over: {left or 'nothing'}")
    return far[0] <= WITHIN and far[1] <= 1e-5 and control > WITHIN and not left


if __name__ == "__main__":
    sys.exit(not all([check(f) for f in sys.argv[1:]]))
