//! Pointers in device memory: a list that kernels link and reverse, and a search tree that the host builds.

use crate::gpu::Arg::{Three, U32, U64};
use crate::gpu::ClientResult;
use crate::program_context::{DEFAULT, ProgramContext};
use crate::result::{check, scramble, words};

/// A node of the tree in the device's layout.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Branch {
    lower: u64,
    higher: u64,
    key: u32,
    word: u32,
}

pub fn linked(w: &mut ProgramContext<'_>) -> ClientResult {
    let n = w.size(1_000);
    let gpu = w.gpu;
    let code = gpu.load(include_str!("../../ptx/linked.ptx"))?;
    let link = gpu.function(code, "link")?;
    let walk = gpu.function(code, "walk")?;
    let reverse = gpu.function(code, "reverse")?;
    let find = gpu.function(code, "find")?;
    // A step that is coprime to the count reaches every node.
    let step = (7..).find(|s| gcd(*s, n) == 1).unwrap_or(1);
    let values = words(w.options.seed, n);
    let nodes: Vec<[u32; 4]> = values.iter().map(|v| [0, 0, *v, 0]).collect();
    let nodes = gpu.upload_new(&nodes)?;
    let head = gpu.upload_new(&[nodes])?;
    let out = gpu.alloc(n as usize * 4)?;
    gpu.launch_for_each(link, n, &[U64(nodes), U32(n), U32(step)])?;
    let in_order: Vec<u32> = (0..u64::from(n))
        .map(|i| values[(i * u64::from(step) % u64::from(n)) as usize])
        .collect();
    let by = |factor: u32, all: &mut dyn Iterator<Item = &u32>| all.map(|v| v.wrapping_mul(factor)).collect::<Vec<_>>();
    for (factor, reversed) in [(1, false), (5, true)] {
        if reversed {
            gpu.launch(reverse, 1, 1, DEFAULT, &[U64(head), U32(n)])?;
        }
        gpu.launch(walk, 1, 1, DEFAULT, &[U64(out), Three(head, n, factor)])?;
        let got: Vec<u32> = gpu.download(out, n as usize)?;
        let right = if reversed {
            by(factor, &mut in_order.iter().rev())
        } else {
            by(factor, &mut in_order.iter())
        };
        check("words of the list", &got, &right)?;
        w.result.give(&got);
    }

    // The first nodes of the tree have an allocation each, so that links cross allocations.
    let mut keys: Vec<u32> = (0..n).map(|i| scramble(i ^ 0x5555) % (4 * n)).collect();
    keys.sort_unstable();
    keys.dedup();
    let separate = keys.len().min(40);
    let rest = gpu.alloc((keys.len() - separate).max(1) * size_of::<Branch>())?;
    let mut addresses = Vec::new();
    for i in 0..keys.len() {
        addresses.push(match i.checked_sub(separate) {
            None => gpu.alloc(size_of::<Branch>())?,
            Some(i) => rest + (i * size_of::<Branch>()) as u64,
        });
    }
    let mut branches = vec![None; keys.len()];
    let root = grow(&keys, 0, keys.len(), &addresses, &mut branches, w.options.seed);
    let branches: Vec<Branch> = branches.into_iter().flatten().collect();
    for (at, branch) in addresses.iter().zip(&branches).take(separate) {
        gpu.upload(*at, &[*branch])?;
    }
    gpu.upload(
        rest,
        branches
            .get(separate..)
            .filter(|b| !b.is_empty())
            .unwrap_or(&branches[..1]),
    )?;
    let queries: Vec<u32> = (0..n).map(|i| scramble(i) % (4 * n)).collect();
    let device_queries = gpu.upload_new(&queries)?;
    gpu.launch_for_each(find, n, &[U64(out), U64(root), U64(device_queries), U32(n)])?;
    let got: Vec<u32> = gpu.download(out, n as usize)?;
    let right = queries.iter().map(|key| match keys.binary_search(key) {
        Ok(_) => scramble(key ^ w.options.seed),
        Err(_) => u32::MAX,
    });
    check("words of the tree", &got, &right.collect::<Vec<_>>())?;
    w.result.give(&got);
    Ok(())
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Builds the tree of `keys[from..to]` and returns the address of its root.
fn grow(keys: &[u32], from: usize, to: usize, addresses: &[u64], out: &mut [Option<Branch>], seed: u32) -> u64 {
    if from >= to {
        return 0;
    }
    let middle = usize::midpoint(from, to);
    let branch = Branch {
        lower: grow(keys, from, middle, addresses, out, seed),
        higher: grow(keys, middle + 1, to, addresses, out, seed),
        key: keys[middle],
        word: scramble(keys[middle] ^ seed),
    };
    out[middle] = Some(branch);
    addresses[middle]
}
