"""Learning rates by the formulas of Megatron's OptimizerParamScheduler.get_lr, in Python's float64.

    schedule.py FOLDER

A position is how many steps were taken, the one at hand included. The file has the rates as
hexadecimal numbers, so that nothing is rounded between the two languages."""

import math
import os
import sys

from files import write_json


def rate(c, position, steps):
    """get_lr with a warmup from 0; lr_decay_steps is steps."""
    lr, low, warmup = c["lr"], c["min_lr"], c["warmup"]
    if warmup > 0 and position <= warmup:
        return lr * float(position) / float(warmup)
    if c["decay"] == "constant":
        return lr
    if position > steps:
        return low
    ratio = float(position - warmup) / float(steps - warmup)
    style = c["decay"]
    if style == "wsd":
        start = steps - c["wsd_steps"]
        if position <= start:
            return low + 1.0 * (lr - low)
        ratio, style = float(position - start) / float(c["wsd_steps"]), c["wsd_decay"]
    coeff = {
        "linear": lambda: 1.0 - ratio,
        "cosine": lambda: 0.5 * (math.cos(math.pi * ratio) + 1.0),
        "exponential": lambda: (2.0 * math.pow(0.5, ratio)) - 1.0,
        "minus_sqrt": lambda: 1.0 - math.sqrt(ratio),
    }[style]()
    return low + coeff * (lr - low)


def main(folder):
    cases = []
    for lr, low, warmup, steps in ((5e-3, 5e-4, 5, 50), (3e-4, 3e-5, 7, 97), (1e-2, 0.0, 0, 33)):
        base = {"lr": lr, "min_lr": low, "warmup": warmup, "wsd_steps": 0, "wsd_decay": "linear"}
        ways = [{"decay": d} for d in ("constant", "linear", "cosine")]
        ways += [{"decay": "wsd", "wsd_steps": 11, "wsd_decay": d} for d in ("linear", "cosine", "exponential", "minus_sqrt")]
        for way in ways:
            c = base | way
            rates = [rate(c, position, steps).hex() for position in range(1, steps + 4)]
            cases.append({"optim": c, "steps": steps, "rates": rates})
    os.makedirs(folder, exist_ok=True)
    write_json(os.path.join(folder, "rates.json"), cases)


if __name__ == "__main__":
    main(sys.argv[1])
