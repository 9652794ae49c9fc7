"""Polars on the same columns and the same questions as `filter.rs`, which writes the columns to a folder and runs this.

Reads `FOLDER/offset.u32`, `write.u8` and `value.u64` (little-endian, one number a row), makes a table of them, and prints
for each question a line: its number, how many rows pass, and the shortest of five runs for the rows of the two columns
and for their count, ms.
"""

import os
import sys
import time

folder, register, threads = sys.argv[1], int(sys.argv[2]), sys.argv[3]
os.environ["POLARS_MAX_THREADS"] = threads

import numpy  # noqa: E402
import polars  # noqa: E402

column = lambda name, kind: numpy.fromfile(f"{folder}/{name}", dtype=kind)
events = polars.DataFrame(
    {
        "offset": column("offset.u32", "<u4"),
        "write": column("write.u8", "u1").view(bool),
        "value": column("value.u64", "<u8"),
    }
)
offset, write, value = polars.col("offset"), polars.col("write"), polars.col("value")
questions = [
    (["offset", "value"], (offset == register) & (value & 256 != 0)),
    (["write", "value"], write & (value >= 2147483648)),
]


def shortest(ask):
    took = []
    for _ in range(5):
        start = time.perf_counter()
        answer = ask()
        took.append((time.perf_counter() - start) * 1e3)
    return answer, min(took)


for n, (columns, passes) in enumerate(questions):
    table = events.select(columns).lazy()
    rows, all_ms = shortest(lambda: table.filter(passes).collect().height)
    count, count_ms = shortest(lambda: table.select(passes.sum()).collect().item())
    assert rows == count
    print(n, rows, all_ms, count_ms, sep="\t")
print("version", polars.__version__, sep="\t")
