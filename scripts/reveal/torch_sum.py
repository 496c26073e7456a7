"""Sums for `firstbit reveal --exec` on PyTorch, on the processor or a GPU.

    firstbit reveal -n 64 --exec 'python3 scripts/reveal/torch_sum.py sum'
    firstbit reveal -n 64 --exec 'python3 scripts/reveal/torch_sum.py matmul cuda bfloat16'
"""
import sys

import torch

SUMS = {
    "sum": lambda x: x.sum(),
    "dot": lambda x: x @ torch.ones_like(x),
    "matmul": lambda x: (x.repeat(16, 1) @ torch.ones(len(x), 16, device=x.device, dtype=x.dtype))[0, 0],
    "cumsum": lambda x: torch.cumsum(x, 0)[-1],
    "scatter_add": lambda x: torch.zeros(1, device=x.device, dtype=x.dtype).scatter_add(0, torch.zeros(len(x), dtype=torch.int64, device=x.device), x)[0],
}

name, device, dtype = (sys.argv[1:] + ["sum", "cpu", "float32"][len(sys.argv) - 1:])[:3]
add, dtype = SUMS[name], getattr(torch, dtype)
for line in sys.stdin:
    x = torch.tensor([float(v) for v in line.split()], dtype=dtype, device=device)
    print(repr(float(add(x))), flush=True)
