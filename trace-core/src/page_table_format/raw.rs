//! The form of a description in TOML.

use super::format::{AddressExtension, MemoryName};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use toml::Spanned;

/// Bits of an entry, `HIGH:LOW` or `BIT`, with their value or position.
pub(super) type RawBits = BTreeMap<String, u64>;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawFormat {
    pub name: Spanned<String>,
    pub title: Spanned<String>,
    pub address_bits: Spanned<u32>,
    #[serde(default)]
    pub upper_bits: AddressExtension,
    pub root: Spanned<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryName>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub entry_layout: String,
    #[serde(default)]
    pub table_rights_restrict: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access_flag: Option<Spanned<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attribute: Option<Spanned<RawBits>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<String>,
    pub rights: Spanned<RawRights>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<Spanned<RawField>>,
    pub table: Vec<Spanned<RawTable>>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawRights {
    pub read: RawRight,
    pub write: RawRight,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execute: Option<RawRight>,
}

/// A right: always or never, or in each of the listed cases.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum RawRight {
    Fixed(bool),
    When(Vec<RawBits>),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawField {
    pub name: String,
    pub bits: RawFieldBits,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, String>,
}

/// The bits of a field: adjacent ones, or several runs with their positions.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum RawFieldBits {
    Run(String),
    Runs(RawBits),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawTable {
    pub name: String,
    /// Address bits of the index, `HIGH:LOW`.
    pub index: String,
    pub entry_bytes: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stride: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attribute: Option<RawBits>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fields: Option<Vec<Spanned<RawField>>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rule: Vec<Spanned<RawRule>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub part: Vec<Spanned<RawPart>>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawPart {
    pub offset: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u32>,
    pub rule: Vec<Spanned<RawRule>>,
}

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum RawTarget {
    Invalid,
    Hole,
    Page,
    Table,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawRule {
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub when: RawBits,
    #[serde(rename = "is")]
    pub target: RawTarget,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryName>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub address: RawBits,
}
