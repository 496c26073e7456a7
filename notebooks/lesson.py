"""What the lessons share: running firstbit, reading what it writes, and the look of pictures. Lessons have no logic of the project's own."""

import json, os, pathlib, shlex, shutil, subprocess, tempfile

import matplotlib.pyplot as plt
import numpy as np
from IPython.display import SVG, display

A, B, C, GREY = "#0072B2", "#D55E00", "#009E73", "#BBBBBB"  # run A, run B, what is right, what is the same
plt.rcParams.update({"figure.dpi": 100, "figure.constrained_layout.use": True, "font.size": 10, "axes.titlesize": 11,
                     "axes.spines.top": False, "axes.spines.right": False, "legend.frameon": False})

repo = next(d for d in [pathlib.Path.cwd(), *pathlib.Path.cwd().parents] if (d / "go.mod").exists())
work = tempfile.TemporaryDirectory()
home = pathlib.Path(work.name)
program = os.environ.get("FIRSTBIT")
if not program:
    program = str(home / "firstbit")
    subprocess.run(["go", "build", "-o", program, "./cmd/firstbit"], cwd=repo, check=True)


def words(args):
    """Arguments as one types them: lines are split as by a shell, lists are words already."""
    return [w for a in args for w in (shlex.split(a) if isinstance(a, str) else map(str, a))]


def run(*args, ok=(0,)):
    """What the command prints. Exit codes other than ok are an error. Folders are written anew, so a cell can run again."""
    command = words(args)
    for flag, folder in zip(command, command[1:]):
        if flag in ("--trace", "--save"):
            shutil.rmtree(home / folder, ignore_errors=True)
    p = subprocess.run([program, *command], cwd=home, capture_output=True, text=True)
    if p.returncode not in ok:
        raise RuntimeError(p.stderr.strip() or f"firstbit {shlex.join(words(args))}: exit {p.returncode}")
    return p.stdout


def firstbit(*args, ok=(0, 1)):
    return json.loads(run(*args, "--json", ok=ok))


def show(*args):
    """The command as one would type it, and what it prints."""
    print("$ firstbit", shlex.join(words(args)))
    print(run(*args, ok=(0, 1)).rstrip())


def picture(*args):
    display(SVG(run(*args, "--svg")))


def records(trace):
    """The records of a trace, of each rank in the order of execution."""
    files = sorted((home / trace).glob("rank*.jsonl"))
    return [r for f in files for r in map(json.loads, f.open()) if r["kind"] != "end"]


def path(r):
    return ".".join(filter(None, [r["scope"], r["name"]]))


def bf16(codes):
    return (np.asarray(codes, "<u2").astype("<u4") << 16).view("<f4")


def tensor(trace, sig):
    """The elements of a tensor whose bytes the trace kept: numbers, or the codes of formats that numpy does not have."""
    plain = {"fp64": "<f8", "fp32": "<f4", "fp16": "<f2", "bf16": "<u2", "int32": "<i4"}
    raw = np.fromfile(home / trace / sig["dump"], plain.get(sig["dtype"], "u1"))
    if sig["dtype"] == "e2m1":  # two codes a byte, the low one first
        raw = np.stack([raw & 15, raw >> 4], 1).reshape(-1)
    return (bf16(raw) if sig["dtype"] == "bf16" else raw).reshape(sig["shape"])


def place(x):
    """Where floats stand in the order of all floats of their format: two are as many ulps apart as their places."""
    x = np.asarray(x)
    i = x.view(f"<i{x.itemsize}").astype(np.int64)
    return np.where(i < 0, -(i & np.iinfo(f"i{x.itemsize}").max) - 1, i)


def bits(a, b, dtype, title):
    """Two bit patterns, in hex, by sign, exponent and fraction; bits that differ stand out."""
    width, exponent = 4 * len(a), {"fp64": 11, "fp32": 8, "bf16": 8, "fp16": 5, "e4m3": 4, "e5m2": 5}[dtype]
    patterns = [f"{int(x, 16):0{width}b}" for x in (a, b)]
    fig, ax = plt.subplots(figsize=(min(0.27 * width + 1.2, 12), 1.7))
    for row, pattern in enumerate(patterns):
        for i, bit in enumerate(pattern):
            other = patterns[0][i] != patterns[1][i]
            color = B if other else "#e8e8e8" if i == 0 else "#cfe3f3" if i <= exponent else "#fbe3cf"
            ax.add_patch(plt.Rectangle((i, -row), 0.94, 0.9, fc=color))
            ax.text(i + 0.47, 0.43 - row, bit, ha="center", va="center", family="monospace",
                    color="white" if other else "black", weight="bold" if other else "normal")
        ax.text(-0.3, 0.43 - row, f"run {'AB'[row]}", ha="right", va="center")
    for field, at in ("±", 0.5), ("exponent", 1 + exponent / 2), ("fraction", (1 + exponent + width) / 2):
        ax.text(at, 1.05, field, ha="center", va="bottom", color="#555555")
    ax.set(xlim=(-0.12 * width - 1, width), ylim=(-1.1, 1.6), title=title)
    ax.axis("off")
    plt.show()
