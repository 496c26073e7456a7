"""Tables of the formats of eight bits and fewer, as ml_dtypes converts them.

    lowprecision.py FOLDER

A line of a `values` file is a code and the float32 bits of its value. A line of a `codes` file is
the first float32 bits, in the order of unsigned integers, from which on a code is what a float32 is
converted to: together they say it of every float32 there is. ml_dtypes does not saturate: past the
largest value lies infinity, or NaN. `quantised` is two matrices and their quantised copies, by the published
formulas on NumPy arrays of float32; a line is a name and hexadecimal bytes."""

import os
import sys

import ml_dtypes
import numpy

FORMATS = {
    "e4m3": (ml_dtypes.float8_e4m3fn, 8),
    "e5m2": (ml_dtypes.float8_e5m2, 8),
    "e2m1": (ml_dtypes.float4_e2m1fn, 4),
    "e8m0": (ml_dtypes.float8_e8m0fnu, 8),
}
CHUNK = 1 << 20


def values(dtype, bits):
    return numpy.arange(1 << bits, dtype=numpy.uint8).view(dtype).astype(numpy.float32)


def changes(dtype):
    """The bits at which the code changes, and the code from there on."""
    last = -1
    for start in range(0, 1 << 32, CHUNK):
        x = numpy.arange(start, start + CHUNK, dtype=numpy.uint64).astype(numpy.uint32).view(numpy.float32)
        c = x.astype(dtype).view(numpy.uint8)
        for i in numpy.flatnonzero(numpy.diff(c, prepend=numpy.int64(last))):
            yield start + int(i), int(c[i])
        last = c[-1]


def write(path, lines):
    with open(path, "w") as f:
        f.write("".join(line + "\n" for line in lines))


ROWS, COLS = 32, 64
f32 = numpy.float32


def tame(numbers):
    """Rows of seven neighbouring magnitudes, for scales of whole tensors."""
    x = numbers.integers(-(1 << 20), 1 << 20, size=(ROWS, COLS)).astype(f32)
    return numpy.ldexp(x, -20 - numpy.arange(ROWS)[:, None] % 7).astype(f32)


def wild(numbers):
    """Rows of magnitudes apart, some tiny, some subnormal; a row of zeros, one of powers of two, and
    one of a single outlier."""
    x = numbers.integers(-(1 << 20), 1 << 20, size=(ROWS, COLS)).astype(f32)
    exponents = numpy.array([-20 - 6 * (r - 16) * (r % 3 == 1) for r in range(ROWS)])
    exponents[[2, 5]] = -150, -166
    x = numpy.ldexp(x, exponents[:, None]).astype(f32)
    x[8] = 0
    x[11] = numpy.ldexp(f32(1), numpy.arange(COLS) % 24 - 12) * numpy.where(numpy.arange(COLS) % 2, f32(-1), f32(1))
    x[14] *= f32(1e-3)
    x[14, 37] = 300
    return x


def e4m3(x, largest=448, dtype=ml_dtypes.float8_e4m3fn):
    return numpy.clip(x, f32(-largest), f32(largest)).astype(dtype)


def mx(x, rule):
    """Blocks of 32 along the last dimension."""
    blocks = x.reshape(-1, 32)
    amax = numpy.abs(blocks).max(1)
    if rule == "up":
        amax = amax * f32(1 / 448)
        m, e = numpy.frexp(amax)
        e = numpy.where(m == 0.5, e - 1, e)  # of m·2^e, one half and up to one, the power not below
    else:
        e = numpy.frexp(amax)[1] - 1 - 8
    e = numpy.where(amax == 0, -127, numpy.clip(e, -127, 127))
    q = e4m3(numpy.ldexp(blocks, -e[:, None]).astype(f32))
    return q.reshape(x.shape).view(numpy.uint8), (e + 127).astype(numpy.uint8).reshape(x.shape[0], -1)


def nvfp4(x, square):
    """16 neighbours of the last dimension, or squares of 16 by 16, under one scale in e4m3."""
    rows, cols = x.shape
    amax = numpy.abs(x).max()
    tensor = f32(448 * 6) / amax
    side = 16 if square else 1
    blocks = x.reshape(rows // side, side, cols // 16, 16)
    block = numpy.abs(blocks).max((1, 3))
    scale = e4m3(block * (tensor * f32(1 / 6)))
    factor = numpy.minimum(f32(1) / (scale.astype(f32) * (f32(1) / tensor)), numpy.finfo(f32).max)
    y = numpy.clip(blocks * factor[:, None, :, None], f32(-6), f32(6)).astype(ml_dtypes.float4_e2m1fn)
    c = y.reshape(rows, cols).view(numpy.uint8)
    return c[:, 0::2] | c[:, 1::2] << 4, scale.view(numpy.uint8)


def quantised():
    numbers = numpy.random.Generator(numpy.random.PCG64(11))
    x, y = tame(numbers), wild(numbers)
    yield "tame", x.view(numpy.uint8)
    yield "wild", y.view(numpy.uint8)
    for name, dtype in (("e4m3", ml_dtypes.float8_e4m3fn), ("e5m2", ml_dtypes.float8_e5m2)):
        largest = float(ml_dtypes.finfo(dtype).max)
        scale = f32(largest) / numpy.abs(x).max()
        yield name + ".scale", numpy.array([scale, f32(1) / scale]).view(numpy.uint8)
        yield name + ".codes", e4m3(x * scale, largest, dtype).view(numpy.uint8)
    for rule in ("up", "floor"):
        codes, scales = mx(y, rule)
        yield f"mx.{rule}.rows.codes", codes
        yield f"mx.{rule}.rows.scales", scales
        codes, scales = mx(numpy.ascontiguousarray(y.T), rule)
        yield f"mx.{rule}.columns.codes", codes.T
        yield f"mx.{rule}.columns.scales", scales.T
    for name, square in (("rows", False), ("square", True)):
        for of, z in (("tame", x), ("wild", y)):
            codes, scales = nvfp4(z, square)
            yield f"nvfp4.{of}.{name}.codes", codes
            yield f"nvfp4.{of}.{name}.scales", scales


def main(folder):
    os.makedirs(folder, exist_ok=True)
    for name, (dtype, bits) in FORMATS.items():
        v = values(dtype, bits).view(numpy.uint32)
        write(os.path.join(folder, name + ".values"), (f"{c:02x} {b:08x}" for c, b in enumerate(v)))
        write(os.path.join(folder, name + ".codes"), (f"{b:08x} {c:02x}" for b, c in changes(dtype)))
    write(os.path.join(folder, "quantised"), (f"{n} {numpy.ascontiguousarray(b).tobytes().hex()}" for n, b in quantised()))


if __name__ == "__main__":
    numpy.seterr(all="ignore")
    main(sys.argv[1])
