"""compare.py ORDER HASH PACKS: what a simple comparer says of each pack, as `firstbit score` reads it.

ORDER is `execution`: as each rank ran, the first record that read the same and wrote something else; or `key`: by name, the first that
wrote something else. HASH is `digest` or `xor`. It reads one rank at a time and knows nothing of collectives, views or memory."""
import glob, json, os, sys

def records(folder):
    ranks = {}
    for path in sorted(glob.glob(folder + "/rank*.jsonl")):
        for line in open(path):
            r = json.loads(line)
            if r["kind"] not in ("end", "metric"):
                ranks.setdefault(r["rank"], []).append(r)
    return ranks

def name(r):
    return ".".join(filter(None, [r["scope"], r["name"]]))

def key(r):
    return r["iteration"], name(r), r["phase"], r["kind"], r["microbatch"], r["occurrence"]

def same(r, s, side, hash):
    return [(t["name"], t[hash]) for t in r[side] or []] == [(t["name"], t[hash]) for t in s[side] or []]

def root(a, b, order, hash):
    for rank in sorted(a):
        other = {key(r): r for r in b.get(rank, [])}
        for r in sorted(a[rank], key=key) if order == "key" else a[rank]:
            s = other.get(key(r))
            if s and not same(r, s, "out", hash) and (order == "key" or same(r, s, "in", hash)):
                return r

order, hash, packs = sys.argv[1:]
answers = []
for pack in json.load(open(packs + "/index.json"))["packs"]:
    folder = os.path.join(packs, pack["cause"])
    r = root(records(folder + "/a"), records(folder + "/b"), order, hash)
    if r:
        answers.append(dict(pack=pack["cause"], step=r["iteration"], rank=r["rank"], microbatch=r["microbatch"], phase=r["phase"], name=name(r)))
json.dump(answers, sys.stdout)
