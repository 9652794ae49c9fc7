#!/bin/sh
# make test-recordings: all tests, with the real recordings there and none of their tests skipped.
set -eu
cd "$(dirname "$0")/.."
. scripts/lib.sh

dir=${KINESCOPE_RECORDINGS:-../shared/recordings}
[ -d "$dir" ] || die "$dir: no such folder; set KINESCOPE_RECORDINGS to the folder of recordings"
dir=$(cd "$dir" && pwd)
lack=0
need() {
    if [ ! -s "$dir/$1" ]; then
        say "missing: $dir/$1"
        lack=$((lack + 1))
    fi
}
for net in mnist alexnet; do
    for file in gr_io_history gr_pgt gr_mem_contents gr_sync_as ${net}_integrated; do need gpureplay/$net/$file; done
done
need gpureplay/alexnet/input/input_alexnet
for gpu in g71 g52 zoo/g71; do
    [ -d "$dir/panfrost/$gpu" ] || { say "missing: $dir/panfrost/$gpu"; lack=$((lack + 1)); continue; }
    for program in "$dir/panfrost/$gpu"/*/; do
        name=$(basename "$program")
        need panfrost/$gpu/"$name"/spec.json
        need panfrost/$gpu/"$name"/submit000.json
    done
done
[ $lack = 0 ] || die "$lack files are missing: the recordings are not complete"
KINESCOPE_RECORDINGS=$dir; export KINESCOPE_RECORDINGS
exec scripts/test.sh --no-skips
