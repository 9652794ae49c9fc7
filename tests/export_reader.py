"""Reads exported tables with pyarrow and pandas and exported buffers with numpy, which Kinescope did not write, and
compares them with what `events --json`, `info --json` and raw files tell. It filters, groups and sorts by text, too.

Use: export_reader.py KINESCOPE RECORDING FOLDER
"""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
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
    return elements


def asked(table, path, wanted):
    """What people do with a table: filter, group and sort, by text and by number, in pyarrow and in pandas."""
    kinds = {}
    for event in wanted:
        kinds[event["kind"]] = kinds.get(event["kind"], 0) + 1
    registers = [e.get("register") for e in wanted]
    one = next((r for r in registers if r), None)
    same = [e for e in wanted if one and e.get("register") == one]

    filtered = table.filter(pc.equal(table["register"], one or ""))
    assert filtered.column("event").to_pylist() == [e["event"] for e in same], path
    assert table.filter(pc.is_in(table["kind"], pa.array(["write"]))).num_rows == kinds.get("write", 0), path
    parts = table.filter(pc.match_substring(table["register"], (one or "x")[:3]))
    assert parts.num_rows == sum((one or "x")[:3] in r for r in registers if r), path
    groups = table.group_by("kind").aggregate([("event", "count")])
    assert dict(zip(groups["kind"].to_pylist(), groups["event_count"].to_pylist())) == kinds, path
    names = table.sort_by([("register", "ascending"), ("event", "descending")]).column("register").to_pylist()
    assert [n for n in names if n is not None] == sorted(r for r in registers if r), path

    if path.suffix == ".parquet":
        offset = number(same[0]["offset"]) if same else 0
        at_offset = [e["event"] for e in wanted if "offset" in e and number(e["offset"]) == offset]
        read = pyarrow.parquet.read_table(path, filters=[("offset", "==", offset)])
        assert read.column("event").to_pylist() == at_offset, path
        frame = pd.read_parquet(path, filters=[("register", "==", one or "")])
        assert list(frame["event"]) == [e["event"] for e in same], path
        frame = pd.read_parquet(path)
    else:
        frame = pd.read_feather(path)
    assert frame.groupby("kind")["event"].count().to_dict() == kinds, path
    assert list(frame[frame["register"] == one]["event"]) == [e["event"] for e in same], path
    assert list(frame.sort_values(["kind", "event"])["kind"]) == sorted(e["kind"] for e in wanted), path


def registers(kinescope, recording, folder):
    """How registers were used: a space by its name, as events have it."""
    wanted = {}
    for e in json.loads(run(kinescope, "events", recording, "--json", "--where", "access")):
        key = (e["space"], number(e["offset"]))
        wanted[key] = wanted.get(key, 0) + 1
    for form in ("parquet", "arrow"):
        to = folder / f"registers.{form}"
        run(kinescope, "export", recording, "--table", "registers", "-o", str(to))
        read = pyarrow.parquet.read_table(to) if form == "parquet" else pa.ipc.open_file(to).read_all()
        rows = read.to_pylist()
        assert {(r["space"], r["offset"]): r["reads"] + r["writes"] for r in rows} == wanted, to
        assert read.schema.field("space").type == pa.string(), to
        assert read.group_by("space").aggregate([("reads", "sum")]).num_rows == len({s for s, _ in wanted}), to
    return len(wanted)


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
                    assert table.schema.field(column).type == pa.string(), (to, column, table.schema.field(column).type)
                asked(table, to, wanted)
            if wanted:
                assert table.column("kind").to_pylist() == [e["kind"] for e in wanted], to
    places = registers(kinescope, recording, folder)
    has_buffers = json.loads(run(kinescope, "info", recording, "--json"))["buffers"]
    elements = buffers(kinescope, recording, folder) if has_buffers else 0
    print(
        f"pyarrow {pa.__version__}, pandas {pd.__version__}: {compared} values of tables, {places} places and "
        f"{elements} elements of buffers are the same"
    )


main()
