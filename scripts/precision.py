"""Tabulates and plots the losses of runs in several precisions, DIR/PRECISION.json as train --json writes it."""
import json
import sys

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

ALLOWED = {"bf16": 0.01, "fp16": 0.01, "fp8": 0.03, "mxfp8": 0.03, "nvfp4": 0.05}
LAST = 20  # steps whose mean a run ends with


def losses(path):
    with open(path) as f:
        return [s["metrics"]["lm_loss"]["value"] for s in json.load(f)["steps"]]


def smooth(x, n=LAST):
    return [sum(x[max(0, i - n + 1) : i + 1]) / min(i + 1, n) for i in range(len(x))]


def main(folder, plot):
    runs = {p: losses(f"{folder}/{p}.json") for p in ["fp32", *ALLOWED]}
    ends = {p: sum(x[-LAST:]) / LAST for p, x in runs.items()}
    print("| precision | lm_loss after 300 steps | beside fp32 | allowed |")
    print("|---|---|---|---|")
    print(f"| `fp32` | {ends['fp32']:.4f} | | |")
    far = False
    for p, allowed in ALLOWED.items():
        off = ends[p] / ends["fp32"] - 1
        far = far or abs(off) > allowed
        print(f"| `{p}` | {ends[p]:.4f} | {100 * off:+.2f} % | {100 * allowed:.0f} % |")

    plt.rcParams.update({"svg.hashsalt": "firstbit", "font.size": 10})
    figure, (top, bottom) = plt.subplots(2, 1, figsize=(7, 5.5), sharex=True, height_ratios=[3, 2])
    reference = smooth(runs["fp32"])
    for i, (p, x) in enumerate(runs.items()):
        curve, steps = smooth(x), range(1, len(x) + 1)
        top.plot(steps, curve, f"C{i}", label=p, lw=1.3)
        bottom.plot(steps, [100 * (a / b - 1) for a, b in zip(curve, reference)], f"C{i}", lw=1.1)
    top.set_ylabel(f"lm_loss, mean of {LAST} steps (nats)")
    top.legend(frameon=False)
    bottom.set_ylabel("beside fp32 (%)")
    bottom.set_xlabel("step of preset small")
    for axis in (top, bottom):
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.25)
    figure.tight_layout()
    figure.savefig(plot, metadata={"Date": None})
    return 1 if far else 0


sys.exit(main(*sys.argv[1:]))
