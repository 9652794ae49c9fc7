//! The parser of register maps: TOML files become a map with 64-bit registers split, arrays kept, and everything
//! checked.

use super::array::{ArrayLevel, ArrayShape, MAX_LEVEL_MEMBERS, MAX_LEVELS, count_marks, fix_numbers};
use super::entry::RegisterEntry;
use super::field_parser::{Enums, fields, half};
use super::lookup::{MAX_MEMBERS, NameIndex, OffsetIndex};
use super::map::{Gpu, RegisterMap};
use super::map_error::{RegisterMapError, SourceLocation};
use super::raw::{RawBlock, RawFile, RawRegister, RawValue, number};
use super::rules::replay;
use super::screen;
use super::weight::{self, Weight};
use super::{AccessRule, Half, Layout, NamedValues, Register, Role};
use super::{bus_parser, device, memory};
use crate::RegOffset;
use std::collections::HashSet;
use std::sync::Arc;

/// Maximum size of the register window of a map, bytes.
const MAX_WINDOW: u64 = 1 << 26;
/// Maximum number of registers and arrays of registers of a map.
const MAX_ENTRIES: usize = u16::MAX as usize - 1;

impl RegisterMap {
    /// Parses a map from its files, given as name and text.
    ///
    /// # Errors
    ///
    /// The first error, with the file and the register or field.
    pub fn parse(files: &[(&str, &str)]) -> Result<Self, RegisterMapError> {
        let mut raw = Vec::with_capacity(files.len());
        for (file, text) in files {
            let mut f: RawFile = toml::from_str(text).map_err(|e| {
                let line = e
                    .span()
                    .and_then(|s| text.get(..s.start))
                    .map(|t| t.matches('\n').count() + 1);
                SourceLocation {
                    file,
                    place: line.map_or_else(|| "TOML".to_owned(), |l| format!("line {l}")),
                }
                .err(e.message())
            })?;
            inherit(file, &mut f)?;
            raw.push((*file, f));
        }
        let mut map = Self::default();
        let mut weight = Weight::default();
        head(&mut map, &raw)?;
        let enums = enumerations(&raw, &mut weight)?;
        let mut names = HashSet::new();
        for (file, f) in &raw {
            registers(&mut map, file, f, &enums, &mut weight)?;
            for l in &f.layout {
                let at = SourceLocation {
                    file,
                    place: l.name.clone(),
                };
                if !names.insert(l.name.as_str()) {
                    return Err(at.err("a layout of this name exists already"));
                }
                if l.provenance.is_empty() {
                    return Err(at.err("provenance is empty"));
                }
                let mut layout = fields(&at, &l.fields, l.bits, &enums)?;
                layout.name.clone_from(&l.name);
                layout.zero.clone_from(&l.zero);
                layout.doc = l.doc.as_str().into();
                weight.add(&at, weight::layout(&layout))?;
                map.layouts.push(Arc::new(layout));
            }
            for m in &f.memory {
                let at = SourceLocation {
                    file,
                    place: m.name.clone(),
                };
                let range = memory::parse_memory(&at, m)?;
                weight.add(&at, range.weight())?;
                memory::add(&mut map.memory, &at, range)?;
            }
        }
        index(&mut map, &mut weight)?;
        for (file, f) in &raw {
            let Some(raw) = &f.bus_master else { continue };
            let at = SourceLocation {
                file,
                place: "bus-master".to_owned(),
            };
            if map.bus_master.is_some() {
                return Err(at.err("a second [bus-master] table"));
            }
            map.bus_master = Some(bus_parser::parse_bus_master(&map, &at, raw)?);
        }
        map.enums = enums.into_iter().collect();
        map.built_bytes = weight.bytes();
        Ok(map)
    }
}

/// Sets the defaults of a block in its registers that have no own values.
fn inherit(file: &str, f: &mut RawFile) -> Result<(), RegisterMapError> {
    let Some(block) = &f.block else { return Ok(()) };
    let names = match block.say.as_deref() {
        None => false,
        Some("names") => true,
        Some(other) => {
            let place = "block".to_owned();
            return Err(SourceLocation { file, place }.err(format!(
                "say {other} is not names, the only value that a block can \
                                                            have"
            )));
        }
    };
    for r in &mut f.register {
        if r.access.is_empty() {
            r.access.clone_from(&block.access);
        }
        if r.access != "ro" {
            r.replay = r.replay.or(block.replay);
            if r.replay == Some(false) && r.reason.is_empty() {
                r.reason.clone_from(&block.reason);
            }
        }
        let many = r.fields.len() > 1;
        for field in r.fields.iter_mut().filter(|f| names && f.say.is_empty()) {
            let words = field.name.replace("{}", "");
            if field.kind.as_deref() == Some("bool") {
                field.say = words;
            } else if many {
                field.say = format!("{words} {{}}");
            }
        }
    }
    Ok(())
}

/// Parses the `[map]` table, which exactly one file must have.
fn head(map: &mut RegisterMap, files: &[(&str, RawFile)]) -> Result<(), RegisterMapError> {
    let mut found = files.iter().filter_map(|(file, f)| Some((*file, f.map.as_ref()?)));
    let none = SourceLocation {
        file: "",
        place: "map".to_owned(),
    };
    let (file, m) = found.next().ok_or_else(|| none.err("no file has a [map] table"))?;
    if let Some((file, _)) = found.next() {
        return Err(SourceLocation {
            file,
            place: "map".to_owned(),
        }
        .err("a second [map] table"));
    }
    let at = SourceLocation {
        file,
        place: "map".to_owned(),
    };
    if m.window == 0 || !m.window.is_multiple_of(4) || m.window > MAX_WINDOW {
        return Err(at.err(format!(
            "the window has {:#x} bytes; its size must be a multiple of 4 up to {MAX_WINDOW:#x}",
            m.window
        )));
    }
    map.name.clone_from(&m.name);
    map.doc.clone_from(&m.doc);
    map.window_bytes = m.window;
    map.space.clone_from(&m.space);
    map.framebuffers.clone_from(&m.framebuffer);
    for w in &m.widths {
        map.widths |= match w {
            1 | 2 | 4 | 8 => 1 << w,
            _ => return Err(at.err(format!("accesses have {w} bytes; valid widths are 1, 2, 4 and 8"))),
        };
    }
    map.address_bits = m.address_bits;
    if let Some(bits) = m.address_bits.filter(|b| !(24..=64).contains(b)) {
        return Err(at.err(format!("addresses have {bits} bits; the valid range is 24 to 64")));
    }
    map.devices = m
        .device
        .iter()
        .map(|d| device::device(&at, d))
        .collect::<Result<_, _>>()?;
    for g in &m.gpu {
        let mask = g.mask.unwrap_or(m.id_mask);
        if g.id & mask != g.id {
            let which = if g.mask.is_some() { "its mask" } else { "id_mask" };
            return Err(at.err(format!("{} has bits outside {which}", g.name)));
        }
        map.gpus.push(Gpu {
            product: g.id,
            mask,
            name: g.name.clone(),
        });
    }
    map.product_mask = m.product_mask.unwrap_or(m.id_mask << 16);
    Ok(())
}

/// Parses all enumerations; the files of a map share their names.
fn enumerations(files: &[(&str, RawFile)], weight: &mut Weight) -> Result<Enums, RegisterMapError> {
    let mut all = Enums::new();
    for (file, f) in files {
        for (name, values) in &f.enums {
            let at = SourceLocation {
                file,
                place: format!("enum.{name}"),
            };
            let mut list = Vec::with_capacity(values.len());
            let mut docs = Vec::new();
            let mut known = HashSet::with_capacity(values.len());
            for (key, text) in values {
                let value = number(key).ok_or_else(|| at.err(format!("{key} is not a number")))?;
                if !known.insert(value) {
                    return Err(at.err(format!("{value:#x} has two names")));
                }
                match text {
                    RawValue::Name(name) => list.push((value, name.clone())),
                    RawValue::Described(described) => {
                        list.push((value, described.name.clone()));
                        docs.push((value, described.doc.clone()));
                    }
                }
            }
            let list = NamedValues::new(list, docs);
            weight.add(&at, weight::text(name) + weight::values(&list))?;
            if all.insert(name.clone(), Arc::new(list)).is_some() {
                return Err(at.err("an enumeration of this name exists already"));
            }
        }
    }
    Ok(all)
}

fn registers(
    map: &mut RegisterMap,
    file: &str,
    f: &RawFile,
    enums: &Enums,
    weight: &mut Weight,
) -> Result<(), RegisterMapError> {
    let Some(block) = &f.block else {
        return match f.register.first() {
            None => Ok(()),
            Some(r) => Err(SourceLocation {
                file,
                place: r.name.clone(),
            }
            .err("the file has registers but no [block] table")),
        };
    };
    let at = SourceLocation {
        file,
        place: "block".to_owned(),
    };
    if block.count > 256 || (block.count > 1 && block.stride == 0) {
        return Err(at.err("a block repeats at most 256 times and needs a stride for that"));
    }
    if block.provenance.is_empty() {
        return Err(at.err("provenance is empty"));
    }
    for r in &f.register {
        let at = SourceLocation {
            file,
            place: r.name.clone(),
        };
        add(map, &at, block, r, enums, weight)?;
    }
    Ok(())
}

/// Returns the levels of a register's array, those of its block first, and whether the block is one of them.
fn levels(
    at: &SourceLocation<'_>,
    block: &RawBlock,
    raw: &RawRegister,
) -> Result<(Vec<ArrayLevel>, bool), RegisterMapError> {
    let mut all = Vec::new();
    if block.count > 0 {
        all.push(ArrayLevel {
            count: block.count,
            stride: block.stride,
            first: 0,
        });
    }
    let (counts, strides, first) = (raw.count.numbers(), raw.stride.numbers(), raw.first.numbers());
    if strides.len() > counts.len() || first.len() > counts.len() {
        return Err(at.err("stride and first need a count for each number"));
    }
    for (n, count) in counts.iter().enumerate().filter(|(_, c)| **c > 0) {
        all.push(ArrayLevel {
            count: *count,
            stride: strides.get(n).copied().unwrap_or(0),
            first: first.get(n).copied().unwrap_or(0),
        });
    }
    if all.len() > MAX_LEVELS {
        return Err(at.err(format!(
            "an array has at most {MAX_LEVELS} levels, that of the block included"
        )));
    }
    if all
        .iter()
        .any(|l| l.count > MAX_LEVEL_MEMBERS || l.count > 1 && l.stride == 0)
    {
        return Err(at.err(format!(
            "a register repeats at most {MAX_LEVEL_MEMBERS} times and needs a stride for that"
        )));
    }
    let marks = count_marks(&raw.name);
    let several = !ArrayShape::new(&all).levels().is_empty();
    if all.len() > 1 && marks != all.len() || several && marks == 0 {
        return Err(at.err(format!(
            "the name has {marks} numbers {{n}}, but its array has {} levels",
            all.len()
        )));
    }
    Ok((all, block.count > 0))
}

/// Adds one register, or the two halves of a wide one.
fn add(
    map: &mut RegisterMap,
    at: &SourceLocation<'_>,
    block: &RawBlock,
    raw: &RawRegister,
    enums: &Enums,
    weight: &mut Weight,
) -> Result<(), RegisterMapError> {
    let (levels, in_block) = levels(at, block, raw)?;
    let shape = ArrayShape::new(&levels);
    // The name with a number for each level that repeats.
    let template = match levels.is_empty() {
        true => raw.name.replace("{n}", "0"),
        false => fix_numbers(&raw.name, &levels),
    };
    let name = shape.name_of(&template, 0);
    let index_level = (in_block && block.count > 1).then_some(0);
    let index = in_block.then_some(0u8);
    let offset = u64::from(block.base) + u64::from(raw.offset);
    let (width, align) = match (raw.width, raw.wide) {
        (None, false) => (4, 4),
        (None, true) => (8, 4),
        (Some(w @ (1 | 2 | 4 | 8)), false) => (w, w),
        (Some(w), false) => return Err(at.err(format!("the width is {w} bytes; valid widths are 1, 2, 4 and 8"))),
        (Some(_), true) => return Err(at.err("a wide register is a pair of 4-byte registers and has no other width")),
    };
    let bits = u32::from(width) * 8;
    let is_aligned =
        offset.is_multiple_of(align.into()) && shape.levels().iter().all(|l| l.stride.is_multiple_of(align.into()));
    let end = shape.span().saturating_add(offset + u64::from(width));
    if !is_aligned || end > map.window_bytes {
        return Err(at.err(format!("offset {offset:#x} is not aligned or is outside the window")));
    }
    let offset = u32::try_from(offset).map_err(|_| at.err("the offset is too large"))?;
    let (access, replay) = (access(at, raw)?, Arc::new(replay(at, raw)?));
    let mut layout = fields(at, &raw.fields, bits, enums)?;
    let doc = if raw.doc.is_empty() { &name } else { &raw.doc };
    layout.name.clone_from(&name);
    layout.zero.clone_from(&raw.zero);
    layout.doc = doc.as_str().into();
    let screen = screen::sources(at, raw, &layout)?;
    let local = match raw.local {
        None => None,
        Some(_) if replay.role != Some(Role::BusAddress) => {
            return Err(at.err("only a bus address can have values of the device's own"));
        }
        Some([from, to]) if from < to => Some(from..to),
        Some([from, to]) => return Err(at.err(format!("the range from {from:#x} to {to:#x} is empty"))),
    };
    let doc = Arc::clone(&layout.doc);
    let provenance: Arc<str> = raw.provenance.as_deref().unwrap_or(&block.provenance).into();
    let register = |name: String, offset: u32, layout: Layout| Register {
        name,
        block: raw.block.clone().unwrap_or_else(|| block.name.clone()),
        index,
        offset: RegOffset::new(offset),
        width: if raw.wide { 4 } else { width },
        access,
        replay: Arc::clone(&replay),
        layout,
        doc: Arc::clone(&doc),
        pair: None,
        wide: None,
        identity: raw.identity,
        screen: screen.clone(),
        local: local.clone(),
        provenance: Arc::clone(&provenance),
    };
    let mut push = |r: Register, template: String| {
        let whole = RegisterEntry::array(r, shape.clone(), template, index_level);
        let nested = shape.is_nested(whole.first().width.into());
        // The lookups find members of nested levels alone. Other arrays are registers one by one.
        let singles = if nested { 0..0 } else { 0..whole.members() };
        let alone = singles.map(|m| whole.alone(m, |_| ()));
        let mut add = |entry: RegisterEntry| {
            if map.entries.len() >= MAX_ENTRIES {
                return Err(at.err("with this register and all repeats, the map has too many registers"));
            }
            weight.add(at, weight::register(entry.first()) + weight::text(entry.name()))?;
            map.entries.push(Arc::new(entry));
            Ok(())
        };
        for entry in alone {
            add(entry)?;
        }
        if nested { add(whole) } else { Ok(()) }
    };
    if !raw.wide {
        return push(register(name, offset, layout), template);
    }
    let wide = Arc::new(layout);
    let (lo, hi) = (format!("{name}_LO"), format!("{name}_HI"));
    let mut low = register(lo.clone(), offset, half(&wide, lo, 0));
    low.pair = Some(Half::Low {
        high_offset: RegOffset::new(offset + 4),
    });
    low.wide = Some(Arc::clone(&wide));
    let mut high = register(hi.clone(), offset + 4, half(&wide, hi, 32));
    high.pair = Some(Half::High {
        low_offset: RegOffset::new(offset),
    });
    high.wide = Some(wide);
    push(low, format!("{template}_LO"))?;
    push(high, format!("{template}_HI"))
}

fn access(at: &SourceLocation<'_>, raw: &RawRegister) -> Result<AccessRule, RegisterMapError> {
    Ok(match raw.access.as_str() {
        "ro" => AccessRule::ReadOnly,
        "wo" => AccessRule::WriteOnly,
        "rw" => AccessRule::ReadWrite,
        "" => return Err(at.err("access is missing (ro, wo or rw), and the block has no default")),
        other => return Err(at.err(format!("access {other} is not ro, wo or rw"))),
    })
}

/// Sorts the registers and fills the lookup tables; two registers with one location or name are an error.
pub(super) fn index(map: &mut RegisterMap, weight: &mut Weight) -> Result<(), RegisterMapError> {
    map.entries.sort_by_key(|e| e.first().offset);
    let at = |entry: usize| SourceLocation {
        file: "",
        place: map
            .entries
            .get(entry)
            .map(|e| e.first().name.clone())
            .unwrap_or_default(),
    };
    if map.entries.len() > MAX_ENTRIES || map.register_count() > MAX_MEMBERS {
        return Err(at(0).err(format!(
            "too many registers: at most {MAX_ENTRIES} registers and arrays, and {MAX_MEMBERS} members"
        )));
    }
    map.names = NameIndex::new(&map.entries).map_err(|e| at(e.0).err(e.1))?;
    map.offsets = OffsetIndex::new(&map.entries)
        .map_err(|e| at(e.entry).err(format!("another register is at {:#x}", e.offset)))?;
    let last = map.entries.len().saturating_sub(1);
    weight.add(&at(last), map.offsets.weight() + map.names.weight())
}
