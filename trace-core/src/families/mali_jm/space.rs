//! The address space of each submit, from the driver's last writes to the slot's configuration and to the root
//! register.

use super::registers::CONFIG_AS;
use crate::RegOffset;
use crate::families::family::find_recorded_space;
use crate::mmu::root_from_register;
use crate::recording::Recording;
use crate::registers::{Half, RegisterMap, Role, register_space};
use std::collections::HashMap;

/// Returns the index of the address space of each submit; see [`crate::families::address_spaces`].
pub(super) fn address_spaces(recording: &Recording, map: &RegisterMap, submits: &[u64]) -> Vec<Option<u32>> {
    let spaces = &recording.metadata.address_spaces;
    let slots = SpaceRegisters::new(map);
    let mut written: HashMap<u32, u64> = HashMap::new();
    let mut next = 0u64;
    let space = register_space(recording, Some(map));
    let mut out = Vec::with_capacity(submits.len());
    for &submit in submits {
        for event in next..submit {
            if let Some(a) = usize::try_from(event).ok().and_then(|e| recording.events.access(e))
                && a.write
                && a.space == space
            {
                written.insert(a.offset.get(), a.value);
            }
        }
        next = next.max(submit);
        if let Some(recorded) = find_recorded_space(recording, submit) {
            out.push(recorded);
            continue;
        }
        let value = |offset: RegOffset| written.get(&offset.get()).copied().unwrap_or(0);
        let index = usize::try_from(submit)
            .ok()
            .and_then(|e| recording.events.access(e))
            .and_then(|a| map.at(a.offset))
            .and_then(|command| {
                let config = slots.configurations.get(&(command.index, command.block.as_str()))?;
                let number = (value(*config) & CONFIG_AS) as u8;
                let (low, high) = slots.roots.get(&number)?;
                let root = value(*high) << 32 | value(*low);
                let of_number = |i: &usize| spaces.get(*i).is_some_and(|s| s.number == number);
                let of_root = |i: &usize| {
                    spaces
                        .get(*i)
                        .is_some_and(|s| s.root == root_from_register(s.format, root))
                };
                let all = || 0..spaces.len();
                all()
                    .find(|i| of_number(i) && of_root(i))
                    .or_else(|| all().find(of_root))
                    .or_else(|| all().find(of_number))
            });
        out.push(index.and_then(|i| u32::try_from(i).ok()));
    }
    out
}

/// The registers that select an address space. They are searched once, because a recording may have a submit for every
/// thirty events.
struct SpaceRegisters<'a> {
    /// Configuration registers of slots, by index and block.
    configurations: HashMap<(Option<u8>, &'a str), RegOffset>,
    /// Low and high half of the root registers, by the number of the address space.
    roots: HashMap<u8, (RegOffset, RegOffset)>,
}

impl<'a> SpaceRegisters<'a> {
    fn new(map: &'a RegisterMap) -> Self {
        let mut found = Self {
            configurations: HashMap::new(),
            roots: HashMap::new(),
        };
        for r in map.registers_with_role(Role::JobConfig) {
            found.configurations.entry((r.index, &r.block)).or_insert(r.offset);
        }
        for r in map.registers_with_role(Role::Root) {
            if let (Some(Half::Low { high_offset }), Some(number)) = (r.pair, r.index) {
                found.roots.entry(number).or_insert((r.offset, high_offset));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::families::memory_at_submits;
    use crate::mmu::{self, Rights};
    use crate::recording::{Access, AddressSpace, EventsBuilder, FrameRole, MemoryBuilder, MmuFormat};
    use crate::{GpuVa, PhysAddr};

    #[test]
    fn submits_select_address_space_by_root_and_number() {
        let map = RegisterMap::by_name("mali-jm").unwrap();
        let at = |name: &str| map.find_by_name(name).unwrap().offset;
        let mut events = EventsBuilder::new();
        let mut submits = Vec::new();
        for (number, root) in [(0u64, 0x1_0000_1000u64), (1, 0x2000), (0, 0x3000)] {
            for (name, value) in [
                (format!("AS{number}_TRANSTAB_LO"), root & 0xffff_ffff),
                (format!("AS{number}_TRANSTAB_HI"), root >> 32),
                ("JS1_CONFIG_NEXT".into(), 0x300 | number),
                ("JS1_COMMAND_NEXT".into(), 1),
            ] {
                if name == "JS1_COMMAND_NEXT" {
                    submits.push(events.len() as u64);
                }
                events.access(
                    0,
                    0,
                    Access {
                        space: 0,
                        write: true,
                        offset: at(&name),
                        width: 4,
                        value,
                    },
                );
            }
        }
        let mut recording = Recording {
            events: events.finish(),
            ..Recording::default()
        };
        let space = |number, root| AddressSpace {
            number,
            format: MmuFormat::Aarch64_4k,
            root: PhysAddr::new(root),
            memattr: 0,
            transcfg: 6,
        };
        recording.metadata.address_spaces = vec![space(0, 0x3000), space(1, 0x2000), space(0, 0x1_0000_1000)];
        assert_eq!(address_spaces(&recording, map, &submits), [Some(2), Some(1), Some(0)]);
        recording.metadata.address_spaces.clear();
        assert_eq!(address_spaces(&recording, map, &submits), [None; 3]);
    }

    /// One address is mapped to one page at the first submit and to another at the second.
    #[test]
    fn jobs_use_the_page_tables_at_their_submit() {
        const F: MmuFormat = MmuFormat::Aarch64_4k;
        let map = RegisterMap::by_name("mali-jm").unwrap();
        let start = map.find_by_name("JS1_COMMAND_NEXT").unwrap().offset;
        let mut events = EventsBuilder::new();
        for _ in 0..2 {
            let access = Access {
                space: 0,
                write: true,
                offset: start,
                width: 4,
                value: 1,
            };
            events.access(0, 0, access);
        }
        let mut m = MemoryBuilder::new();
        let table = |index: usize, entry: u64| {
            let mut page = [0u8; 4096];
            for e in page.chunks_exact_mut(8) {
                e.copy_from_slice(&mmu::INVALID.to_le_bytes());
            }
            page[index * 8..index * 8 + 8].copy_from_slice(&entry.to_le_bytes());
            page
        };
        let (one, two) = (m.add_page(&[1; 4096]), m.add_page(&[2; 4096]));
        for (event, target) in [(0u64, 0x9000), (1, 0xa000)] {
            let mut frames = vec![(9, one, FrameRole::Data), (10, two, FrameRole::Data)];
            for level in 1..5u64 {
                let page = if level < 4 {
                    table(0, mmu::encode_table(F, PhysAddr::new((level + 1) << 12)))
                } else {
                    table(5, mmu::encode_leaf(F, PhysAddr::new(target), Rights::RW, 0))
                };
                frames.push((level, m.add_page(&page), FrameRole::Table));
            }
            m.add_snapshot(event, frames);
        }
        let mut recording = Recording {
            events: events.finish(),
            memory: m.finish(),
            ..Recording::default()
        };
        recording.metadata.address_spaces = vec![AddressSpace {
            number: 0,
            format: F,
            root: PhysAddr::new(0x1000),
            memattr: 0,
            transcfg: 6,
        }];
        let seen: Vec<u8> = memory_at_submits(&recording, map, &[0, 1])
            .into_iter()
            .map(|view| view.unwrap().page(GpuVa::new(0x5000)).0.unwrap()[0])
            .collect();
        assert_eq!(seen, [1, 2]);
    }
}
