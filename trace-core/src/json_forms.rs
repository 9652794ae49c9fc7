//! Forms of values in JSON that people read, for `#[serde(serialize_with = "…")]`: addresses and bits as lower-case
//! `0x…` strings, and bytes as hex digits.

use serde::{Serialize as _, Serializer};
use std::fmt::{Display, LowerHex};

/// Writes a number as `0x…`.
///
/// # Errors
/// Those of the serializer.
pub fn hex<T: LowerHex, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{value:#x}"))
}

/// Writes a number as `0x…`, or `null`.
///
/// # Errors
/// Those of the serializer.
pub fn hex_or_null<T: LowerHex, S: Serializer>(value: &Option<T>, serializer: S) -> Result<S::Ok, S::Error> {
    value.as_ref().map(|v| format!("{v:#x}")).serialize(serializer)
}

/// Writes the text of a value. The text of an address is `0x…`.
///
/// # Errors
/// Those of the serializer.
pub fn text<T: Display, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

/// Writes bytes as text of two hex digits each.
///
/// # Errors
/// Those of the serializer.
pub fn digits<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&format_digits(bytes))
}

/// Formats bytes as two hex digits each.
#[must_use]
pub fn format_digits(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::GpuVa;
    use serde::Serialize;

    #[derive(Serialize)]
    struct Values {
        #[serde(serialize_with = "hex")]
        bits: u16,
        #[serde(serialize_with = "hex_or_null")]
        offset: Option<u32>,
        #[serde(serialize_with = "hex_or_null")]
        unknown: Option<u32>,
        #[serde(serialize_with = "text")]
        va: GpuVa,
        #[serde(serialize_with = "digits")]
        bytes: Vec<u8>,
    }

    #[test]
    fn addresses_are_lower_case_strings_and_bytes_are_digits() {
        let values = Values {
            bits: 0xAB,
            offset: Some(16),
            unknown: None,
            va: GpuVa::new(0xF7FF_9000),
            bytes: vec![0, 255],
        };
        assert_eq!(
            serde_json::to_string(&values).unwrap(),
            r#"{"bits":"0xab","offset":"0x10","unknown":null,"va":"0xf7ff9000","bytes":"00ff"}"#
        );
    }
}
