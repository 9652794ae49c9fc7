//! Overlay of maps: the names of the upper map win, everything else stays.

use super::map_error::RegisterMapError;
use super::parse::index;
use super::weight::Weight;
use super::{Half, Register, RegisterMap};
use std::collections::HashSet;
use std::sync::Arc;

impl RegisterMap {
    /// Lays this map over another one.
    ///
    /// A register of this map replaces the registers that it shares bytes with. If that is one register of the same
    /// bytes, the lower map's other data stay. These are its replay rule, its role, its screen facts, and its fields if
    /// this map has none. Layouts and enumerations win by name. A register of the lower map with a name that this map
    /// uses elsewhere gets its offset as a suffix, `STATUS_0x24`.
    ///
    /// # Errors
    ///
    /// When both together have more registers than a map can hold.
    pub fn overlay(&self, under: &Self) -> Result<Self, RegisterMapError> {
        let names: HashSet<&str> = self.registers().map(|r| r.name.as_str()).collect();
        let mut registers = Vec::with_capacity(self.registers.len() + under.registers.len());
        registers.extend(self.registers.iter().map(|r| match under.at(r.offset) {
            Some(of) if of.width == r.width => Arc::new(merge_register(r, of)),
            _ => Arc::clone(r),
        }));
        let covered = |r: &Register| self.covers(r);
        for r in under.registers.iter().filter(|r| !covered(r)) {
            let partner = match r.pair {
                Some(Half::Low { high_offset: at } | Half::High { low_offset: at }) => under.at(at),
                None => None,
            };
            let alone = r.pair.is_some() && partner.is_none_or(covered);
            let taken = names.contains(r.name.as_str());
            if !alone && !taken {
                registers.push(Arc::clone(r));
                continue;
            }
            let mut r = Register::clone(r);
            if alone {
                (r.pair, r.wide) = (None, None);
            }
            if taken {
                r.name = format!("{}_{:#x}", r.name, r.offset);
                r.layout.name.clone_from(&r.name);
            }
            registers.push(Arc::new(r));
        }
        let mut layouts: Vec<_> = under.layouts.iter().map(Arc::clone).collect();
        for l in &self.layouts {
            match layouts.iter_mut().find(|u| u.name == l.name) {
                Some(same) => *same = Arc::clone(l),
                None => layouts.push(Arc::clone(l)),
            }
        }
        let mut enums = self.enums.clone();
        let known: HashSet<&str> = self.enums.iter().map(|(n, _)| n.as_str()).collect();
        enums.extend(under.enums.iter().filter(|(n, _)| !known.contains(n.as_str())).cloned());
        let mut devices = self.devices.clone();
        devices.extend(
            under
                .devices
                .iter()
                .filter(|d| self.devices.iter().all(|o| o.id != d.id))
                .cloned(),
        );
        let mut memory = self.memory.clone();
        let begins = |m: &super::NamedMemory| (m.space, m.address.get());
        let free = |m: &&super::NamedMemory| self.memory.iter().all(|o| begins(o) != begins(m));
        memory.extend(under.memory.iter().filter(free).cloned());
        memory.sort_by_key(begins);
        let mut map = Self {
            name: self.name.clone(),
            doc: self.doc.clone(),
            window_bytes: self.window_bytes.max(under.window_bytes),
            space: non_empty(&self.space, &under.space),
            framebuffers: if self.framebuffers.is_empty() {
                under.framebuffers.clone()
            } else {
                self.framebuffers.clone()
            },
            address_bits: self.address_bits.or(under.address_bits),
            widths: if self.widths == 0 { under.widths } else { self.widths },
            product_mask: if under.gpus.is_empty() {
                self.product_mask
            } else {
                under.product_mask
            },
            gpus: under.gpus.iter().chain(&self.gpus).cloned().collect(),
            devices,
            registers,
            bus_master: under.bus_master.clone().or_else(|| self.bus_master.clone()),
            layouts,
            memory,
            enums,
            ..Self::default()
        };
        let mut weight = Weight::default();
        index(&mut map, &mut weight)?;
        let names: usize = map.by_name.keys().map(|n| n.len() + 32).sum();
        map.built_bytes = weight.bytes() + (names + map.registers.len() * 8) as u64;
        Ok(map)
    }

    /// Whether a register of the map shares a byte with one of another map.
    fn covers(&self, other: &Register) -> bool {
        let n = self.registers.partition_point(|r| r.end() <= other.offset);
        self.registers.get(n).is_some_and(|r| r.offset < other.end())
    }
}

/// Returns a register, completed with the other map's data for the same bytes.
fn merge_register(own: &Register, of: &Register) -> Register {
    let mut r = own.clone();
    r.replay.clone_from(&of.replay);
    (r.index, r.identity) = (r.index.or(of.index), of.identity);
    r.screen.clone_from(&of.screen);
    r.local.clone_from(&of.local);
    if r.layout.fields.is_empty() {
        r.layout.fields.clone_from(&of.layout.fields);
        r.layout.zero = non_empty(&own.layout.zero, &of.layout.zero);
        if let (Some(own), Some(of)) = (&own.wide, &of.wide) {
            let mut whole = super::Layout::clone(own);
            whole.fields.clone_from(&of.fields);
            whole.zero = non_empty(&own.zero, &of.zero);
            r.wide = Some(Arc::new(whole));
        }
    }
    r
}

fn non_empty(own: &str, under: &str) -> String {
    if own.is_empty() { under } else { own }.to_owned()
}
