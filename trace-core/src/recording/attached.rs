//! Extras that recorders attach to a recording: shapes of buffers, and the results of chains on the recorded device.
//! Both are JSON, so that any reader can use them; see `docs/format.md`.

use super::Recording;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Name of the extra with the shapes of buffers: an object with one array per buffer name, the length of each
/// dimension, the slowest first.
pub const BUFFER_SHAPES: &str = "buffer-shapes";
/// Maximum number of dimensions of a buffer.
pub const MAX_DIMENSIONS: usize = 32;
/// Name of the extra with the results of chains: an array of [`ChainReport`], in the order of their submits.
pub const CHAIN_REPORTS: &str = "chain-reports";

/// Name of the extra with the memory locations in the replayed recording: an array of [`RecordedRange`], by ascending
/// address.
pub const RECORDED_RANGES: &str = "recorded-ranges";

/// A range of a replay's physical memory, and its location in the replayed recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedRange {
    /// Physical address of the first byte.
    pub at: u64,
    /// Number of bytes.
    pub bytes: u64,
    /// Physical address of the first byte in the replayed recording.
    pub recorded_at: u64,
}

/// The result of a chain, as reported by the recorded device itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainReport {
    /// Event of the write that started it.
    pub submit_event: u64,
    /// Exception code of the slot: 1 means done.
    pub status: u8,
    /// Whether every shader of the chain ran. Absent: it has none, or did not complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub computed: Option<bool>,
    /// Why a shader did not run, or what stopped it, as text for users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl ChainReport {
    /// Whether it completed as done, with every shader.
    #[must_use]
    pub fn has_computed(&self) -> bool {
        self.status == 1 && self.computed != Some(false)
    }
}

impl Recording {
    /// Returns the valid shapes of buffers by name: each dimension is at least 1, and the product is the number of
    /// elements. Empty if the recording has none, or none that is readable.
    #[must_use]
    pub fn buffer_shapes(&self) -> BTreeMap<String, Vec<u64>> {
        let mut by_key: BTreeMap<String, Vec<u64>> = self.attached(BUFFER_SHAPES).unwrap_or_default();
        let mut fitting = BTreeMap::new();
        for buffer in &self.metadata.buffers {
            let Some(shape) = by_key.remove(&buffer.name) else {
                continue;
            };
            let elements = shape.iter().try_fold(1u64, |all, side| all.checked_mul(*side));
            let bytes = elements.and_then(|n| n.checked_mul(buffer.element.bytes() as u64));
            if (1..=MAX_DIMENSIONS).contains(&shape.len()) && buffer.bytes > 0 && bytes == Some(buffer.bytes) {
                fitting.insert(buffer.name.clone(), shape);
            }
        }
        fitting
    }

    /// Returns the shape of a buffer, if the recording has a valid one.
    #[must_use]
    pub fn buffer_shape(&self, name: &str) -> Option<Vec<u64>> {
        self.buffer_shapes().remove(name)
    }

    /// Returns the results of chains on the recorded device, in the order of their submits. Empty if the recorder did
    /// not store them.
    #[must_use]
    pub fn chain_reports(&self) -> Vec<ChainReport> {
        self.attached(CHAIN_REPORTS).unwrap_or_default()
    }

    /// Returns the memory locations in the replayed recording, by ascending address. Empty if this is no replay, or if
    /// page tables give the locations.
    #[must_use]
    pub fn recorded_ranges(&self) -> Vec<RecordedRange> {
        let mut ranges: Vec<RecordedRange> = self.attached(RECORDED_RANGES).unwrap_or_default();
        ranges.sort_unstable_by_key(|r| r.at);
        ranges
    }

    /// Attaches the memory locations in the replayed recording. An empty list changes nothing.
    pub fn set_recorded_ranges(&mut self, ranges: &[RecordedRange]) {
        if !ranges.is_empty() {
            self.attach(RECORDED_RANGES, &ranges);
        }
    }

    /// Attaches shapes of buffers by name. An empty list changes nothing.
    pub fn set_buffer_shapes(&mut self, shapes: &BTreeMap<String, Vec<u64>>) {
        if !shapes.is_empty() {
            self.attach(BUFFER_SHAPES, shapes);
        }
    }

    /// Attaches the results of chains, in the order of their submits. An empty list changes nothing.
    pub fn set_chain_reports(&mut self, reports: &[ChainReport]) {
        if !reports.is_empty() {
            self.attach(CHAIN_REPORTS, &reports);
        }
    }

    fn attach<T: Serialize>(&mut self, name: &str, value: &T) {
        // Text keys, numbers and texts always serialise.
        if let Ok(json) = serde_json::to_vec(value) {
            self.extras.insert(name.to_owned(), json);
        }
    }

    fn attached<T: for<'a> Deserialize<'a>>(&self, name: &str) -> Option<T> {
        serde_json::from_slice(self.extras.get(name)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::GpuVa;
    use crate::recording::{Buffer, BufferRole, ElementType};

    #[test]
    fn shape_applies_if_it_fits_its_buffer() {
        let mut r = Recording::default();
        for (name, bytes) in [("image", 256), ("other", 100), ("none", 4)] {
            r.metadata.buffers.push(Buffer {
                name: name.into(),
                role: BufferRole::Input,
                address_space: 0,
                va: GpuVa(0x1000),
                bytes,
                element: ElementType::F32,
            });
        }
        assert_eq!(r.buffer_shape("image"), None);
        let json = br#"{"image":[8,8],"other":[8,8],"none":[],"gone":[1],"huge":[4294967296,4294967296]}"#;
        r.extras.insert(BUFFER_SHAPES.into(), json.to_vec());
        assert_eq!(r.buffer_shape("image"), Some(vec![8, 8]));
        for name in ["other", "none", "gone", "huge", "nowhere"] {
            assert_eq!(r.buffer_shape(name), None, "{name}");
        }
        for invalid in [&b"{"[..], b"[]", br#"{"image":8}"#, br#"{"image":[-1]}"#] {
            r.extras.insert(BUFFER_SHAPES.into(), invalid.to_vec());
            assert!(r.buffer_shapes().is_empty());
        }
    }

    #[test]
    fn chain_reports_round_trip() {
        let all = vec![
            ChainReport {
                submit_event: 7,
                status: 1,
                computed: Some(false),
                reason: Some("a vertex job".into()),
            },
            ChainReport {
                submit_event: 9,
                status: 1,
                computed: None,
                reason: None,
            },
        ];
        let mut r = Recording::default();
        assert!(r.chain_reports().is_empty());
        let json = serde_json::to_vec(&all).unwrap();
        assert!(
            json.ends_with(br#"{"submit_event":9,"status":1}]"#),
            "{}",
            String::from_utf8_lossy(&json)
        );
        r.extras.insert(CHAIN_REPORTS.into(), json);
        assert_eq!(r.chain_reports(), all);
        assert_eq!(
            all.iter().map(ChainReport::has_computed).collect::<Vec<_>>(),
            [false, true]
        );
        r.extras.insert(CHAIN_REPORTS.into(), b"[{}]".to_vec());
        assert!(r.chain_reports().is_empty());
    }
}
