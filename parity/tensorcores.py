"""Fused sums of tensor cores, by the published descriptions, in whole numbers.

    tensorcores.py FILE COUNT

Writes COUNT random sums for every architecture and format, one a line: architecture, formats of a and b, of the
scales or -, and of the accumulator; then in hexadecimal, by code: the accumulator before, the elements of a, those
of b, the scales of a and of b, and the accumulator after.

Sources: Xie, Wang, Yang & Yang 2025, "MMA-Sim: Bit-Accurate Reference Model of Tensor Cores and Matrix Cores"
(arXiv 2511.10909); Fasi, Higham, Mikaitis & Pranesh 2021, "Numerical behavior of NVIDIA tensor cores"."""

import random
import sys

# A format: bits of exponent, bits of fraction, bias; and what its largest codes mean.
FORMATS = {
    "fp32": (8, 23, 127, "ieee"),
    "tf32": (8, 23, 127, "ieee"),  # comes as fp32, and is cut
    "bf16": (8, 7, 127, "ieee"),
    "fp16": (5, 10, 15, "ieee"),
    "e5m2": (5, 2, 15, "ieee"),
    "e4m3": (4, 3, 7, "ones"),
    "e2m1": (2, 1, 1, "none"),
    "e8m0": (8, 0, 127, "power"),
}

EIGHT = ["e4m3", "e5m2"]
SMALL = ["e4m3", "e5m2", "e2m1"]

# Architecture; formats of elements, and whether both are the same; of scales; of the accumulator; products of a sum, fraction
# bits of an addend, fraction bits of an fp32 result; products under a scale.
TABLE = [
    ("volta", ["fp16"], "-", ["fp32", "fp16"], 4, 23, 23, 0),
    ("turing", ["fp16"], "-", ["fp32", "fp16"], 8, 24, 23, 0),
    ("ampere", ["fp16"], "-", ["fp32", "fp16"], 8, 24, 23, 0),
    ("ampere", ["bf16"], "-", ["fp32"], 8, 24, 23, 0),
    ("ampere", ["tf32"], "-", ["fp32"], 4, 24, 23, 0),
    ("ada", ["fp16"], "-", ["fp32", "fp16"], 8, 24, 23, 0),
    ("ada", ["bf16"], "-", ["fp32"], 8, 24, 23, 0),
    ("ada", ["tf32"], "-", ["fp32"], 4, 24, 23, 0),
    ("ada", EIGHT, "-", ["fp32", "fp16"], 16, 13, 13, 0),
    ("hopper", ["fp16"], "-", ["fp32", "fp16"], 16, 25, 23, 0),
    ("hopper", ["bf16"], "-", ["fp32"], 16, 25, 23, 0),
    ("hopper", ["tf32"], "-", ["fp32"], 8, 25, 23, 0),
    ("hopper", EIGHT, "-", ["fp32", "fp16"], 32, 13, 13, 0),
    ("blackwell", ["fp16"], "-", ["fp32", "fp16"], 16, 25, 23, 0),
    ("blackwell", ["bf16"], "-", ["fp32"], 16, 25, 23, 0),
    ("blackwell", ["tf32"], "-", ["fp32"], 8, 25, 23, 0),
    ("blackwell", EIGHT, "-", ["fp32", "fp16"], 32, 25, 23, 0),
    ("blackwell", SMALL, "-", ["fp32", "fp16"], 32, 25, 23, 0),
    ("blackwell", SMALL, "e8m0", ["fp32"], 32, 25, 23, 32),
    ("blackwell", ["e2m1"], "e8m0", ["fp32"], 64, 35, 23, 32),
    ("blackwell", ["e2m1"], "e4m3", ["fp32"], 64, 35, 23, 16),
]

NAN, INF = "nan", "inf"


def width(fmt):
    e, f, _, kind = FORMATS[fmt]
    return e + f + (kind != "power")


def decode(code, fmt):
    """(sign, significand as a whole number of its last place, exponent), or NaN or an infinity: what an operand is."""
    ebits, fbits, bias, kind = FORMATS[fmt]
    if fmt == "tf32":
        code &= ~0x1FFF  # what a NaN has in its last bits alone becomes an infinity
    if kind == "power":
        return (1, NAN, 0) if code == 255 else (1, 1, code - bias)
    sign = -1 if code >> (ebits + fbits) else 1
    exponent = (code >> fbits) & ((1 << ebits) - 1)
    fraction = code & ((1 << fbits) - 1)
    if kind == "ieee" and exponent == (1 << ebits) - 1:
        return (sign, NAN if fraction else INF, 0)
    if kind == "ones" and code & ((1 << (ebits + fbits)) - 1) == (1 << (ebits + fbits)) - 1:
        return (sign, NAN, 0)
    if exponent == 0 and fraction == 0:
        return (sign, 0, -126)
    if exponent == 0:
        return (sign, fraction, 1 - bias)
    return (sign, fraction | 1 << fbits, exponent - bias)


def toward_zero(value, shift):
    """value·2^shift without what lies behind the point."""
    magnitude = abs(value)
    magnitude = magnitude << shift if shift >= 0 else magnitude >> -shift
    return magnitude if value >= 0 else -magnitude


def special(c, pairs):
    """NaN, +1 or -1 for an infinity, or None. A pair is two operands and its scales."""
    signs = {c[0]} if c[1] == INF else set()
    if c[1] == NAN:
        return NAN
    for factors in pairs:
        if any(f[1] == NAN for f in factors):
            return NAN
        if any(f[1] == INF for f in factors):
            if any(f[1] == 0 for f in factors):
                return NAN
            sign = 1
            for f in factors:
                sign *= f[0]
            signs.add(sign)
    if len(signs) == 2:
        return NAN
    return signs.pop() if signs else None


def fused(fa, fb, fs, fd, fraction, kept, block, c, a, b, sa, sb):
    c = decode(c, fd)
    a, b = [decode(x, fa) for x in a], [decode(x, fb) for x in b]
    scales = [[], []]
    for k in range(len(a)):
        if block:
            # a scale has no sign
            scales[0].append((1,) + decode(sa[k // block], fs)[1:])
            scales[1].append((1,) + decode(sb[k // block], fs)[1:])
        else:
            scales[0].append((1, 1, 0))
            scales[1].append((1, 1, 0))
    pairs = list(zip(a, b, *scales))
    found = special(c, pairs)
    if found is not None:
        return result_special(found, fd)
    scale_places = 2 * FORMATS[fs][1] if block else 0
    # Addends: a whole number, how many places of it are fraction, and the exponent by which it is aligned.
    addends = [(c[0] * c[1], FORMATS[fd][1], c[2])]
    places = FORMATS[fa][1] + FORMATS[fb][1]
    if len(a) == 64:
        for k in range(0, 64, 16):
            total = 0  # in quarters, for e2m1 has halves
            for x, y, _, _ in pairs[k : k + 16]:
                if x[1] and y[1]:
                    total += x[0] * y[0] * ((x[1] << x[2]) * (y[1] << y[2]))
            _, _, s, t = pairs[k]
            addends.append((total * s[1] * t[1], places + scale_places, s[2] + t[2]))
    else:
        for x, y, s, t in pairs:
            number = x[0] * y[0] * x[1] * y[1] * s[1] * t[1]
            addends.append((number, places + scale_places, x[2] + y[2] + s[2] + t[2]))
    largest = max(e for _, _, e in addends)
    total = sum(toward_zero(n, fraction - p - (largest - e)) for n, p, e in addends)
    return result(total, largest - fraction, fd, kept)


def result_special(found, fd):
    if fd == "fp16":
        return {NAN: 0x7FFF, 1: 0x7C00, -1: 0xFC00}[found]
    return {NAN: 0x7FFFFFFF, 1: 0x7F800000, -1: 0xFF800000}[found]


def result(total, unit, fd, kept):
    """The code of total·2^unit: cut in fp32, to nearest, ties to even, in fp16."""
    ebits, fbits, bias, _ = FORMATS[fd]
    if total == 0:
        return 0
    magnitude = abs(total)
    exponent = max(magnitude.bit_length() - 1 + unit, 1 - bias)
    places = kept if fd == "fp32" else fbits
    shift = unit - (exponent - places)
    if shift >= 0:
        number = magnitude << shift
    elif fd == "fp32":
        number = magnitude >> -shift
    else:
        doubled = magnitude >> (-shift - 1)
        rest = magnitude & ((1 << (-shift - 1)) - 1)
        number = doubled >> 1
        if doubled & 1 and (rest or number & 1):
            number += 1
    if number == 0:
        return 0
    if number == 1 << (places + 1):
        number, exponent = number >> 1, exponent + 1
    number <<= fbits - places
    sign = (1 if total < 0 else 0) << (ebits + fbits)
    if exponent > bias:
        return sign | ((1 << ebits) - 1) << fbits
    if number < 1 << fbits:  # subnormal
        return sign | number
    return sign | (exponent + bias) << fbits | number & ((1 << fbits) - 1)


class Draw:
    """Operands that reach the corners: any codes; exponents that lie close; steps of exponents; cancellation; zeros;
    subnormal numbers; infinities and NaN."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def sum(self, fa, fb, fs, fd, terms, block):
        kind = self.random.choice(["any", "close", "close", "steps", "cancel", "cancel", "small", "zeros", "special"])
        n = 64 if terms == 64 else self.random.choice([terms, terms, terms, self.random.randint(1, terms)])
        a, b = [self.element(fa, kind, i) for i in range(n)], [self.element(fb, kind, i) for i in range(n)]
        if kind == "cancel":
            self.cancel(fa, a, b)
        if kind == "special":
            a[self.random.randrange(n)] = self.largest(fa)
            if self.random.random() < 0.5:
                b[self.random.randrange(n)] = self.largest(fb)
        scales = (n + block - 1) // block if block else 0
        sa, sb = [self.scale(fs, kind) for _ in range(scales)], [self.scale(fs, kind) for _ in range(scales)]
        return self.accumulator(fd, kind, fa), a, b, sa, sb

    def code(self, fmt, exponent):
        """A random sign and fraction under an exponent, which is clamped to what the format has."""
        ebits, fbits, bias, kind = FORMATS[fmt]
        top = (1 << ebits) - (2 if kind == "ieee" else 1)
        e = min(max(exponent + bias, 0), top)
        fraction = self.random.getrandbits(fbits)
        if self.random.random() < 0.2:
            fraction = self.random.choice([0, (1 << fbits) - 1])
        if kind == "ones" and e == top and fraction == (1 << fbits) - 1:
            fraction -= 1
        return self.random.getrandbits(1) << (ebits + fbits) | e << fbits | fraction

    def finite(self, fmt):
        ebits, _, bias, _ = FORMATS[fmt]
        return self.code(fmt, self.random.randint(-bias, (1 << ebits) - 1 - bias))

    def largest(self, fmt):
        """Infinity, NaN or the largest number, of either sign."""
        ebits, fbits, _, kind = FORMATS[fmt]
        sign = self.random.getrandbits(1) << (ebits + fbits)
        ones = (1 << (ebits + fbits)) - 1
        if kind == "ieee":
            infinity = ((1 << ebits) - 1) << fbits
            return sign | self.random.choice([infinity, infinity, infinity | 1, infinity - 1])
        return sign | self.random.choice([ones, ones - 1])

    def element(self, fmt, kind, i):
        _, fbits, bias, _ = FORMATS[fmt]
        roll = self.random.random()
        if kind == "zeros" and roll < 0.9 or roll < 0.04:
            return self.random.getrandbits(1) << (width(fmt) - 1)
        if kind == "small" and roll < 0.7:
            return self.random.getrandbits(1) << (width(fmt) - 1) | self.random.getrandbits(max(fbits, 1))
        if kind == "close":
            return self.code(fmt, self.random.randint(-5, 5))
        if kind == "steps":
            return self.code(fmt, self.random.randint(0, 3) - i)
        if kind == "cancel":
            return self.code(fmt, self.random.randint(-14, 14))
        return self.finite(fmt)

    def cancel(self, fa, a, b):
        """Makes every second product the first one's negative, or nearly."""
        for i in range(0, len(a) - 1, 2):
            if self.random.random() < 0.8:
                a[i + 1], b[i + 1] = a[i] ^ 1 << (width(fa) - 1), b[i]
                if self.random.random() < 0.2:
                    a[i + 1] ^= 1

    def accumulator(self, fd, kind, fa):
        roll = self.random.random()
        if roll < 0.25:
            return self.random.getrandbits(1) << (width(fd) - 1)
        if kind == "special" and roll < 0.5:
            return self.largest(fd)
        if kind == "small" and roll < 0.8:
            return self.random.getrandbits(1) << (width(fd) - 1) | self.random.getrandbits(FORMATS[fd][1])
        if kind == "any" and roll < 0.7:
            return self.finite(fd)
        return self.code(fd, self.random.randint(-30, 20))

    def scale(self, fs, kind):
        if kind == "special" and self.random.random() < 0.1:
            return 255 if fs == "e8m0" else 127
        if kind == "any" or self.random.random() < 0.1:
            return self.random.randrange(255) if fs == "e8m0" else self.random.randrange(127)
        if fs == "e8m0":
            return 127 + self.random.randint(-12, 12)
        return self.code(fs, self.random.randint(-6, 6)) & 127


def hexes(codes, fmt):
    digits = (width(fmt) + 3) // 4
    return "".join(f"{c:0{digits}x}" for c in codes) or "-"


def main():
    path, count = sys.argv[1], int(sys.argv[2])
    with open(path, "w") as f:
        for row, (arch, formats, fs, outs, terms, fraction, kept, block) in enumerate(TABLE):
            for fd in outs:
                draw = Draw(f"{row} {fd}")
                made = 0
                while made < count:
                    fa, fb = draw.random.choice(formats), draw.random.choice(formats)
                    if formats == SMALL and fs == "e8m0" and fa == fb == "e2m1":
                        continue  # has an instruction of its own
                    if formats == SMALL and fs == "-" and "e2m1" not in (fa, fb):
                        continue  # stands in another row
                    made += 1
                    c, a, b, sa, sb = draw.sum(fa, fb, fs, fd, terms, block)
                    d = fused(fa, fb, fs, fd, fraction, kept, block, c, a, b, sa, sb)
                    scales = "- -" if fs == "-" else f"{hexes(sa, fs)} {hexes(sb, fs)}"
                    f.write(f"{arch} {fa} {fb} {fs} {fd} {hexes([c], fd)} {hexes(a, fa)} {hexes(b, fb)} {scales} {hexes([d], fd)}\n")


if __name__ == "__main__":
    main()
