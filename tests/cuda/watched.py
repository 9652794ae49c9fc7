"""Compares the changes of each launch on a target with the changes that the recorder saved for the same launches.

Use: watched.py TARGET WHOLE.kine EACH.kine. WHOLE is a recording of a whole program. EACH is a recording of the same
program with `--kernels '*' --pick all`. Prints the numbers of launches and of changed bytes. If a launch differs,
prints it and exits with 1.
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
    """Returns the changes of a launch in a form that is equal in two recordings of one program.

    Memory of the recorder's window has the same addresses in both recordings. A variable does not, because the driver
    chooses the address of its module.
    """
    if launch["changed"] is None:
        sys.exit(f"launch {launch['launch']} has no list of changes")
    rows = []
    for c in launch["changed"]:
        first, end = int(c["va"], 16), int(c["end_va"], 16)
        rows.append((c["bytes"], end - first, first if first in window else 0))
    return sorted(rows)


def main():
    target, whole, each = sys.argv[1:]
    # The recorder allocates memory in this range (`recorders/cuda/session/src/window.rs`).
    window = range(0x1539_4000_0000, 0x1539_4000_0000 + (1 << 40))
    ours, theirs = launches(whole, "--on", target), launches(each)
    if len(ours) != len(theirs):
        sys.exit(f"{len(ours)} launches in {whole}, {len(theirs)} in {each}")
    total = 0
    for a, b in zip(ours, theirs):
        if a["kernel"] != b["kernel"]:
            sys.exit(f"launch {a['launch']} is of {a['kernel']} and of {b['kernel']}")
        mine, right = changed(a, window), changed(b, window)
        if mine != right:
            sys.exit(f"launch {a['launch']}, {a['kernel']}: the target changed {mine}, the recorder saved {right}")
        total += sum(bytes for bytes, _, _ in mine)
    print(f"{len(ours)} launches changed {total} bytes")


main()
