#!/bin/sh
# Makes the register maps of Adreno GPUs anew: scripts/adreno-maps.sh MESA, with the folder of Mesa's sources.
# With --check it writes nothing, and fails if a map is another than what the sources give.
set -eu
cd "$(dirname "$0")/.."
here=$PWD
check=
if [ "${1:-}" = --check ]; then check=1; shift; fi
xml=${1:?usage: scripts/adreno-maps.sh [--check] MESA}/src/freedreno/registers/adreno
kinescope=${KINESCOPE:-$here/target/debug/kinescope}
[ -x "$kinescope" ] || { echo "$kinescope is missing: build it, or name another one in KINESCOPE"; exit 2; }
[ -f "$xml/a6xx.xml" ] || { echo "$xml has no a6xx.xml: give the folder of Mesa's sources"; exit 2; }
made=$(mktemp)
trap 'rm -f "$made"' EXIT
bad=0

# import MAP FILE VARIANT DOMAIN...: the table [map] of each map is written by hand, in its map.toml.
import() {
    map=$1 file=$2 variant=$3
    shift 3
    blocks=
    for domain; do blocks="$blocks --block $domain"; done
    # shellcheck disable=SC2086
    (cd "$xml" && "$kinescope" maps import "$file" --variant "$variant" $blocks --name "$map" --space gpu --compact -o -) \
        2>/dev/null | awk '/^\[block\]/ { on = 1 } on' >"$made"
    [ -s "$made" ] || { echo "$map: $file contains no map"; exit 2; }
    to=assets/registers/$map/registers.toml
    if [ -z "$check" ]; then
        cat "$made" >"$to"
        echo "$to"
    elif ! cmp -s "$made" "$to"; then
        echo "$to differs from the map of $xml/$file"
        bad=1
    fi
}

import adreno-a2xx a2xx.xml A2XX A2XX AXXX
import adreno-a3xx a3xx.xml A3XX A3XX AXXX
import adreno-a4xx a4xx.xml A4XX A4XX
import adreno-a5xx a5xx.xml A5XX A5XX
# One file describes the sixth and the seventh generation.
import adreno-a6xx a6xx.xml A6XX A6XX
import adreno-a7xx a6xx.xml A7XX A6XX
exit $bad
