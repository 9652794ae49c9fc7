//! Fuzz target for the reader of a job's shader: any words, at any address, with a possible hole in memory.

use crate::input::Input;
use trace_core::GpuVa;
use trace_core::memory::GpuMemory;
use trace_core::shader_code::{CodeEnd, MAX_CODE, decode_code_within};

/// Memory that holds bytes from an address on, except for one range.
struct MemoryWithHole<'a> {
    from: u64,
    bytes: &'a [u8],
    /// The missing range, relative to the first byte.
    hole: std::ops::Range<usize>,
}

impl GpuMemory for MemoryWithHole<'_> {
    fn read(&self, va: GpuVa, out: &mut [u8]) -> bool {
        let Some(at) = va.get().checked_sub(self.from).and_then(|at| usize::try_from(at).ok()) else {
            return false;
        };
        let end = at.saturating_add(out.len());
        // No memory follows the last address.
        if va.get().checked_add(out.len().saturating_sub(1) as u64).is_none() {
            return false;
        }
        let readable = end <= self.hole.start || at >= self.hole.end;
        match self.bytes.get(at..end).filter(|_| readable) {
            Some(bytes) => {
                out.copy_from_slice(bytes);
                true
            }
            None => false,
        }
    }
}

/// Returns an input: the code's address, the maximum number of bytes to read, the hole in memory, the code.
#[must_use]
pub fn encode(entry: u64, max: u32, hole: u16, code: &[u8]) -> Vec<u8> {
    let mut out = entry.to_le_bytes().to_vec();
    out.extend(max.to_le_bytes());
    out.extend(hole.to_le_bytes());
    out.extend(code);
    out
}

/// Fuzzes a shader in any memory. Its clauses are contiguous and within the limit, and each matches its bytes. Its text
/// is available, branches and unknown instructions are counted, and a lower limit truncates the same list. The input is
/// accepted if the code was read to its end.
pub fn shader_code(data: &[u8]) -> bool {
    let mut input = Input(data);
    let (entry, max, hole) = (input.u64(), u64::from(input.u32()), usize::from(input.u16()));
    let mem = MemoryWithHole {
        from: entry,
        bytes: input.0,
        hole: hole..hole.saturating_add(16),
    };
    let code = decode_code_within(&mem, GpuVa::new(entry), max);
    let max = max.min(MAX_CODE);
    let mut at = entry;
    for (n, c) in code.clauses.iter().enumerate() {
        assert_eq!(c.clause.address, at, "a gap between clauses");
        assert!(at - entry < max, "a clause begins beyond the limit");
        assert_eq!(code.at(GpuVa::new(at)), Some(n));
        let mut bytes = vec![0; c.clause.bytes() as usize];
        assert!(mem.read(GpuVa::new(at), &mut bytes), "memory does not hold the clause");
        let decoded = bifrost::Clause::from_code(&bytes, 0).map(|mut decoded| {
            decoded.address = at;
            decoded
        });
        assert_eq!(decoded.as_ref(), Ok(&c.clause));
        assert!(!bifrost::clause_text(&c.clause, entry).is_empty());
        // The last clause can end at the end of the address space.
        at = at.wrapping_add(c.clause.bytes());
    }
    assert_eq!(code.bytes(), at.wrapping_sub(entry));
    assert!(
        code.clauses.first().is_none_or(|c| c.reachable),
        "the first clause is unreachable"
    );
    let unknown: u64 = code.unknown_operations().values().sum();
    assert!(unknown <= code.operations());
    if let CodeEnd::Unreadable(va) = code.end {
        assert!(!mem.read(va, &mut [0; 16]), "readable memory was reported as missing");
    }
    let fewer = decode_code_within(&mem, GpuVa::new(entry), max / 2);
    assert!(fewer.clauses.len() <= code.clauses.len());
    for (a, b) in fewer.clauses.iter().zip(&code.clauses) {
        assert_eq!((&a.clause, &a.targets, a.indirect), (&b.clause, &b.targets, b.indirect));
    }
    code.end.is_complete() && !code.clauses.is_empty()
}
