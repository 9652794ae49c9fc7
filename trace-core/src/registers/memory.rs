//! Memory ranges that a map names: `[[memory]]`.

use super::map_error::{RegisterMapError, SourceLocation};
use super::raw::RawMemory;
use super::weight;
use crate::GpuVa;

/// Maximum number of memory ranges of a map.
const MAX_RANGES: usize = 1 << 16;

/// A range of GPU memory with a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedMemory {
    /// Its name.
    pub name: String,
    /// Index of the address space.
    pub space: u32,
    /// Address of the first byte.
    pub address: GpuVa,
    /// Size in bytes, at least one; the end is at most 2⁶⁴.
    pub bytes: u64,
    /// The layout of its consecutive elements; empty if none is given.
    pub layout: String,
    /// Description in one sentence; may be empty.
    pub doc: String,
}

impl NamedMemory {
    /// Returns its approximate memory size, bytes.
    pub(super) fn weight(&self) -> usize {
        size_of::<Self>() + weight::text(&self.name) + weight::text(&self.layout) + weight::text(&self.doc)
    }
}

/// Parses a `[[memory]]` table and checks everything except its layout, which may be in a map below.
pub(super) fn parse_memory(at: &SourceLocation<'_>, raw: &RawMemory) -> Result<NamedMemory, RegisterMapError> {
    if raw.name.is_empty() {
        return Err(at.err("the name is empty"));
    }
    if raw.bytes == 0 || raw.address.checked_add(raw.bytes - 1).is_none() {
        return Err(at.err(format!(
            "{} bytes at {:#x} are not a valid range",
            raw.bytes, raw.address
        )));
    }
    Ok(NamedMemory {
        name: raw.name.clone(),
        space: raw.space,
        address: raw.address,
        bytes: raw.bytes,
        layout: raw.layout.clone(),
        doc: raw.doc.clone(),
    })
}

/// Adds a range to the ranges of a map; a second range with the same start is an error.
pub(super) fn add(
    all: &mut Vec<NamedMemory>,
    at: &SourceLocation<'_>,
    range: NamedMemory,
) -> Result<(), RegisterMapError> {
    if all.len() >= MAX_RANGES {
        return Err(at.err(format!("the map has more than {MAX_RANGES} memory ranges")));
    }
    let place = |m: &NamedMemory| (m.space, m.address.get());
    let n = all.partition_point(|m| place(m) < place(&range));
    if all.get(n).is_some_and(|m| place(m) == place(&range)) {
        return Err(at.err(format!("another range begins at {:#x}", range.address.get())));
    }
    all.insert(n, range);
    Ok(())
}
