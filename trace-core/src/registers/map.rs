//! What can be asked of a map.

use super::bus::BusMaster;
use super::device::Device;
use super::parse::{RegisterMapError, parse};
use super::{Layout, Register};
use std::collections::HashMap;
use std::sync::Arc;

/// Names and meanings of a device's registers, entries and descriptors. Immutable once made.
#[derive(Debug, Default)]
pub struct RegisterMap {
    pub(super) name: String,
    pub(super) doc: String,
    pub(super) window_bytes: u64,
    pub(super) space: String,
    pub(super) framebuffers: Vec<String>,
    pub(super) address_bits: Option<u8>,
    /// Bit of each width in bytes that accesses may have; 0: any.
    pub(super) widths: u16,
    pub(super) gpus: Vec<Gpu>,
    /// Bits of a whole id register that tell a product.
    pub(super) product_mask: u32,
    pub(super) devices: Vec<Device>,
    /// By rising offset. Maps that lie over each other share them.
    pub(super) registers: Vec<Arc<Register>>,
    /// For each word of 4 bytes up to the last register, the first register that has a byte in it: its index plus one,
    /// 0 where there is none.
    pub(super) by_word: Vec<u16>,
    pub(super) by_name: HashMap<String, u16>,
    pub(super) bus_master: Option<BusMaster>,
    pub(super) layouts: Vec<Arc<Layout>>,
    /// By address space and address.
    pub(super) memory: Vec<super::NamedMemory>,
    pub(super) enums: Vec<(String, super::weight::Values)>,
    /// What all of it takes in memory, about.
    pub(super) built_bytes: u64,
}

/// A GPU that a map describes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Gpu {
    /// Upper half of the id register, under the mask.
    pub product: u32,
    pub mask: u32,
    pub name: String,
}

impl RegisterMap {
    /// Reads a map from its files, given as name and text.
    ///
    /// # Errors
    /// The first thing that is wrong, with the file and the register or field.
    pub fn parse(files: &[(&str, &str)]) -> Result<Self, RegisterMapError> {
        parse(files)
    }

    /// Bytes that the map takes in memory, about: its registers with all their repeats, fields, names and texts.
    #[must_use]
    pub fn built_bytes(&self) -> u64 {
        self.built_bytes
    }

    /// The map's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the map describes, in a sentence.
    #[must_use]
    pub fn doc(&self) -> &str {
        &self.doc
    }

    /// Bytes in the register window.
    #[must_use]
    pub fn window_bytes(&self) -> u64 {
        self.window_bytes
    }

    /// Whether two raw id registers are of one product; revisions are not compared.
    #[must_use]
    pub fn is_same_product(&self, a: u32, b: u32) -> bool {
        (a ^ b) & self.product_mask == 0
    }

    /// The name of the GPU that a raw id register tells, where this map describes it.
    #[must_use]
    pub fn gpu_name(&self, gpu_id: u32) -> Option<&str> {
        let upper = gpu_id >> 16;
        self.gpus
            .iter()
            .find(|g| upper & g.mask == g.product)
            .map(|g| g.name.as_str())
    }

    /// Name of the space that the registers are in: `gpu`, `bar2`; empty when the map does not tell.
    #[must_use]
    pub fn space(&self) -> &str {
        &self.space
    }

    /// How many bits an address has that the device reads or writes memory at by itself, 24 to 64; `None` where the map
    /// does not tell.
    #[must_use]
    pub fn address_bits(&self) -> Option<u8> {
        self.address_bits
    }

    /// Names of the spaces that are framebuffer memory: `bar0`.
    #[must_use]
    pub fn framebuffers(&self) -> &[String] {
        &self.framebuffers
    }

    /// The register that begins at a byte offset; `None` between registers, and inside one.
    #[inline]
    #[must_use]
    pub fn at(&self, offset: u32) -> Option<&Register> {
        let slot = usize::from(*self.by_word.get(offset as usize >> 2)?);
        // Up to four registers have a byte in a word; nearly always the first is it.
        let mut here = self.registers.get(slot.checked_sub(1)?..)?.iter().take(4);
        let found = here.find(|r| r.offset >= offset).filter(|r| r.offset == offset);
        found.map(|r| &**r)
    }

    /// The register of this name.
    #[must_use]
    pub fn find_by_name(&self, name: &str) -> Option<&Register> {
        let register = self.registers.get(usize::from(*self.by_name.get(name)?));
        register.map(|r| &**r)
    }

    /// All registers by rising offset.
    pub fn registers(&self) -> impl Iterator<Item = &Register> {
        self.registers.iter().map(|r| &**r)
    }

    /// The layout of this name: of an entry or descriptor (`aarch64-4k-entry`, `job-header`), of a register, or of a
    /// 64-bit register without its half (`AS0_TRANSTAB`).
    #[must_use]
    pub fn layout(&self, name: &str) -> Option<&Layout> {
        if let Some(l) = self.layouts.iter().find(|l| l.name == name) {
            return Some(l);
        }
        if let Some(r) = self.find_by_name(name) {
            return Some(&r.layout);
        }
        self.find_by_name(&format!("{name}_LO")).and_then(|r| r.wide.as_deref())
    }

    /// Entries and descriptors, in the order of the files.
    pub fn layouts(&self) -> impl Iterator<Item = &Layout> {
        self.layouts.iter().map(|l| &**l)
    }

    /// The name of a value in an enumeration of the map, `exception` for one.
    #[must_use]
    pub fn enum_name(&self, enumeration: &str, value: u64) -> Option<&str> {
        let (_, values) = self.enums.iter().find(|(n, _)| n == enumeration)?;
        values.iter().find(|(v, _)| *v == value).map(|(_, n)| n.as_str())
    }
}
