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

/// The form of a number that is a `0x…` string for people and an integer in records, for `#[serde(with = "…")]`. A value
/// of an agent's or a worker's message is then printed as it is.
pub mod hex_text {
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    /// Writes a number: as text for people, else as it is.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(value: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        match serializer.is_human_readable() {
            true => super::hex(value, serializer),
            false => value.serialize(serializer),
        }
    }

    /// Reads what [`serialize`] wrote.
    ///
    /// # Errors
    /// Those of the deserializer, and a text that is not a number in hexadecimal.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        if !deserializer.is_human_readable() {
            return u64::deserialize(deserializer);
        }
        let text = String::deserialize(deserializer)?;
        let digits = text.strip_prefix("0x").unwrap_or_default();
        u64::from_str_radix(digits, 16).map_err(|_| D::Error::custom(format!("'{text}' is not a number 0x…")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::GpuVa;
    use serde::{Deserialize, Serialize};

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
    fn hex_text_is_text_for_people_and_an_integer_in_records() {
        #[derive(Debug, PartialEq, Serialize, Deserialize)]
        struct Value {
            #[serde(with = "hex_text")]
            value: u64,
        }
        let value = Value { value: 0xAB };
        let json = serde_json::to_string(&value).unwrap();
        assert_eq!(json, r#"{"value":"0xab"}"#);
        assert_eq!(serde_json::from_str::<Value>(&json).unwrap(), value);
        assert!(serde_json::from_str::<Value>(r#"{"value":"ab"}"#).is_err());
        let record = crate::encode::to_bytes(&value).unwrap();
        assert_eq!(record, 0xABu64.to_le_bytes());
        assert_eq!(crate::encode::from_bytes::<Value>(&record).unwrap(), value);
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
