//! Kernels that follow pointers in device memory.
//!
//! A list node is the address of the next node and a word. A tree node is the addresses of its lower and its higher
//! child, its key and its word.

use super::run::KernelRun;
use crate::Answer;
use crate::codes::INVALID_VALUE;

/// Size of a list node, bytes.
const NODE: u64 = 16;

/// `link(nodes, n, step)`: node i comes before node i + step.
pub fn link(r: &KernelRun<'_>) -> Answer {
    let (nodes, n, step) = (r.u64(0)?, u64::from(r.u32(1)?), u64::from(r.u32(2)?));
    r.indices(n)
        .try_for_each(|i| r.memory.set_u64(nodes + i * NODE, nodes + (i + step) % n * NODE))
}

/// `walk(out, list)`: a list has the location of its first node's address, a count and a factor; out[i] = word of the
/// i-th node · factor. One thread.
pub fn walk(r: &KernelRun<'_>) -> Answer {
    let out = r.u64(0)?;
    let list = r.argument(1)?;
    let (place, rest) = list.split_first_chunk::<8>().ok_or(INVALID_VALUE)?;
    let (count, rest) = rest.split_first_chunk::<4>().ok_or(INVALID_VALUE)?;
    let (factor, _) = rest.split_first_chunk::<4>().ok_or(INVALID_VALUE)?;
    let factor = u32::from_le_bytes(*factor);
    let mut node = r.memory.u64(u64::from_le_bytes(*place))?;
    for i in 0..u64::from(u32::from_le_bytes(*count)) {
        r.memory
            .set_u32(out + i * 4, r.memory.u32(node + 8)?.wrapping_mul(factor))?;
        node = r.memory.u64(node)?;
    }
    Ok(())
}

/// `reverse(place, count)`: reverses a list of this many nodes, so that its last node is first. One thread.
pub fn reverse(r: &KernelRun<'_>) -> Answer {
    let place = r.u64(0)?;
    let (mut node, mut before) = (r.memory.u64(place)?, 0);
    for _ in 0..r.u32(1)? {
        let next = r.memory.u64(node)?;
        r.memory.set_u64(node, before)?;
        (before, node) = (node, next);
    }
    r.memory.set_u64(place, before)
}

/// `find(out, root, keys, n)`: out[i] = word of the node with the key keys[i], all ones if there is none.
pub fn find(r: &KernelRun<'_>) -> Answer {
    let (out, root, keys) = (r.u64(0)?, r.u64(1)?, r.u64(2)?);
    r.indices(r.u32(3)?.into()).try_for_each(|i| {
        let key = r.memory.u32(keys + i * 4)?;
        let (mut node, mut result) = (root, u32::MAX);
        while node != 0 {
            let here = r.memory.u32(node + 16)?;
            if here == key {
                result = r.memory.u32(node + 20)?;
                break;
            }
            node = r.memory.u64(if key < here { node } else { node + 8 })?;
        }
        r.memory.set_u32(out + i * 4, result)
    })
}
