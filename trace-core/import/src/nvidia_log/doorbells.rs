//! Accesses to pages of doorbells.

use super::events::Import;
use super::problems::Problem;
use super::records::{DoorbellAccess, Header};
use std::collections::BTreeMap;
use trace_core::RegOffset;
use trace_core::recording::{Access, ObjectKind, Space, SpaceKind, UndecodedRow};

/// Name of the space of doorbells. All pages of doorbells are one space: they show the same registers.
const SPACE: &str = "usermode";
/// Number of the space.
const SPACE_NUMBER: u8 = 0;
/// Size of a page of doorbells, bytes.
const PAGE_BYTES: u64 = 0x1_0000;
/// Width of an access, bytes.
const WIDTH: u8 = 4;

/// The pages of doorbells that the program mapped.
#[derive(Debug, Default)]
pub(super) struct Doorbells {
    /// Number of bytes by address in the program's memory.
    pages: BTreeMap<u64, u64>,
    /// Number of bytes of the space that accesses reach; 0 without an access.
    used_bytes: u64,
}

impl Doorbells {
    /// Removes pages that begin in a range.
    pub fn unmap(&mut self, address: u64, bytes: u64) {
        let end = address.saturating_add(bytes);
        while let Some((page, _)) = self.pages.range(address..end).next() {
            let page = *page;
            self.pages.remove(&page);
        }
    }

    /// Returns the offset of an address in its page, or `None` if no known page holds it.
    fn offset_of(&self, address: u64) -> Option<u32> {
        let (page, bytes) = self.pages.range(..=address).next_back()?;
        let offset = address.checked_sub(*page).filter(|offset| offset < bytes)?;
        u32::try_from(offset).ok()
    }

    /// Returns the space, if there was an access.
    pub fn into_spaces(self) -> Vec<Space> {
        let space = || Space {
            name: SPACE.into(),
            kind: SpaceKind::Registers,
            bytes: self.used_bytes.max(PAGE_BYTES),
        };
        (self.used_bytes != 0).then(space).into_iter().collect()
    }
}

impl Import {
    /// Notes a mapped range if it is a page of doorbells.
    pub(super) fn map_doorbells(&mut self, address: u64, bytes: u64, handle: u32) {
        // A fixed mapping replaces what is there.
        self.doorbells.unmap(address, bytes);
        let is_registers = self
            .objects
            .find(handle)
            .is_some_and(|o| o.kind == ObjectKind::Registers);
        if is_registers {
            self.doorbells.pages.insert(address, bytes);
        }
    }

    /// Adds an access to a page of doorbells.
    pub(super) fn ring_doorbell(
        &mut self,
        header: &Header,
        address: u64,
        code: [u8; 3],
        value: u32,
        access: DoorbellAccess,
    ) {
        let known = self.doorbells.offset_of(address);
        let offset = known.unwrap_or_else(|| {
            self.problems.add(Problem::UnknownDoorbellPage, header.at);
            (address % PAGE_BYTES) as u32
        });
        let end = u64::from(offset) + u64::from(WIDTH);
        self.doorbells.used_bytes = self.doorbells.used_bytes.max(end);
        let offset = RegOffset::new(offset);
        let undecoded = match access {
            DoorbellAccess::Store => None,
            // The recorder logs a load before it happens: only a recorder that waits for it has a value.
            DoorbellAccess::Load => (value == 0).then(|| UndecodedRow::from_access(offset, false, WIDTH)),
            DoorbellAccess::Unknown => {
                let [a, b, c] = code.map(u32::from);
                Some(UndecodedRow::from_instruction(offset, a << 16 | b << 8 | c))
            }
        };
        if let Some(row) = undecoded {
            self.events.undecoded(header.time, header.thread, SPACE_NUMBER, row);
            return;
        }
        let access = Access {
            space: SPACE_NUMBER,
            write: access == DoorbellAccess::Store,
            offset,
            width: WIDTH,
            value: u64::from(value),
        };
        self.events.access(header.time, header.thread, access);
    }
}
