"""Reads exported tables with pyarrow and exported buffers with numpy, which Kinescope did not write, and compares them
with what `events --json`, `info --json` and raw files tell.

Use: export_reader.py KINESCOPE RECORDING FOLDER
"""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

TYPES = {
    "event": pa.uint64(),
    "time_ns": pa.uint64(),
    "thread": pa.uint32(),
    "offset": pa.uint32(),
    "width": pa.uint32(),
    "value": pa.uint64(),
}
TEXTS = ("kind", "space", "register", "means")


def number(v):
    return int(v, 0) if isinstance(v, str) else v


def run(*arguments):
    return subprocess.run(arguments, check=True, stdout=subprocess.PIPE).stdout


def buffers(kinescope, recording, folder):
    """Every buffer as NPY: its type, its shape, and each of its bytes."""
    known = {"bf16": "V2", "f16": "<f2", "f32": "<f4", "f64": "<f8"} | {
        f"{sign}{bits}": f"<{sign}{bits // 8}" for sign in "iu" for bits in (8, 16, 32, 64)
    }
    elements = 0
    for buffer in json.loads(run(kinescope, "info", recording, "--json"))["buffers"]:
        to = folder / "buffer.npy"
        raw = folder / "buffer.bin"
        for out in (to, raw):
            run(kinescope, "memory", recording, "--buffer", buffer["name"], "-o", str(out))
        array = np.load(to, allow_pickle=False)
        name = buffer["name"]
        assert array.dtype == np.dtype(known[buffer["type"]]), (name, array.dtype, buffer["type"])
        assert list(array.shape) == buffer["shape"] or not buffer["shape"], (name, array.shape, buffer["shape"])
        assert array.tobytes() == raw.read_bytes(), name
        elements += array.size
    assert elements, "a recording with buffers is asked for"
    return elements


def main():
    kinescope, recording, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    folder.mkdir(parents=True, exist_ok=True)
    compared = 0
    for name, where in (("all", []), ("writes", ["--where", "write"]), ("none", ["--where", "value = 1 and mark"])):
        wanted = json.loads(run(kinescope, "events", recording, "--json", *where))
        for form in ("parquet", "arrow", "csv"):
            to = folder / f"{name}.{form}"
            run(kinescope, "export", recording, "--table", "events", "-o", str(to), *where)
            if form == "parquet":
                table = pyarrow.parquet.read_table(to)
            elif form == "arrow":
                table = pa.ipc.open_file(to).read_all()
            else:
                convert = pyarrow.csv.ConvertOptions(column_types=TYPES, strings_can_be_null=True)
                table = pyarrow.csv.read_csv(to, convert_options=convert)
            assert table.num_rows == len(wanted), (to, table.num_rows, len(wanted))
            for column, kind in TYPES.items():
                assert table.schema.field(column).type == kind, (to, column, table.schema.field(column).type)
                found = table.column(column).to_pylist()
                if column in ("event", "time_ns", "thread"):
                    assert found == [number(e[column]) for e in wanted], (to, column)
                else:
                    for f, e in zip(found, wanted):
                        if e["kind"] in ("read", "write"):
                            assert f == number(e[column]), (to, column, e)
                compared += len(found)
            if form != "csv":
                for column in TEXTS:
                    assert table.schema.field(column).type in (pa.string_view(), pa.large_string(), pa.string()), column
            if wanted:
                assert table.column("kind").to_pylist() == [e["kind"] for e in wanted], to
    elements = buffers(kinescope, recording, folder)
    print(f"{compared} values of tables and {elements} of buffers are the same")


main()
