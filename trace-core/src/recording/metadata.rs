//! Metadata of a recording besides its events and memory, and the two kinds of recordings.

use super::api_trace::ApiTraceMetadata;
use super::capture::Capture;
use super::driver_trace::DriverTraceMetadata;
use super::identity::{AddressSpace, Buffer, Identity, LostEvents, Region, Space};
use super::origin::{AppliedEdit, Cut};
use super::processes::ProcessIndex;
use super::register_trace::{MAX_DIMENSIONS, RegisterTraceMetadata};
use crate::finding::Finding;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Metadata of a recording besides its events and memory.
///
/// A file stores the fields from `identity` to `source_zero_pages` as one record of fixed form, `facts`: none of them is
/// reordered, and none is added. It stores each later field as a record of the section `metadata`, which can gain
/// records and versions. Serialization is that of `facts`, and skips the later fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metadata {
    /// GPU, driver, board, tool, time.
    pub identity: Identity,
    /// Spaces of accesses.
    pub spaces: Vec<Space>,
    /// Page-table roots.
    pub address_spaces: Vec<AddressSpace>,
    /// Named ranges of GPU memory.
    pub buffers: Vec<Buffer>,
    /// Ranges that the driver allocated.
    pub regions: Vec<Region>,
    /// Events known to be missing.
    pub lost: Vec<LostEvents>,
    /// Findings of the importer or recorder: data that it could not use.
    pub findings: Vec<Finding>,
    /// Number of page images in the source, repeats and zeros included; 0 if memory was not dumped.
    pub source_pages: u64,
    /// Number of these images that are all zero.
    pub source_zero_pages: u64,
    /// The kind of recording, with what only recordings of this kind have.
    #[serde(skip)]
    pub kind: TraceKind,
    /// How a recorder on the recorded machine made the recording, if one did.
    #[serde(skip)]
    pub capture: Option<Capture>,
    /// Shapes of buffers by name: the length of each dimension, the slowest first. [`Metadata::valid_shapes`] returns
    /// those that fit their buffers.
    #[serde(skip)]
    pub buffer_shapes: BTreeMap<String, Vec<u64>>,
    /// Cuts of the recording, the first one first. Empty if it was never cut.
    #[serde(skip)]
    pub cuts: Vec<Cut>,
    /// Inputs that hold other bytes than the recorded ones, the oldest edit first. Empty for an unedited recording.
    #[serde(skip)]
    pub applied_edits: Vec<AppliedEdit>,
    /// The index of processes that the recording was opened by.
    #[serde(skip)]
    pub processes: Option<ProcessIndex>,
    /// Records of the section `metadata` with tags that this version does not know. They are written back unchanged.
    #[serde(skip)]
    pub unknown_records: Vec<UnknownRecord>,
}

/// The kind of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceKind {
    /// Accesses of a driver to a device.
    Register(RegisterTraceMetadata),
    /// Calls of a program to a driver.
    Api(ApiTraceMetadata),
    /// Requests of a user-space driver to the kernel driver.
    Driver(DriverTraceMetadata),
}

impl Default for TraceKind {
    fn default() -> Self {
        Self::Register(RegisterTraceMetadata::default())
    }
}

/// A record of the section `metadata` with a tag that this version does not know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownRecord {
    /// Its tag.
    pub tag: u32,
    /// Version of its body.
    pub version: u32,
    /// Its body.
    pub body: Vec<u8>,
}

impl Metadata {
    /// Returns the valid shapes of buffers by name: each dimension is at least 1, and the product is the number of
    /// elements.
    #[must_use]
    pub fn valid_shapes(&self) -> BTreeMap<String, Vec<u64>> {
        let fits = |buffer: &Buffer, shape: &[u64]| {
            let elements = shape.iter().try_fold(1u64, |all, side| all.checked_mul(*side));
            let bytes = elements.and_then(|n| n.checked_mul(buffer.element.bytes() as u64));
            (1..=MAX_DIMENSIONS).contains(&shape.len()) && buffer.bytes > 0 && bytes == Some(buffer.bytes)
        };
        let named = self
            .buffers
            .iter()
            .filter_map(|b| Some((b, self.buffer_shapes.get(&b.name)?)));
        named
            .filter(|(buffer, shape)| fits(buffer, shape))
            .map(|(buffer, shape)| (buffer.name.clone(), shape.clone()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::GpuVa;
    use crate::recording::{BufferRole, ElementType};

    #[test]
    fn shape_applies_if_it_fits_its_buffer() {
        let mut metadata = Metadata::default();
        for (name, bytes) in [("image", 256), ("other", 100), ("none", 4), ("huge", 4)] {
            metadata.buffers.push(Buffer {
                name: name.into(),
                role: BufferRole::Input,
                address_space: 0,
                va: GpuVa::new(0x1000),
                bytes,
                element: ElementType::F32,
            });
        }
        assert!(metadata.valid_shapes().is_empty());
        let json = r#"{"image":[8,8],"other":[8,8],"none":[],"gone":[1],"huge":[4294967296,4294967296]}"#;
        metadata.buffer_shapes = serde_json::from_str(json).unwrap();
        assert_eq!(
            metadata.valid_shapes().into_iter().collect::<Vec<_>>(),
            [("image".to_owned(), vec![8, 8])]
        );
    }

    #[test]
    fn serialization_is_that_of_the_record_facts() {
        let later = Metadata {
            kind: TraceKind::Api(ApiTraceMetadata::default()),
            capture: Some(Capture::default()),
            ..Metadata::default()
        };
        let bytes = |m: &Metadata| crate::encode::to_bytes(m).unwrap();
        assert_eq!(bytes(&later), bytes(&Metadata::default()));
    }
}
