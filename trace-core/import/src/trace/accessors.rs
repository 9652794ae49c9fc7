//! Calls of register accessors by a driver, from probes of functions: `igb_rd32(hw, reg)`, `writel(value, addr)`. The
//! arguments have the names that somebody gave them, or those of the kernel.

use super::ftrace::{self, Probe};
use super::names::Names;

/// The entry of an accessor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AccessorCall {
    /// Numbers of the names of the function and of its module.
    pub(super) function: u16,
    pub(super) module: u16,
    /// An argument that distinguishes the devices of a driver, or 0.
    pub(super) instance: u64,
    /// Offset in the registers, or virtual address.
    pub(super) offset: u64,
    pub(super) is_address: bool,
    /// The value of a write.
    pub(super) value: Option<u64>,
}

/// Returns the first of the fields with one of these names.
pub(super) fn any_field(fields: &[u8], names: &[&[u8]]) -> Option<u64> {
    ftrace::fields(fields)
        .find(|(key, _)| names.contains(key))
        .and_then(|(_, value)| ftrace::number(value))
}

/// Lowest address of a kernel's memory, on machines of 32 bits too; an offset is lower.
const MIN_ADDRESS: u64 = 0x8000_0000;

/// Parses the entry of a register accessor. Returns `None` for another function.
pub(super) fn call(p: &Probe<'_>, names: &mut Names) -> Option<AccessorCall> {
    let function = std::str::from_utf8(p.function).unwrap_or_default();
    let mut value = any_field(p.fields, &[b"val", b"value"]);
    if value.is_none() && is_writer(function) {
        value = any_field(p.fields, &[b"data", b"v"]);
    }
    let mut offset = any_field(p.fields, &[b"off", b"offset", b"reg", b"register"]);
    let mut is_address = false;
    if offset.is_none()
        && let Some(at) = any_field(p.fields, &[b"addr", b"address", b"port", b"mem"])
    {
        (offset, is_address) = (Some(at), at >= MIN_ADDRESS);
    }
    if offset.is_none() && width_of(function) > 0 {
        // Arguments without names are numbered. The kernel's own writers have the value first.
        let (first, second) = (ftrace::field(p.fields, b"arg1"), ftrace::field(p.fields, b"arg2"));
        let is_kernel = |v: &Option<u64>| v.is_some_and(|v| v > u64::from(u32::MAX));
        let (at, other) = match (is_kernel(&first), is_kernel(&second)) {
            (true, _) => (first, second),
            (false, true) => (second, first),
            (false, false) => (None, None),
        };
        (offset, value, is_address) = (at, value.or(other.filter(|_| is_writer(function))), at.is_some());
    }
    let offset = offset?;
    let is_address = is_address || offset > u64::from(u32::MAX);
    // An address argument distinguishes the devices of a driver.
    let instance = ftrace::fields(p.fields)
        .next()
        .and_then(|(_, v)| ftrace::number(v))
        .filter(|v| *v > u64::from(u32::MAX) && !is_address);
    Some(AccessorCall {
        function: names.number(p.function),
        module: names.number(p.module),
        instance: instance.unwrap_or(0),
        offset,
        value,
        is_address,
    })
}

/// Whether the name of an accessor says that it writes.
fn is_writer(function: &str) -> bool {
    ["write", "wr", "out", "store"].iter().any(|w| function.contains(w))
}

/// Returns the width in bytes in the name of a register accessor: `rd32`, `readw`, `ioread16be`, `writel_relaxed`.
/// Returns 0 if the name has none.
pub(super) fn width_of(function: &str) -> u8 {
    let mut name = function.trim_end_matches('_');
    for end in ["_relaxed", "_rep", "be", "le", "_native", "_noirq"] {
        name = name.strip_suffix(end).unwrap_or(name);
    }
    for (end, width) in [("64", 8), ("32", 4), ("16", 2), ("8", 1)] {
        if name.ends_with(end) {
            return width;
        }
    }
    for (letter, width) in [('q', 8), ('l', 4), ('w', 2), ('b', 1)] {
        if let Some(verb) = name.strip_suffix(letter)
            && ["read", "write", "in", "out"].iter().any(|v| verb.ends_with(v))
        {
            return width;
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_accessors_state_their_width() {
        let names = [
            ("igb_rd32", 4),
            ("kbase_reg_read64", 8),
            ("mt76_readw", 2),
            ("kbase_reg_write", 0),
            ("x_rr8", 1),
            ("writel_relaxed", 4),
            ("ioread16be", 2),
            ("iowrite32_rep", 4),
            ("__raw_readq", 8),
            ("outb", 1),
            ("kernel_thread", 0),
        ];
        for (name, width) in names {
            assert_eq!(width_of(name), width, "{name}");
        }
    }
}
