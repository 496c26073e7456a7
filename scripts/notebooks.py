"""The outputs of notebooks, for notebooks.sh.

compare COMMITTED FRESH: is what they print the same?
rewrite COMMITTED FRESH: the fresh outputs take the place of the committed ones
alter FRESH OTHER: a copy in which one printed digit is another
try NOTEBOOK…: does whatever the lesson suggests to try run? Knobs stand in its first code cell; a bullet of its last cell changes some.
"""

import contextlib
import difflib
import io
import json
import os
import re
import sys
import time


def read(path):
    with open(path, encoding="utf-8") as f:
        return json.load(f)


def write(path, notebook):
    with open(path, "w", encoding="utf-8") as f:
        json.dump(notebook, f, indent=1, ensure_ascii=False)
        f.write("\n")


def printed(notebook):
    """The printed lines, each with its cell. Pictures print nothing."""
    lines = []
    for cell in notebook["cells"]:
        for out in cell.get("outputs", []):
            if "image/png" not in out.get("data", {}):
                text = out.get("text") or out.get("data", {}).get("text/plain", "")
                lines += [f"{cell['id']}: {line}" for line in "".join(text).splitlines()]
    return lines


def compare(committed, fresh):
    old, new = printed(read(committed)), printed(read(fresh))
    changed = list(difflib.unified_diff(old, new, "committed", "fresh", lineterm="", n=0))
    for line in changed[:60]:
        print(line)
    print(f"{committed}: {len(new)} printed lines,", "NOT THE SAME" if changed else "the same")
    return 1 if changed or not new else 0


def rewrite(committed, fresh):
    notebook = read(fresh)
    # Which Python made them says nothing about the outputs.
    notebook["metadata"] = {"kernelspec": notebook["metadata"]["kernelspec"], "language_info": {"name": "python"}}
    write(committed, notebook)
    print(f"{committed}: written")


def alter(fresh, other):
    notebook = read(fresh)
    out = next(o for c in notebook["cells"] for o in c.get("outputs", []) if any(d.isdigit() for d in "".join(o.get("text", ""))))
    text = "".join(out["text"])
    at = max(i for i, d in enumerate(text) if d.isdigit())
    out["text"] = text[:at] + str((int(text[at]) + 1) % 10) + text[at + 1 :]
    write(other, notebook)


KNOB = re.compile(r"`([A-Z_]+(?:, [A-Z_]+)*) = (.*?)`(?=[,:]|$)")


def changed(knobs, settings):
    """The cell of knobs with some of them set."""
    for names, value in settings:
        knobs, n = re.subn(rf"(?m)^{names} = .*$", lambda _: f"{names} = {value}", knobs)
        if n != 1:
            raise ValueError(f"the first cell has no knob {names}")
    return knobs


def execute(notebook, settings):
    """Runs a lesson's code with other knobs, its pictures drawn and thrown away."""
    import matplotlib.pyplot as plt

    plt.show = lambda: (plt.gcf().canvas.draw(), plt.close("all"))
    cells = ["".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == "code"]
    cells[0] = changed(cells[0], settings)
    names = {}
    with contextlib.redirect_stdout(io.StringIO()):
        for cell in cells:
            exec(compile(cell, "cell", "exec"), names)


def attempt(*paths):
    status = 0
    for path in paths:
        notebook = read(path)
        os.chdir(os.path.dirname(os.path.abspath(path)))
        sys.path.insert(0, os.getcwd())
        bullets = [b for b in "".join(notebook["cells"][-1]["source"]).split("\n") if b.startswith("- `")]
        settings = [KNOB.findall(b) for b in bullets]
        if len(bullets) < 2 or not all(settings) or notebook["cells"][1]["id"] != "knobs":
            print(f"{path}: its knobs must come first, and its last cell suggest two changes of them or more")
            status = 1
        for setting in settings:
            begun = time.monotonic()
            try:
                execute(notebook, setting)
                said = "runs"
            except Exception as failed:
                said, status = f"FAILED: {type(failed).__name__}: {failed}", 1
            print(f"{os.path.basename(path)}: {'; '.join(' = '.join(s) for s in setting)}: {said}, {time.monotonic() - begun:.1f} s", flush=True)
        # The negative controls: a knob that is not there, and a value that no run can have.
        for wrong in [("NOSUCH", "1")], [(settings[0][0][0], "None")]:
            try:
                execute(notebook, wrong)
            except Exception:
                continue
            print(f"{path}: {wrong} was not refused")
            status = 1
        os.chdir(sys.path.pop(0) + "/..")
    return status


sys.exit({"compare": compare, "rewrite": rewrite, "alter": alter, "try": attempt}[sys.argv[1]](*sys.argv[2:]))
