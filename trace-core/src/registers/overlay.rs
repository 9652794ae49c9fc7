//! Overlay of maps: the names of the upper map win, everything else stays.

use super::array::{ArrayPart, skeleton};
use super::entry::RegisterEntry;
use super::map_error::{RegisterMapError, SourceLocation};
use super::parse::index;
use super::weight::Weight;
use super::{Half, Register, RegisterMap};
use crate::RegOffset;
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
        let mut entries = Vec::with_capacity(self.entries.len() + under.entries.len());
        for entry in &self.entries {
            merge_entry(entry, under, &mut entries)?;
        }
        let forms = self.names.forms();
        for entry in &under.entries {
            self.uncover_entry(entry, under, &forms, &mut entries)?;
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
            entries,
            bus_master: under.bus_master.clone().or_else(|| self.bus_master.clone()),
            layouts,
            memory,
            enums,
            ..Self::default()
        };
        let mut weight = Weight::default();
        index(&mut map, &mut weight)?;
        map.built_bytes = weight.bytes() + (map.entries.len() * 8) as u64;
        Ok(map)
    }

    /// Whether a register of the map shares a byte with one of another map.
    fn covers(&self, offset: RegOffset, width: u8) -> bool {
        let end = offset.get().saturating_add(width.into());
        (offset.get()..end).any(|byte| self.locate(RegOffset::new(byte)).is_some())
    }

    /// Adds the members of a lower map's entry that this map leaves visible.
    fn uncover_entry(
        &self,
        entry: &Arc<RegisterEntry>,
        under: &Self,
        forms: &HashSet<String>,
        out: &mut Vec<Arc<RegisterEntry>>,
    ) -> Result<(), RegisterMapError> {
        let (first, start) = (entry.first(), entry.first().offset.get());
        let is_free = |at: u32, width: u8| !self.covers(RegOffset::new(at), width);
        let partner = match first.pair {
            Some(Half::Low { high_offset: at } | Half::High { low_offset: at }) => Some(at.get()),
            None => None,
        };
        let may_share_names = forms.contains(&skeleton(entry.name()));
        let visible = |m: u64| {
            let delta = entry.offset_of(m).get() - start;
            if !is_free(start + delta, first.width) {
                return Visibility::Covered;
            }
            if may_share_names && self.names.find(&self.entries, &entry.name_of(m)).is_some() {
                return Visibility::Renamed;
            }
            let stays = partner.is_none_or(|at| {
                let at = at + delta;
                under.locate(RegOffset::new(at)).is_some() && is_free(at, first.width)
            });
            if stays { Visibility::Whole } else { Visibility::Half }
        };
        let all: Vec<Visibility> = (0..entry.members()).map(visible).collect();
        let is = |m: u64, wanted| usize::try_from(m).ok().and_then(|m| all.get(m)) == Some(&wanted);
        if all.iter().all(|v| *v == Visibility::Whole) {
            out.push(Arc::clone(entry));
            return Ok(());
        }
        let split = |r: &mut Register| (r.pair, r.wide) = (None, None);
        for part in entry.shape().parts(&mut |m| is(m, Visibility::Whole)) {
            push(out, entry.part(&part, |_| ()))?;
        }
        for part in entry.shape().parts(&mut |m| is(m, Visibility::Half)) {
            push(out, entry.part(&part, split))?;
        }
        for m in (0..entry.members()).filter(|m| is(*m, Visibility::Renamed)) {
            let delta = entry.offset_of(m).get() - start;
            let is_alone = partner.is_some_and(|at| {
                let at = at + delta;
                under.locate(RegOffset::new(at)).is_none() || !is_free(at, first.width)
            });
            let renamed = entry.alone(m, |r| {
                if is_alone {
                    split(r);
                }
                r.name = format!("{}_{:#x}", r.name, r.offset);
                r.layout.name.clone_from(&r.name);
            });
            push(out, renamed)?;
        }
        Ok(())
    }
}

/// How much of a lower map's register the upper map leaves.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Visibility {
    /// Nothing.
    Covered,
    /// The register, and the other half of its pair if it is half of one.
    Whole,
    /// The register, but not the other half of its pair.
    Half,
    /// The register, whose name the upper map uses for another one.
    Renamed,
}

/// Maximum number of registers and arrays of both maps together.
const MAX_ENTRIES: usize = 1 << 16;

fn push(out: &mut Vec<Arc<RegisterEntry>>, entry: RegisterEntry) -> Result<(), RegisterMapError> {
    if out.len() >= MAX_ENTRIES {
        let place = SourceLocation {
            file: "",
            place: entry.name().to_owned(),
        };
        return Err(place.err("both maps together have too many registers"));
    }
    out.push(Arc::new(entry));
    Ok(())
}

/// Adds an entry of the upper map, completed with the lower map's data for the same bytes.
fn merge_entry(
    entry: &Arc<RegisterEntry>,
    under: &RegisterMap,
    out: &mut Vec<Arc<RegisterEntry>>,
) -> Result<(), RegisterMapError> {
    let same = |m: u64| {
        let offset = entry.offset_of(m);
        let (of, member) = under.locate(offset)?;
        let is_same = of.offset_of(member) == offset && of.first().width == entry.first().width;
        is_same.then_some((of, member))
    };
    if !(0..entry.members()).any(|m| same(m).is_some()) {
        out.push(Arc::clone(entry));
        return Ok(());
    }
    // Arrays of the same members are merged as arrays: members of the lower one share all data that is merged.
    if let Some((of, 0)) = same(0)
        && of.shape().levels().iter().map(|l| (l.count, l.stride)).eq(entry
            .shape()
            .levels()
            .iter()
            .map(|l| (l.count, l.stride)))
        && (entry.is_array() == of.is_array())
    {
        let levels = entry.shape().levels().to_vec();
        let whole = ArrayPart { first: 0, levels };
        return push(out, entry.part(&whole, |r| *r = merge_register(r, of.first())));
    }
    for part in entry.shape().parts(&mut |m| same(m).is_none()) {
        push(out, entry.part(&part, |_| ()))?;
    }
    for m in 0..entry.members() {
        if let Some((of, member)) = same(m) {
            push(out, entry.alone(m, |r| *r = merge_register(r, of.member(member))))?;
        }
    }
    Ok(())
}

/// Returns a register, completed with the other map's data for the same bytes.
fn merge_register(own: &Register, of: &Register) -> Register {
    let mut r = own.clone();
    r.replay = Arc::clone(&of.replay);
    (r.index, r.identity) = (r.index.or(of.index), of.identity);
    r.screen.clone_from(&of.screen);
    r.local.clone_from(&of.local);
    if r.layout.fields.is_empty() {
        r.layout.fields = Arc::clone(&of.layout.fields);
        r.layout.zero = non_empty(&own.layout.zero, &of.layout.zero);
        if let (Some(own), Some(of)) = (&own.wide, &of.wide) {
            let mut whole = super::Layout::clone(own);
            whole.fields = Arc::clone(&of.fields);
            whole.zero = non_empty(&own.zero, &of.zero);
            r.wide = Some(Arc::new(whole));
        }
    }
    r
}

fn non_empty(own: &str, under: &str) -> String {
    if own.is_empty() { under } else { own }.to_owned()
}
