//! The execution counts of a program's blocks, as a section of the recording.

use crate::WasmRecordingError;
use wasm_run::BlockProfile;

/// Name of the section.
pub(crate) const SECTION: &str = "wasm-profile";
/// Bytes of an entry: offset, executions, active lanes, eight each.
const ENTRY_BYTES: usize = 24;

/// Returns the section of these counts.
pub(crate) fn encode(counts: &[BlockProfile]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(counts.len().saturating_mul(ENTRY_BYTES));
    for count in counts {
        for number in [count.offset, count.executions, count.active_lanes] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
    }
    bytes
}

/// Returns the counts of a section.
pub(crate) fn decode(bytes: &[u8]) -> Result<Vec<BlockProfile>, WasmRecordingError> {
    let (entries, rest) = bytes.as_chunks::<ENTRY_BYTES>();
    if !rest.is_empty() {
        return Err(WasmRecordingError::Section {
            section: SECTION,
            reason: format!("{} bytes are no multiple of {ENTRY_BYTES}", bytes.len()),
        });
    }
    let number = |entry: &[u8; ENTRY_BYTES], at: usize| {
        let bytes = entry.get(at..).and_then(|b| b.first_chunk::<8>());
        bytes.map_or(0, |b| u64::from_le_bytes(*b))
    };
    let decode = |entry: &[u8; ENTRY_BYTES]| BlockProfile {
        offset: number(entry, 0),
        executions: number(entry, 8),
        active_lanes: number(entry, 16),
    };
    Ok(entries.iter().map(decode).collect())
}
