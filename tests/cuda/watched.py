"""What a board saw each launch change, held against what the recorder took down around the same launches.

Use: watched.py BOARD WHOLE.kine EACH.kine: WHOLE is a recording of a whole program, EACH one of the same program with
`--kernels '*' --pick all`. Prints how many launches changed how many bytes, or the first that differs, and exits with 1.
"""
import json
import subprocess
import sys


def launches(*arguments):
    done = subprocess.run(["kinescope", "launches", *arguments, "--json"], capture_output=True, text=True)
    if done.returncode != 0 or done.stderr:
        sys.exit(f"kinescope launches {' '.join(arguments)}: exit {done.returncode}, {done.stderr}")
    return json.loads(done.stdout)


def changed(launch, window):
    """What it changed, so that two recordings of one program can be held against each other: memory of the window lies
    at the same addresses in both, a variable where the driver put its module."""
    if launch["changed"] is None:
        sys.exit(f"launch {launch['launch']} was not watched")
    rows = []
    for c in launch["changed"]:
        first, end = int(c["va"], 16), int(c["end_va"], 16)
        rows.append((c["bytes"], end - first, first if first in window else 0))
    return sorted(rows)


def main():
    board, whole, each = sys.argv[1:]
    # Where the recorder serves memory from (`recorders/cuda/session/src/window.rs`).
    window = range(0x1539_4000_0000, 0x1539_4000_0000 + (1 << 40))
    ours, theirs = launches(whole, "--on", board), launches(each)
    if len(ours) != len(theirs):
        sys.exit(f"{len(ours)} launches in {whole}, {len(theirs)} in {each}")
    total = 0
    for a, b in zip(ours, theirs):
        if a["kernel"] != b["kernel"]:
            sys.exit(f"launch {a['launch']} is of {a['kernel']} and of {b['kernel']}")
        mine, right = changed(a, window), changed(b, window)
        if mine != right:
            sys.exit(f"launch {a['launch']}, {a['kernel']}: the board saw {mine}, the recorder {right}")
        total += sum(bytes for bytes, _, _ in mine)
    print(f"{len(ours)} launches changed {total} bytes")


main()
