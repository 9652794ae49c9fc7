#!/bin/bash
# Programs of PyTorch, Triton, CuPy and JAX recorded as they come, whole and between marks, and replayed in new processes,
# bit for bit: the part "libraries" of make test-cuda. One line a recording; the last line is "N passed, N failed".
# Use: scripts/test-cuda-libraries.sh [NAME…]   NAMEs of tests/cuda/libraries/program.py; none: those that are deterministic
# BIN=FOLDER: where kinescope, kinescope-agent and libkinescope_cuda.so are (default target/release). WORK=FOLDER: where
# recordings go (default target/cuda-libraries). LIMIT=SECONDS: the longest that one program may take (300).
set -u
cd "$(dirname "$0")/.." || exit 2
BIN=$(cd "${BIN:-target/release}" && pwd) || exit 2
WORK=${WORK:-target/cuda-libraries}
LIMIT=${LIMIT:-300}
mkdir -p "$WORK" && WORK=$(cd "$WORK" && pwd)
PATH=$BIN:$PATH
export PYTHONUNBUFFERED=1 TF_CPP_MIN_LOG_LEVEL=3
program=tests/cuda/libraries/program.py
names=${*:-gpt2 vit mobilenet lstm expandable async_pool cuda_graph compiled triton cupy cupy_managed jax}
passed=0
failed=0
ok() { passed=$((passed + 1)); printf 'ok      %s\n' "$*"; }
bad() { failed=$((failed + 1)); printf 'FAILED  %s\n' "$*"; }
# json FILE EXPRESSION: a value out of a JSON file, by Python.
json() { python3 -S -c 'import json,sys; d=json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$1" "$2" 2>/dev/null; }
now() { date +%s%N; }
seconds() { awk "BEGIN { printf \"%.2f\", ($2 - $1) / 1e9 }"; }

# What the program printed of its second run: seconds of it, and the most memory that the process had.
figure() { sed -n 's/^figure work_s=\([0-9.]*\) peak_mib=\([0-9]*\).*/\1 s, \2 MiB/p' "$WORK/log"; }

# recorded NAME RANGE: recorded so, the program gives what it gives by itself; replayed, outputs are bit-equal.
recorded() {
    local name=$1 range=$2 file=$WORK/$1-$2.kine begun ended played printed
    rm -f "$WORK/$name-$range"*
    begun=$(now)
    printed=$(timeout "$LIMIT" kinescope record --with cuda --limit 8G --range "$range" -o "$file" -- python3 $program "$name" 2>"$WORK/log" | grep '^ok')
    ended=$(now)
    if [ "$printed" != "$plain" ]; then
        bad "$name $range: recorded it gives '$printed', by itself '$plain'"; tail -n 4 "$WORK/log" | sed 's/^/        /'
        return
    fi
    grep -E 'not recorded|cannot be replayed|ends early' "$WORK/log" | cut -c1-230 | sed 's/^/        /'
    timeout "$LIMIT" kinescope replay "$file" --on cuda:0 --json >"$WORK/replay.json" 2>"$WORK/log2"
    played=$(now)
    if [ "$(json "$WORK/replay.json" "d['outcome']")" = match ]; then
        ok "$name $range: $(json "$WORK/replay.json" "d['calls']['launches']") launches, $(json "$WORK/replay.json" "len(d['calls']['outputs'])") outputs bit-equal; $(stat -c %s "$file") bytes; alone $plain_s s, recorded $(seconds "$begun" "$ended") s, replayed $(seconds "$ended" "$played") s; the work alone $plain_work, recorded $(figure)"
    else
        bad "$name $range: $(json "$WORK/replay.json" "d['failure'] or [o for o in d['calls']['outputs'] if o['differs_at'] is not None][:3]")"; tail -n 4 "$WORK/log2" | sed 's/^/        /'
    fi
}

for name in $names; do
    # Once for file caches and compiled kernels: what is compiled once is recorded as it is loaded.
    timeout "$LIMIT" python3 $program "$name" >/dev/null 2>"$WORK/log" || { bad "$name runs by itself"; tail -n 4 "$WORK/log" | sed 's/^/        /'; continue; }
    a=$(now)
    plain=$(timeout "$LIMIT" python3 $program "$name" 2>"$WORK/log" | grep '^ok')
    plain_work=$(figure)
    plain_s=$(seconds "$a" "$(now)")
    for range in ${RANGES:-whole marks}; do recorded "$name" "$range"; done
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
