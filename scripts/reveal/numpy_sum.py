"""Sums for `firstbit reveal --exec`: vectors come one a line, one sum a line goes back.

    firstbit reveal -n 64 --exec 'python3 scripts/reveal/numpy_sum.py'
    firstbit reveal -n 64 --exec 'python3 scripts/reveal/numpy_sum.py dot'
"""
import sys

import numpy as np

SUMS = {
    "sum": lambda x: x.sum(),
    "dot": lambda x: x @ np.ones_like(x),
    "cumsum": lambda x: np.cumsum(x)[-1],
    "float64": lambda x: x.sum(dtype=np.float64),
    "python": lambda x: sum(x.tolist()),
}

add = SUMS[sys.argv[1] if len(sys.argv) > 1 else "sum"]
for line in sys.stdin:
    print(repr(float(add(np.array(line.split(), dtype=np.float32)))), flush=True)
