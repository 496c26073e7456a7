"""What the scripts of this folder share: weights drawn on a grid, and files of tensors."""

import json
import os

import numpy
import torch
from safetensors.torch import save_file

torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)


class Draw:
    """Uniform numbers k/2048, k from a named generator's integers: float32 holds them, and no
    elementary function has a part in them."""

    def __init__(self, seed):
        self.numbers = numpy.random.Generator(numpy.random.PCG64(seed))

    def uniform(self, shape, low, high):
        k = self.numbers.integers(0, 2049, size=tuple(shape))
        x = low + (high - low) * (torch.from_numpy(k).double() / 2048)
        return x.float().double()  # rounded to float32 once

    def around(self, shape, centre, radius):
        return self.uniform(shape, centre - radius, centre + radius)

    def tokens(self, batch, time, vocab):
        return torch.from_numpy(self.numbers.integers(0, vocab, size=(batch, time)))


def linear_radius(inputs):
    """The radius that gives a sum over so many inputs of unit variance a variance of one."""
    return (3.0 / inputs) ** 0.5


def write(folder, outputs, gradients):
    os.makedirs(folder, exist_ok=True)
    save_file({k: v.detach().contiguous() for k, v in outputs.items()}, os.path.join(folder, "outputs.safetensors"))
    save_file({k: v.detach().contiguous() for k, v in gradients.items()}, os.path.join(folder, "gradients.safetensors"))


def write_json(path, value):
    with open(path, "w") as f:
        f.write(json.dumps(value, indent=2, sort_keys=True) + "\n")
