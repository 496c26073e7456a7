"""Tables of the formats of eight bits and fewer, as ml_dtypes converts them.

    lowprecision.py FOLDER

A line of a `values` file is a code and the float32 bits of its value. A line of a `codes` file is
the first float32 bits, in the order of unsigned integers, from which on a code is what a float32 is
converted to: together they say it of every float32 there is. ml_dtypes does not saturate: past the
largest value lies infinity, or NaN."""

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


def main(folder):
    os.makedirs(folder, exist_ok=True)
    for name, (dtype, bits) in FORMATS.items():
        v = values(dtype, bits).view(numpy.uint32)
        write(os.path.join(folder, name + ".values"), (f"{c:02x} {b:08x}" for c, b in enumerate(v)))
        write(os.path.join(folder, name + ".codes"), (f"{b:08x} {c:02x}" for b, c in changes(dtype)))


if __name__ == "__main__":
    numpy.seterr(all="ignore")
    main(sys.argv[1])
