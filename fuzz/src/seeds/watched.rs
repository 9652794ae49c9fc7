//! Seeds of memory traces: one of all memory with changes of two launches, and an empty one.

use super::Add;
use crate::watched::{BASE, BYTES};
use trace_core::calls::{MemorySample, MemoryTrace};

/// Adds the seeds.
pub fn add(add: Add<'_>) {
    let sight = |at: u64, moment: u64, content: u64| MemorySample {
        at,
        moment,
        bytes: 4096,
        content,
    };
    let mut content = vec![0; 4096];
    content.extend([7; 4096]);
    let sights = vec![
        sight(BASE, 1, 0),
        sight(BASE, 2, 4096),
        sight(BASE + 4096, 1, 0),
        sight(BASE + 4096, 4, 0),
        sight(BASE + 4096, 5, 4096),
    ];
    let all: Vec<_> = std::iter::once(BASE..BASE + BYTES).collect();
    for (name, whole, sights, content) in [
        ("changes", true, sights, content),
        ("nothing", false, Vec::new(), Vec::new()),
    ] {
        let made = MemoryTrace::new("cuda:0", 1..6, whole, all.clone(), sights, content);
        if let Ok(bytes) = made.and_then(|w| w.to_bytes()) {
            add("watched", name, bytes);
        }
    }
}
