#!/usr/bin/env python3
"""Writes a small RecordReplay database and a small Mneme database, reads both, and writes their contents to a file.

Run `python3 make.py` in this folder. The files have the format of the tools' sources: koparasy/Mneme at commit d9627fa
(src/record.cpp, src/memory.cpp) and Olympus-HPC/Mneme at commit 4442a49 (include/mneme/MnemeSnapshot.hpp,
include/mneme/MnemeMemory.hpp, src/MnemeAnnotationInternal.cpp). This script generates them, because neither tool has a
public recording or runs without a GPU. They contain launches of the kernels vecadd and use_globals of
../../../cuda-code/tests/fixtures, so a replay on a device gives the same memory.

The writer and the reader share no code. The reader follows the tools' readers (src/replay.cpp; readFullMnemeSnapShot
and applyDiffMnemeSnapShot), and writes expected.json. A test compares the importer with that file.
"""

import json
import os
import struct
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))


# ---- RecordReplay writer

def rr_snapshot(arguments, variables, allocations):
    out = struct.pack("<Q", len(arguments))
    for value in arguments:
        out += struct.pack("<Q", len(value))
    out += b"".join(arguments)
    out += struct.pack("<Q", len(variables))
    for name, value in variables:
        out += struct.pack("<Q", len(name)) + name.encode() + struct.pack("<Q", len(value)) + value
    for address, value in allocations:
        out += struct.pack("<QQ", address, len(value)) + value
    return out


def write_record_replay():
    folder = os.path.join(HERE, "record-replay")
    os.makedirs(folder, exist_ok=True)
    base = 0x7F0A40000000
    # The tool rounds up to the mapping size of the driver, 2 MiB. This script rounds to 8 KiB, for a small repository.
    size = 8192
    threads = 32
    other = bytes((n * 7) & 0xFF for n in range(size))
    out_before = b"\xee" * 16 + bytes(size - 16)
    table = struct.pack("<3i", 10, 20, 30)
    scratch = b"\x55" * 100
    before = rr_snapshot(
        [struct.pack("<Q", base)],
        [("table", table), ("counter", struct.pack("<Q", 5)), ("scratch", scratch)],
        [(base, out_before), (base + size, other)],
    )
    results = [(n & 3) + 1 + (10, 20, 30)[n % 3] + 0 + (n ^ 1) for n in range(threads)]
    out_after = struct.pack("<%di" % threads, *results)
    out_after += out_before[len(out_after):]
    after = rr_snapshot(
        [struct.pack("<Q", base)],
        [("table", table), ("counter", struct.pack("<Q", 5 + threads)), ("scratch", bytes(range(threads)) + scratch[threads:])],
        [(base + size, other), (base, out_after)],
    )
    with open(os.path.join(folder, "Before1234.bin"), "wb") as f:
        f.write(before)
    with open(os.path.join(folder, "After1234.bin"), "wb") as f:
        f.write(after)
    database = {
        "StartVAAddr": "%x" % base,
        "TotalSize": 12 << 30,
        "Kernels": {
            "use_globals": {
                "Name": "use_globals",
                "Grid": {"x": 1, "y": 1, "z": 1},
                "Block": {"x": threads, "y": 1, "z": 1},
                "SharedMemory": 0,
                "InputData": "/scratch/run/Before1234.bin",
                "OutputData": "/scratch/run/After1234.bin",
            }
        },
        # The tool appends the name of the module to the name of the folder without a slash.
        "Modules": ["/scratch/runglobals.bc"],
    }
    with open(os.path.join(folder, "record_replay.json"), "w") as f:
        f.write(json.dumps(database, sort_keys=True, separators=(",", ":")))


# ---- Mneme writer

U8, F32 = 0, 9


def label(element=U8, threshold=0.0, relative=0, norm=0, tag=""):
    return struct.pack("<BdBBQ", element, threshold, relative, norm, len(tag)) + tag.encode()


def mneme_whole(variables, blobs, arguments):
    out = struct.pack("<Q", len(variables))
    for name, address, value in variables:
        out += struct.pack("<Q", len(name)) + name.encode() + struct.pack("<QQ", len(value), address) + value
    out += struct.pack("<Q", len(blobs))
    for taken, address, value, tag in blobs:
        out += struct.pack("<QQQ", taken, len(value), address) + value + tag
    out += struct.pack("<Q", len(arguments))
    for value in arguments:
        out += struct.pack("<Q", len(value)) + value
    return out


def ranges(before, after):
    found, at = [], 0
    while at < len(before):
        if before[at] == after[at]:
            at += 1
            continue
        end = at
        while end < len(before) and before[end] != after[end]:
            end += 1
        found.append((at, after[at:end]))
        at = end
    out = struct.pack("<Q", len(found))
    for offset, value in found:
        out += struct.pack("<QQ", offset, len(value)) + value
    return out


def mneme_diff(variables, blobs):
    out = b"MNEME_DIFF_V1" + struct.pack("<Q", len(variables))
    for name, address, before, after in variables:
        out += struct.pack("<Q", len(name)) + name.encode() + struct.pack("<QQ", len(before), address)
        out += ranges(before, after)
    out += struct.pack("<Q", len(blobs))
    for taken, address, before, after, tag in blobs:
        out += struct.pack("<QQQ", taken, len(before), address) + tag + ranges(before, after)
    return out


def write_mneme():
    folder = os.path.join(HERE, "mneme")
    os.makedirs(folder, exist_ok=True)
    base, static = 0x153940000000, 17293822569102704642
    n = 200
    a = struct.pack("<%df" % n, *[0.5 * i for i in range(n)])
    b = struct.pack("<%df" % n, *[1000.0 - i for i in range(n)])
    c = struct.pack("<%df" % n, *[0.5 * i + 1000.0 - i for i in range(n)])
    empty = b"\x11" * len(c)
    sum_label = label(F32, 1e-6, 1, 0, "sum")
    instances = {}
    for dynamic, grid, block, diff in [("9001", 4, 64, True), ("77", 2, 128, False)]:
        # The first launch has three allocations in one page. In the second launch, the third allocation is elsewhere.
        places = [base, base + 1024, base + (2048 if diff else 1 << 20)]
        arguments = [struct.pack("<Q", p) for p in places] + [struct.pack("<i", n)]
        blobs = [(1024, places[0], a, label()), (1024, places[1], b, label()), (1024, places[2], empty, sum_label)]
        after = [(t, p, c if p == places[2] else v, l) for t, p, v, l in blobs]
        variable = ("steps", 0x7F55AA000204, b"\x01\x02\x03\x04", b"\x01\x02\xff\x04")
        names = ["DeviceState.%s.%d.%s.mneme" % (w, static, dynamic) for w in ("prologue", "epilogue")]
        with open(os.path.join(folder, names[0]), "wb") as f:
            f.write(mneme_whole([variable[:3]], blobs, arguments))
        with open(os.path.join(folder, names[1]), "wb") as f:
            if diff:
                pairs = [(t, p, v, w, l) for (t, p, v, l), (_, _, w, _) in zip(blobs, after)]
                f.write(mneme_diff([variable], list(reversed(pairs))))
            else:
                f.write(mneme_whole([(variable[0], variable[1], variable[3])], list(reversed(after)), arguments))
        instances[dynamic] = {
            "Args": [],
            "BlockDims": {"x": block, "y": 1, "z": 1},
            "GridDims": {"x": grid, "y": 1, "z": 1},
            "Occurrences": 3 if diff else 1,
            "SharedMem": 0,
            "Prologue": names[0],
            "Epilogue": names[1],
        }
    database = {
        "ArgNames": ["a", "b", "c", "n"],
        "BinaryBlobs": [],
        "DemangledName": "vecadd(float const*, float const*, float*, int)",
        "KernelName": "_Z6vecaddPKfS0_Pfi",
        "Modules": ["RecordedIR_%d.bc" % static],
        "Specializations": [False, False, False, True],
        "StaticHash": static,
        "VASize": 4 << 30,
        "VAddr": "0x%016x" % base,
        "instances": instances,
    }
    with open(os.path.join(folder, "%d.json" % static), "w") as f:
        f.write(json.dumps(database, sort_keys=True, separators=(",", ":")))


# ---- Readers

class Bytes:
    def __init__(self, path):
        with open(path, "rb") as f:
            self.all = f.read()
        self.at = 0

    def take(self, count):
        piece = self.all[self.at:self.at + count]
        assert len(piece) == count, "the file ends"
        self.at += count
        return piece

    def number(self):
        return int.from_bytes(self.take(8), "little")


def read_rr(path):
    f = Bytes(path)
    sizes = [f.number() for _ in range(f.number())]
    state = {"arguments": [f.take(s) for s in sizes], "variables": {}, "allocations": {}}
    for _ in range(f.number()):
        name = f.take(f.number()).decode()
        state["variables"][name] = f.take(f.number())
    while f.at != len(f.all):
        address = f.number()
        state["allocations"][address] = f.take(f.number())
    return state


def read_label(f):
    element = f.take(1)[0]
    (threshold,) = struct.unpack("<d", f.take(8))
    kind, norm = f.take(1)[0], f.take(1)[0]
    return [element, threshold, kind, norm, f.take(f.number()).decode()]


def read_mneme(path):
    f = Bytes(path)
    state = {"variables": {}, "allocations": {}, "labels": {}, "places": {}}
    for _ in range(f.number()):
        name = f.take(f.number()).decode()
        size, state["places"][name] = f.number(), f.number()
        state["variables"][name] = f.take(size)
    for _ in range(f.number()):
        f.number()
        size, address = f.number(), f.number()
        state["allocations"][address] = f.take(size)
        state["labels"][address] = read_label(f)
    state["arguments"] = [f.take(f.number()) for _ in range(f.number())]
    assert f.at == len(f.all)
    return state


def patched(f, base):
    value = bytearray(base)
    for _ in range(f.number()):
        offset, size = f.number(), f.number()
        assert offset + size <= len(value)
        value[offset:offset + size] = f.take(size)
    return bytes(value)


def read_behind(path, before):
    if Bytes(path).all[:13] != b"MNEME_DIFF_V1":
        return read_mneme(path)
    f = Bytes(path)
    f.take(13)
    state = {"variables": {}, "allocations": {}}
    for _ in range(f.number()):
        name = f.take(f.number()).decode()
        f.number(), f.number()
        state["variables"][name] = patched(f, before["variables"][name])
    for _ in range(f.number()):
        f.number(), f.number()
        address = f.number()
        read_label(f)
        state["allocations"][address] = patched(f, before["allocations"][address])
    assert f.at == len(f.all)
    return state


def summed(values):
    named = {(k if isinstance(k, str) else "0x%x" % k): v for k, v in values.items()}
    return {k: {"bytes": len(v), "crc32": zlib.crc32(v)} for k, v in sorted(named.items())}


def launch_json(kernel, grid, block, before, after):
    return {
        "kernel": kernel,
        "grid": [grid["x"], grid["y"], grid["z"]],
        "block": [block["x"], block["y"], block["z"]],
        "arguments": [a.hex() for a in before["arguments"]],
        "before": {"memory": summed(before["allocations"]), "variables": summed(before["variables"])},
        "after": {"memory": summed(after["allocations"]), "variables": summed(after["variables"])},
    }


def main():
    write_record_replay()
    write_mneme()
    expected = {}
    folder = os.path.join(HERE, "record-replay")
    with open(os.path.join(folder, "record_replay.json")) as f:
        database = json.load(f)
    beside = lambda path: os.path.join(folder, os.path.basename(path))
    expected["record-replay"] = [
        launch_json(k["Name"], k["Grid"], k["Block"], read_rr(beside(k["InputData"])), read_rr(beside(k["OutputData"])))
        for _, k in sorted(database["Kernels"].items())
    ]
    folder = os.path.join(HERE, "mneme")
    (name,) = [n for n in os.listdir(folder) if n.endswith(".json")]
    with open(os.path.join(folder, name)) as f:
        database = json.load(f)
    launches = []
    for _, i in sorted(database["instances"].items()):
        before = read_mneme(os.path.join(folder, i["Prologue"]))
        after = read_behind(os.path.join(folder, i["Epilogue"]), before)
        launches.append(launch_json(database["KernelName"], i["GridDims"], i["BlockDims"], before, after))
    expected["mneme"] = launches
    with open(os.path.join(HERE, "expected.json"), "w") as f:
        json.dump(expected, f, indent=1, sort_keys=True)
        f.write("\n")


main()
