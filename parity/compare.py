"""Says for each file of two folders whether it moved.

    compare.py OLD NEW

A file of tensors may differ by rounding, since another processor may add in another order: by
1e-12 of a tensor's largest element at most. Every other file must be the same bytes. Exits 1
if a file moved further, or is in one folder only."""

import os
import sys

import torch
from safetensors.torch import load_file

WITHIN = 1e-12


def files(folder):
    return sorted(os.path.relpath(os.path.join(at, f), folder) for at, _, names in os.walk(folder) for f in names)


def read(path):
    with open(path, "rb") as f:
        return f.read()


def moved(old, new):
    """What happened to a file, and whether that is too much."""
    if read(old) == read(new):
        return "same bytes", False
    if not old.endswith(".safetensors"):
        return "MOVED: other bytes", True
    a, b = load_file(old), load_file(new)
    if a.keys() != b.keys():
        return f"MOVED: tensors {sorted(a.keys() ^ b.keys())} in one only", True
    far, worst = 0.0, ""
    for name in sorted(a):
        x, y = a[name], b[name]
        if x.shape != y.shape or x.dtype != y.dtype:
            return f"MOVED: {name} has another shape or type", True
        x, y = x.double(), y.double()
        d = ((x - y).abs().max() / x.abs().max().clamp(min=1e-300)).item()
        if not d <= far:
            far, worst = d, name
    return f"{'same' if far <= WITHIN else 'MOVED'} within {far:.1e} ({worst or 'the same elements'})", not far <= WITHIN


def main(old, new):
    bad = False
    for name in sorted(set(files(old)) | set(files(new))):
        if not os.path.exists(os.path.join(new, name)) or not os.path.exists(os.path.join(old, name)):
            text, too_far = "MOVED: in one folder only", True
        else:
            text, too_far = moved(os.path.join(old, name), os.path.join(new, name))
        print(f"  {name}: {text}")
        bad = bad or too_far
    return bad


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
