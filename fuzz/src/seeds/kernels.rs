//! Seeds of single-kernel databases: each file that `trace-core/tests/kernels/make.py` wrote.

use super::Add;
use crate::kernels::{MNEME, RECORD_REPLAY};

/// Adds the seeds.
pub fn add(add: Add<'_>) {
    let file = |which: u8, (_, bytes): &(&str, &[u8])| [&[which], *bytes].concat();
    for (n, (entry, name)) in (0..).zip(RECORD_REPLAY.iter().zip(["database", "before", "behind"])) {
        add("record_replay", name, file(n, entry));
    }
    let names = ["database", "before", "changed", "before-second", "behind"];
    for (n, (entry, name)) in (0..).zip(MNEME.iter().zip(names)) {
        add("mneme", name, file(n, entry));
    }
}
