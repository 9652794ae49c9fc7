//! The order in which inputs start: large ones first, similar ones together.

use std::cmp::Reverse;
use wasm_run::Input;

/// Number of first bytes of an input that its place among inputs of the same size depends on: formats have their
/// dimensions there.
const HEADER_BYTES: usize = 256;

/// Returns the positions of inputs, large ones first. Inputs of the same size with similar first bytes are next to each
/// other: their copies probably take the same branches, and allocate memory at the same addresses.
pub(crate) fn sort_similar(inputs: &[Input]) -> Vec<usize> {
    let key = |i: &usize| {
        let input = inputs.get(*i);
        let header = input.map(|i| i.bytes.get(..HEADER_BYTES).unwrap_or(&i.bytes));
        (Reverse(input.map_or(0, input_bytes)), header)
    };
    let mut order: Vec<usize> = (0..inputs.len()).collect();
    order.sort_by(|a, b| key(a).cmp(&key(b)));
    order
}

fn input_bytes(input: &Input) -> usize {
    input.bytes.len() + input.more_requests.iter().map(Vec::len).sum::<usize>()
}
