"""The outputs of notebooks, for notebooks.sh.

compare COMMITTED FRESH: is what they print the same?
rewrite COMMITTED FRESH: the fresh outputs take the place of the committed ones
alter FRESH OTHER: a copy in which one printed digit is another
"""

import difflib
import json
import sys


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


sys.exit({"compare": compare, "rewrite": rewrite, "alter": alter}[sys.argv[1]](*sys.argv[2:]))
