//! A register map and its queries.

use super::bus::BusMaster;
use super::device::Device;
use super::entry::RegisterEntry;
use super::lookup::{NameIndex, OffsetIndex};
use super::{Layout, NamedMemory, Register, Role, ScreenSource};
use crate::recording::Hardware;
use crate::{GpuVa, RegOffset};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Names and meanings of a device's registers, entries and descriptors. Immutable after construction.
#[derive(Debug, Default)]
pub struct RegisterMap {
    pub(super) name: String,
    pub(super) doc: String,
    pub(super) window_bytes: u64,
    pub(super) space: String,
    pub(super) framebuffers: Vec<String>,
    pub(super) address_bits: Option<u8>,
    /// One bit for each supported access width in bytes; 0: any.
    pub(super) widths: u16,
    pub(super) gpus: Vec<Gpu>,
    /// Bits of a whole id register that identify a product.
    pub(super) product_mask: u32,
    pub(super) devices: Vec<Device>,
    /// Registers and arrays of registers by ascending offset of their first member. Overlaid maps share them.
    pub(super) entries: Vec<Arc<RegisterEntry>>,
    pub(super) offsets: OffsetIndex,
    pub(super) names: NameIndex,
    pub(super) bus_master: Option<BusMaster>,
    pub(super) layouts: Vec<Arc<Layout>>,
    /// By address space and address.
    pub(super) memory: Vec<NamedMemory>,
    pub(super) enums: Vec<(String, super::weight::Values)>,
    /// Approximate memory size, bytes.
    pub(super) built_bytes: u64,
}

/// A GPU that a map describes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Gpu {
    /// Upper half of the id register, masked.
    pub product: u32,
    pub mask: u32,
    pub name: String,
}

impl RegisterMap {
    /// Returns the approximate memory size of the map in bytes: its registers with all repetitions, fields, names and
    /// texts.
    #[must_use]
    pub fn built_bytes(&self) -> u64 {
        self.built_bytes
    }

    /// Returns the map's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the description of the map in one sentence.
    #[must_use]
    pub fn doc(&self) -> &str {
        &self.doc
    }

    /// Returns the size of the register window, bytes.
    #[must_use]
    pub fn window_bytes(&self) -> u64 {
        self.window_bytes
    }

    /// Whether two raw id registers are of one product; revisions are not compared.
    #[must_use]
    pub fn is_same_product(&self, a: u32, b: u32) -> bool {
        (a ^ b) & self.product_mask == 0
    }

    /// Returns the name of the GPU with a raw id register, if this map has it.
    #[must_use]
    pub fn gpu_name(&self, gpu_id: u32) -> Option<&str> {
        let upper = gpu_id >> 16;
        self.gpus
            .iter()
            .find(|g| upper & g.mask == g.product)
            .map(|g| g.name.as_str())
    }

    /// Returns the name of the space of the registers: `gpu`, `bar2`; empty if the map has none.
    #[must_use]
    pub fn space(&self) -> &str {
        &self.space
    }

    /// Returns the number of bits of the device's bus-mastering addresses, 24 to 64, or `None` if the map has none.
    #[must_use]
    pub fn address_bits(&self) -> Option<u8> {
        self.address_bits
    }

    /// Returns the names of the spaces that are framebuffer memory: `bar0`.
    #[must_use]
    pub fn framebuffers(&self) -> &[String] {
        &self.framebuffers
    }

    /// Returns the entry and the number of the member that contains a byte of the window.
    #[inline]
    pub(super) fn locate(&self, offset: RegOffset) -> Option<(&Arc<RegisterEntry>, u64)> {
        let mut here = self.offsets.word(offset.get() / 4).iter();
        here.find_map(|n| {
            let entry = self.entries.get(n)?;
            Some((entry, entry.member_at(offset)?))
        })
    }

    /// Returns the register that starts at a byte offset, or `None` between registers and inside one.
    #[inline]
    #[must_use]
    pub fn at(&self, offset: RegOffset) -> Option<&Register> {
        let (entry, member) = self.locate(offset)?;
        Some(entry.member(member)).filter(|r| r.offset == offset)
    }

    /// Returns the register of this name.
    #[must_use]
    pub fn find_by_name(&self, name: &str) -> Option<&Register> {
        let (entry, member) = self.names.find(&self.entries, name)?;
        Some(self.entries.get(entry)?.member(member))
    }

    /// Returns all registers by ascending offset. Builds every member of arrays and keeps it:
    /// [`RegisterMap::visit`] does not.
    pub fn registers(&self) -> impl Iterator<Item = &Register> {
        let mut from = RegOffset::ZERO;
        std::iter::from_fn(move || {
            let (entry, member) = self.next_from(from)?;
            let register = entry.member(member);
            from = register.end();
            Some(register)
        })
    }

    /// Returns the first register that starts at an offset or after it.
    fn next_from(&self, from: RegOffset) -> Option<(&Arc<RegisterEntry>, u64)> {
        let mut at = from.get();
        loop {
            let word = self.offsets.next_word(at / 4)?;
            at = at.max(word.checked_mul(4)?);
            let end = word.checked_mul(4)?.checked_add(4)?;
            let found = (at..end).find_map(|byte| {
                let (entry, member) = self.locate(RegOffset::new(byte))?;
                (entry.offset_of(member) >= from).then_some((entry, member))
            });
            if found.is_some() {
                return found;
            }
            at = end;
        }
    }

    /// Calls `f` for each register, members of arrays one by one, until it breaks. Arrays come in the order of their
    /// first members. No member is kept, so that the memory of the map stays as it is.
    pub fn visit<B>(&self, mut f: impl FnMut(&Register) -> ControlFlow<B>) -> Option<B> {
        for entry in &self.entries {
            if let ControlFlow::Break(found) = entry.visit(&mut f) {
                return Some(found);
            }
        }
        None
    }

    /// Whether a register satisfies `is`. Members of arrays are not kept.
    pub fn any_register(&self, mut is: impl FnMut(&Register) -> bool) -> bool {
        let found = |r: &Register| match is(r) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        };
        self.visit(found).is_some()
    }

    /// Returns the first register that satisfies `is`. Only that register is kept.
    pub fn find_register(&self, mut is: impl FnMut(&Register) -> bool) -> Option<&Register> {
        let found = |r: &Register| match is(r) {
            true => ControlFlow::Break(r.offset),
            false => ControlFlow::Continue(()),
        };
        self.at(self.visit(found)?)
    }

    /// Returns the registers that satisfy `is`. Only these are kept.
    pub fn find_registers(&self, mut is: impl FnMut(&Register) -> bool) -> Vec<&Register> {
        let mut offsets = Vec::new();
        let _ = self.visit(|r| {
            if is(r) {
                offsets.push(r.offset);
            }
            ControlFlow::<()>::Continue(())
        });
        offsets.sort_unstable();
        offsets.into_iter().filter_map(|offset| self.at(offset)).collect()
    }

    /// Returns the registers with a role. An array has one role, so the members of other arrays are not built.
    pub fn registers_with_role(&self, role: Role) -> impl Iterator<Item = &Register> {
        let entries = self.entries.iter().filter(move |e| e.first().replay.role == Some(role));
        entries.flat_map(|e| (0..e.members()).map(|m| e.member(m)))
    }

    /// Returns the first member of each array, and each register that is no array, by ascending offset. Members of
    /// an array have the same fields, block, access rule and role.
    pub fn first_members(&self) -> impl Iterator<Item = &Register> {
        self.entries.iter().map(|e| e.first())
    }

    /// Returns the number of registers, members of arrays included. A 64-bit register counts as two halves.
    #[must_use]
    pub fn register_count(&self) -> u64 {
        self.entries.iter().map(|e| e.members()).fold(0, u64::saturating_add)
    }

    /// Returns the offset after the last register, or 0 if the map has none.
    #[must_use]
    pub fn end(&self) -> RegOffset {
        self.entries.iter().map(|e| e.end()).max().unwrap_or(RegOffset::ZERO)
    }

    /// Returns the layout of this name: of an entry or descriptor (`aarch64-4k-entry`, `job-header`), of a register, or
    /// of a 64-bit register without the suffix of its half (`AS0_TRANSTAB`).
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

    /// Returns the entries and descriptors, in the order of the files.
    pub fn layouts(&self) -> impl Iterator<Item = &Layout> {
        self.layouts.iter().map(|l| &**l)
    }

    /// Returns the name of a value in an enumeration of the map, for example `exception`.
    #[must_use]
    pub fn enum_name(&self, enumeration: &str, value: u64) -> Option<&str> {
        let (_, values) = self.enums.iter().find(|(n, _)| n == enumeration)?;
        values.iter().find(|(v, _)| *v == value).map(|(_, n)| n.as_str())
    }

    /// Returns the bus-mastering engine of the device, or `None` if the map has none; the device then cannot become a
    /// bus master.
    #[must_use]
    pub fn bus_master(&self) -> Option<&BusMaster> {
        self.bus_master.as_ref()
    }

    /// Returns every screen fact with its register.
    pub fn screen(&self) -> impl Iterator<Item = (&Register, &ScreenSource)> {
        let entries = self.entries.iter().filter(|e| !e.first().screen.is_empty());
        let members = entries.flat_map(|e| (0..e.members()).map(move |m| e.member(m)));
        members.flat_map(|r| r.screen.iter().map(move |s| (r, s)))
    }

    /// Returns the memory ranges that the map names, by address space and address.
    pub fn memory(&self) -> impl Iterator<Item = &NamedMemory> {
        self.memory.iter()
    }

    /// Returns the memory range that covers an address (the shortest if there are several), and the offset in it.
    #[must_use]
    pub fn memory_at(&self, space: u32, va: GpuVa) -> Option<(&NamedMemory, u64)> {
        let inside = |m: &&NamedMemory| m.space == space && m.address.get() <= va.get() && va - m.address < m.bytes;
        let found = self.memory.iter().filter(inside).min_by_key(|m| m.bytes)?;
        Some((found, va - found.address))
    }

    /// Returns the name of a bus device in this map, if it has the device.
    #[must_use]
    pub fn hardware_name(&self, hardware: &Hardware) -> Option<&str> {
        let found = self.devices.iter().find(|d| d.is(hardware));
        found.map(|d| d.name.as_str())
    }
}
