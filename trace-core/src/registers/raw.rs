//! The raw TOML structure of a map's files, before any checks.

use crate::GpuVa;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Parses a number of the files: decimal, or hexadecimal with `0x`.
pub(super) fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// A file of a map.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawFile {
    pub map: Option<RawMap>,
    pub block: Option<RawBlock>,
    #[serde(default)]
    pub register: Vec<RawRegister>,
    #[serde(default)]
    pub layout: Vec<RawLayout>,
    #[serde(default)]
    pub memory: Vec<RawMemory>,
    #[serde(rename = "bus-master")]
    pub bus_master: Option<RawBusMaster>,
    #[serde(default, rename = "enum")]
    pub enums: BTreeMap<String, BTreeMap<String, RawValue>>,
}

/// A value of an enumeration: its name, or its name and description.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum RawValue {
    Name(String),
    Described(RawDescribedValue),
}

/// A value with a description.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawDescribedValue {
    pub name: String,
    #[serde(default)]
    pub doc: String,
}

/// A number, or one for each level of an array, the outermost first.
#[derive(Clone, Deserialize)]
#[serde(untagged)]
pub(super) enum RawLevels {
    One(u32),
    Several(Vec<u32>),
}

impl Default for RawLevels {
    fn default() -> Self {
        Self::Several(Vec::new())
    }
}

impl RawLevels {
    pub fn numbers(&self) -> &[u32] {
        match self {
            Self::One(n) => std::slice::from_ref(n),
            Self::Several(list) => list,
        }
    }
}

/// The `[map]` table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawMap {
    pub name: String,
    pub window: u64,
    pub doc: String,
    #[serde(default)]
    pub space: String,
    #[serde(default)]
    pub framebuffer: Vec<String>,
    #[serde(default)]
    pub widths: Vec<u8>,
    pub address_bits: Option<u8>,
    #[serde(default = "every_bit")]
    pub id_mask: u32,
    /// Bits of the whole id that identify a product; default: `id_mask` in its upper half.
    pub product_mask: Option<u32>,
    #[serde(default)]
    pub gpu: Vec<RawGpu>,
    #[serde(default)]
    pub device: Vec<RawDevice>,
}

/// Returns the default `id_mask`.
fn every_bit() -> u32 {
    0xffff
}

/// A bus device of the map.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawDevice {
    pub vendor: Option<u16>,
    pub device: Option<u16>,
    pub compatible: Option<String>,
    pub name: String,
}

/// A GPU of the map.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawGpu {
    pub id: u32,
    pub name: String,
    /// Bits of the upper half of the id register that `id` is compared under; default: those of `id_mask`.
    pub mask: Option<u32>,
}

/// The `[bus-master]` table: how the device gets the addresses that it reads and writes by itself.
#[derive(Deserialize)]
#[serde(tag = "engine", rename_all = "kebab-case")]
pub(super) enum RawBusMaster {
    Copy(RawCopyEngine),
    Virtqueue(RawQueueEngine),
}

/// An engine that copies between memory and the device's own buffer.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct RawCopyEngine {
    pub why: String,
    pub source: String,
    pub destination: String,
    pub count: String,
    pub command: String,
    pub start: u8,
    pub to_memory: u8,
}

/// An engine that reads queues of buffers.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct RawQueueEngine {
    pub why: String,
    pub status: String,
    pub feature_select: String,
    pub feature: String,
    pub features: Vec<u8>,
    pub behind_iommu: Option<u8>,
    pub select: String,
    pub size: String,
    pub most_entries: u16,
    pub enable: String,
    pub descriptors: String,
    pub driver: String,
    pub device: String,
    #[serde(default)]
    pub never: Vec<String>,
    #[serde(default)]
    pub command: Vec<RawBusCommand>,
}

/// A command in the buffers of a queue.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct RawBusCommand {
    pub number: u32,
    pub name: String,
    pub entries: Option<RawBusEntries>,
}

/// The position of addresses in a command.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct RawBusEntries {
    pub count_at: u32,
    pub first_at: u32,
    pub bytes: u32,
    pub address_at: u32,
    pub length_at: u32,
}

/// The `[block]` table: the location of the file's registers.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawBlock {
    pub name: String,
    pub base: u32,
    #[serde(default)]
    pub stride: u32,
    #[serde(default)]
    pub count: u32,
    pub provenance: String,
    /// Defaults of `access`, `replay` and `reason` for registers without their own.
    #[serde(default)]
    pub access: String,
    pub replay: Option<bool>,
    #[serde(default)]
    pub reason: String,
    /// `names`: fields without their own `say` are described by their names.
    pub say: Option<String>,
}

/// A screen fact of a register.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawScreen {
    pub what: String,
    pub field: Option<String>,
    #[serde(default)]
    pub add: u32,
    #[serde(default = "once")]
    pub times: u32,
    #[serde(default)]
    pub values: BTreeMap<String, u32>,
}

fn once() -> u32 {
    1
}

/// A register, or an array of them, or a 64-bit pair.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawRegister {
    pub name: String,
    pub offset: u32,
    #[serde(default)]
    pub access: String,
    #[serde(default)]
    pub doc: String,
    pub width: Option<u8>,
    #[serde(default)]
    pub wide: bool,
    #[serde(default)]
    pub count: RawLevels,
    #[serde(default)]
    pub stride: RawLevels,
    /// Number of the first member in names.
    #[serde(default)]
    pub first: RawLevels,
    #[serde(default)]
    pub identity: bool,
    pub replay: Option<bool>,
    pub values: Option<Vec<u64>>,
    pub read: Option<String>,
    pub mask: Option<u64>,
    pub before: Option<String>,
    pub role: Option<String>,
    #[serde(default)]
    pub reason: String,
    #[serde(default)]
    pub zero: String,
    #[serde(default)]
    pub fields: Vec<RawField>,
    #[serde(default)]
    pub screen: Vec<RawScreen>,
    pub local: Option<[u64; 2]>,
    pub provenance: Option<String>,
    pub block: Option<String>,
}

/// The layout of an entry or a descriptor.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawLayout {
    pub name: String,
    pub bits: u32,
    pub doc: String,
    #[serde(default)]
    pub zero: String,
    #[serde(default)]
    pub fields: Vec<RawField>,
    pub provenance: String,
}

/// A range of memory.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawMemory {
    pub name: String,
    pub address: GpuVa,
    pub bytes: u64,
    #[serde(default)]
    pub space: u32,
    #[serde(default)]
    pub layout: String,
    #[serde(default)]
    pub doc: String,
}

/// A field.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawField {
    pub name: String,
    pub bits: String,
    pub kind: Option<String>,
    #[serde(rename = "enum")]
    pub enumeration: Option<String>,
    #[serde(rename = "write-enum")]
    pub write_enumeration: Option<String>,
    #[serde(default)]
    pub shift: u32,
    #[serde(default)]
    pub first: u32,
    #[serde(default)]
    pub doc: String,
    #[serde(default)]
    pub say: String,
    #[serde(default)]
    pub status: bool,
}
