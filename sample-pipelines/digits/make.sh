#!/bin/sh
# Cuts the recording of the digit network into one recording for each layer. Needs `kinescope` (or KINESCOPE) and gzip.
cd "$(dirname "$0")" || exit 2
kinescope=${KINESCOPE:-kinescope}
job=0
for layer in conv1 pool conv2 dense; do
    # Its input is what the pipeline gives, so that no layer before it is kept.
    "$kinescope" trim ../../sample-traces/digits.kine --jobs $job --alone --accessed-memory -o $layer.kine || exit 1
    gzip -n9f $layer.kine || exit 1
    job=$((job + 1))
done
