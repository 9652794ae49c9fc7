//! Encoding of metadata records and messages with bincode: fixed-width, little-endian, size-limited.
//!
//! bincode is pinned and no longer maintained. Only this file uses it, so replacing it means changing this file
//! alone.

use serde::{Serialize, de::DeserializeOwned};

/// Maximum size of one record, bytes.
pub const MAX_RECORD: usize = 64 << 20;
/// Maximum size of a long record, bytes. A plan of a million launches has about 500 MB.
pub const MAX_LONG_RECORD: usize = 1 << 30;

/// Why a record could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum EncodeError {
    /// The value could not be written.
    #[error("a record could not be encoded: {0}")]
    Encode(String),
    /// The bytes are not a valid record.
    #[error("a record of {bytes} bytes could not be decoded: {reason}")]
    Decode {
        /// Size of the input, bytes.
        bytes: usize,
        /// What was wrong.
        reason: String,
    },
    /// The record exceeds its limit, which is [`MAX_RECORD`] for most.
    #[error("a record of {bytes} bytes is longer than the limit of {limit}")]
    TooLong {
        /// Size of the record, bytes.
        bytes: usize,
        /// The limit, bytes.
        limit: usize,
    },
    /// Bytes were left over after the record.
    #[error("{left} bytes remain after a record")]
    LeftOver {
        /// Number of bytes left over.
        left: usize,
    },
}

fn config<const LIMIT: usize>() -> impl bincode::config::Config {
    bincode::config::standard()
        .with_fixed_int_encoding()
        .with_little_endian()
        .with_limit::<LIMIT>()
}

/// Encodes a value as a record.
///
/// # Errors
/// If the value cannot be written, or is longer than [`MAX_RECORD`].
pub fn to_bytes<T: Serialize>(value: &T) -> Result<Vec<u8>, EncodeError> {
    encoded::<T, MAX_RECORD>(value)
}

/// Encodes a value that may be long, such as a plan with its body.
///
/// # Errors
/// If the value cannot be written, or is longer than [`MAX_LONG_RECORD`].
pub fn to_long_bytes<T: Serialize>(value: &T) -> Result<Vec<u8>, EncodeError> {
    encoded::<T, MAX_LONG_RECORD>(value)
}

fn encoded<T: Serialize, const LIMIT: usize>(value: &T) -> Result<Vec<u8>, EncodeError> {
    let bytes =
        bincode::serde::encode_to_vec(value, config::<LIMIT>()).map_err(|e| EncodeError::Encode(e.to_string()))?;
    if bytes.len() > LIMIT {
        return Err(too_long::<LIMIT>(bytes.len()));
    }
    Ok(bytes)
}

fn too_long<const LIMIT: usize>(bytes: usize) -> EncodeError {
    EncodeError::TooLong { bytes, limit: LIMIT }
}

/// Decodes the value of a record into owned types; the record must be exactly `bytes`.
///
/// # Errors
/// If the bytes are not a valid record, too many, or too few. Allocates no more than a small multiple of
/// `bytes.len()`: a count is checked against the limit before memory is allocated for it.
pub fn from_bytes<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, EncodeError> {
    decoded::<T, MAX_RECORD>(bytes)
}

/// Decodes the value of a record written by [`to_long_bytes`].
///
/// # Errors
/// The same as [`from_bytes`].
pub fn from_long_bytes<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, EncodeError> {
    match bytes.len() {
        0..=MAX_RECORD => decoded::<T, MAX_RECORD>(bytes),
        _ => decoded::<T, MAX_LONG_RECORD>(bytes),
    }
}

fn decoded<T: DeserializeOwned, const LIMIT: usize>(bytes: &[u8]) -> Result<T, EncodeError> {
    if bytes.len() > LIMIT {
        return Err(too_long::<LIMIT>(bytes.len()));
    }
    let (value, used) =
        bincode::serde::decode_from_slice(bytes, config::<LIMIT>()).map_err(|e| EncodeError::Decode {
            bytes: bytes.len(),
            reason: e.to_string(),
        })?;
    if used != bytes.len() {
        return Err(EncodeError::LeftOver {
            left: bytes.len() - used,
        });
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_record_round_trips_and_damage_is_reported() {
        let bytes = to_bytes(&(7u32, "abc".to_owned())).unwrap();
        assert_eq!(bytes.len(), 4 + 8 + 3);
        assert_eq!(from_bytes::<(u32, String)>(&bytes).unwrap(), (7, "abc".to_owned()));
        assert!(matches!(
            from_bytes::<(u32, String)>(&bytes[..14]),
            Err(EncodeError::Decode { .. })
        ));
        assert!(matches!(
            from_bytes::<u32>(&bytes),
            Err(EncodeError::LeftOver { left: 11 })
        ));
        let mut huge = bytes;
        huge[4..12].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(from_bytes::<(u32, String)>(&huge).is_err());
    }
}
