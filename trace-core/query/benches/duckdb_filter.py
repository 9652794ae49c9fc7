"""DuckDB on the same columns and the same questions as `filter.rs`, which writes the columns to a folder and runs this.

Reads `FOLDER/offset.u32`, `write.u8` and `value.u64` (little-endian, one number a row), makes a table of DuckDB's own
of them, and prints for each question a line: its number, how many rows pass, and the shortest of five runs for all
rows' numbers and for their count, ms.
"""

import sys
import time

import duckdb
import numpy

folder, register, threads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
column = lambda name, kind: numpy.fromfile(f"{folder}/{name}", dtype=kind)
offset, write, value = column("offset.u32", "<u4"), column("write.u8", "u1").view(bool), column("value.u64", "<u8")
db = duckdb.connect()
db.execute(f"SET threads = {threads}")
columns = {"offset": offset, "write": write, "value": value}
db.execute("CREATE TABLE events AS SELECT * FROM columns")
del columns, offset, write, value


def shortest(ask):
    took = []
    for _ in range(5):
        start = time.perf_counter()
        answer = ask()
        took.append((time.perf_counter() - start) * 1e3)
    return answer, min(took)


for n, where in enumerate([f'"offset" = {register} AND value & 256 != 0', "write AND value >= 2147483648"]):
    rows, all_ms = shortest(lambda: len(db.execute(f"SELECT rowid FROM events WHERE {where}").fetchnumpy()["rowid"]))
    count, count_ms = shortest(lambda: db.execute(f"SELECT count(*) FROM events WHERE {where}").fetchone()[0])
    assert rows == count
    print(n, rows, all_ms, count_ms, sep="\t")
print("version", duckdb.__version__, sep="\t")
