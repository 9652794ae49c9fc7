#!/bin/sh
# Renders kinescope.svg into PNG pictures of the usual icon sizes. The drawing holds rectangles alone, so ImageMagick
# needs no SVG reader.
# Use: assets/desktop/render.sh
set -eu
cd "$(dirname "$0")"
scale=8
draw=$(sed -n 's/^ *<rect \(.*\)\/>$/\1/p' kinescope.svg | awk -v s=$scale '{
    split("", v)
    for (i = 1; i <= NF; i++) { split($i, pair, "="); gsub(/"/, "", pair[2]); v[pair[1]] = pair[2] }
    printf "fill %s roundrectangle %d,%d %d,%d %d,%d\n", v["fill"], v["x"] * s, v["y"] * s,
        (v["x"] + v["width"]) * s - 1, (v["y"] + v["height"]) * s - 1, v["rx"] * s, v["rx"] * s
}')
for size in 16 24 32 48 64 128 256; do
    convert -size $((256 * scale))x$((256 * scale)) xc:none -draw "$draw" -resize "${size}x$size" -strip \
        -define png:exclude-chunks=date,time "PNG32:kinescope-$size.png"
done
