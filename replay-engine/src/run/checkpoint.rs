//! The record of a checkpoint: the state of a run between two of its jobs, without the page images.

use super::outcome::Outcome;
use serde::{Deserialize, Serialize};
use trace_core::encode::{self, EncodeError};
use trace_core::recording::Digest;

/// First bytes of an encoded checkpoint.
const MAGIC: &[u8; 8] = b"KINECKPT";
/// Version of the encoding.
const VERSION: u32 = 1;
/// Magic, version, and digest of the record.
const HEADER_BYTES: usize = 8 + 4 + 32;

/// Why bytes are not a checkpoint.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointRecordError {
    /// Other bytes, or another version.
    #[error("not a checkpoint of version {VERSION}")]
    NotACheckpoint,
    /// The record is cut off, or does not have its digest.
    #[error("the record of the checkpoint does not have its digest")]
    Digest,
    /// The record does not decode.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// A frame has an image that does not exist.
    #[error("frame {frame:#x} has the image {image}, and there are {images}")]
    Image {
        /// The frame.
        frame: u64,
        /// Number of the image.
        image: u32,
        /// Number of images.
        images: usize,
    },
    /// The frames are not ascending.
    #[error("the frames of the checkpoint are not in order")]
    Order,
}

/// The state of a run between two of its jobs. Version 1 has exactly these fields: a change of them is a new version.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckpointRecord {
    /// BLAKE3 digest of what decides the result of the run: recording, inputs, options.
    pub run: Digest,
    /// The first job that has not run.
    pub next_job: u32,
    /// BLAKE3 digests of the page images that are stored beside the record, in their order.
    pub images: Vec<Digest>,
    /// Data frames of the recording that the device changed, ascending, each with the number of its image, counted from
    /// 1; 0 for a page of zeros.
    pub frames: Vec<(u64, u32)>,
    /// The outcome so far, without outputs and recording.
    pub outcome: Outcome,
}

impl CheckpointRecord {
    /// Encodes the record: magic, version, digest, record.
    ///
    /// # Errors
    /// If it is too long.
    pub fn to_bytes(&self) -> Result<Vec<u8>, EncodeError> {
        let record = encode::to_long_bytes(self)?;
        let mut bytes = Vec::with_capacity(HEADER_BYTES.saturating_add(record.len()));
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(blake3::hash(&record).as_bytes());
        bytes.extend_from_slice(&record);
        Ok(bytes)
    }

    /// Decodes a record.
    ///
    /// # Errors
    /// If the bytes are no checkpoint of this version, damaged, or contradict themselves.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, CheckpointRecordError> {
        let rest = bytes.strip_prefix(MAGIC);
        let rest = rest.and_then(|rest| rest.strip_prefix(&VERSION.to_le_bytes()));
        let rest = rest.ok_or(CheckpointRecordError::NotACheckpoint)?;
        let (digest, record) = rest.split_first_chunk::<32>().ok_or(CheckpointRecordError::Digest)?;
        if blake3::hash(record).as_bytes() != digest {
            return Err(CheckpointRecordError::Digest);
        }
        Self::from_record(record)
    }

    /// Decodes what follows the header, whose digest is checked.
    ///
    /// # Errors
    /// If it does not decode, or contradicts itself.
    pub fn from_record(record: &[u8]) -> Result<Self, CheckpointRecordError> {
        let this: Self = encode::from_long_bytes(record)?;
        let images = this.images.len();
        if let Some((frame, image)) = this.frames.iter().find(|(_, image)| *image as usize > images) {
            return Err(CheckpointRecordError::Image {
                frame: *frame,
                image: *image,
                images,
            });
        }
        match this.frames.is_sorted_by(|a, b| a.0 < b.0) {
            true => Ok(this),
            false => Err(CheckpointRecordError::Order),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{AccessOutcome, OutcomeBody};

    fn record() -> CheckpointRecord {
        CheckpointRecord {
            run: [7; 32],
            next_job: 3,
            images: vec![[1; 32], [2; 32]],
            frames: vec![(5, 2), (6, 0), (9, 1)],
            outcome: Outcome::unfinished(
                "software:mali-g71".to_owned(),
                OutcomeBody::Accesses(AccessOutcome::default()),
            ),
        }
    }

    #[test]
    fn checkpoint_records_round_trip() {
        let bytes = record().to_bytes().unwrap();
        assert_eq!(CheckpointRecord::from_bytes(&bytes).unwrap(), record());
    }

    #[test]
    fn contradicting_checkpoint_records_are_refused() {
        let image = CheckpointRecord {
            frames: vec![(5, 3)],
            ..record()
        };
        let order = CheckpointRecord {
            frames: vec![(6, 1), (6, 2)],
            ..record()
        };
        let read = |record: &CheckpointRecord| CheckpointRecord::from_bytes(&record.to_bytes().unwrap());
        assert!(matches!(
            read(&image),
            Err(CheckpointRecordError::Image { image: 3, .. })
        ));
        assert!(matches!(read(&order), Err(CheckpointRecordError::Order)));
        let bytes = record().to_bytes().unwrap();
        for end in 0..bytes.len() {
            assert!(CheckpointRecord::from_bytes(&bytes[..end]).is_err(), "{end}");
        }
    }
}
