//! The parser of register maps: TOML files become a map with arrays expanded, 64-bit registers split, and everything
//! checked.

use super::map::{Gpu, RegisterMap};
use super::map_error::{RegisterMapError, SourceLocation};
use super::raw::{RawBlock, RawField, RawFile, RawRegister, number};
use super::rules::replay;
use super::screen;
use super::weight::{self, Values, Weight};
use super::{AccessRule, Field, FieldKind, Half, Layout, Register, Role};
use super::{bus_parser, device, memory};
use crate::RegOffset;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// Maximum size of the register window of a map, bytes.
const MAX_WINDOW: u64 = 1 << 26;
/// Maximum size of a layout, bits.
const MAX_BITS: u32 = 1 << 16;

type Enums = BTreeMap<String, Values>;

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
                layout.doc.clone_from(&l.doc);
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
            let mut known = HashSet::with_capacity(values.len());
            for (key, text) in values {
                let value = number(key).ok_or_else(|| at.err(format!("{key} is not a number")))?;
                if !known.insert(value) {
                    return Err(at.err(format!("{value:#x} has two names")));
                }
                list.push((value, text.clone()));
            }
            list.sort_unstable();
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
    for instance in 0..block.count.max(1) {
        let base = u64::from(block.base) + u64::from(instance) * u64::from(block.stride);
        let index = if block.count > 0 {
            u8::try_from(instance).ok()
        } else {
            None
        };
        for r in &f.register {
            let at = SourceLocation {
                file,
                place: r.name.clone(),
            };
            if r.count > 256 || (r.count > 1 && r.stride == 0) {
                return Err(at.err("a register repeats at most 256 times and needs a stride for that"));
            }
            let number = if r.count > 0 { 0..r.count } else { 0..1 };
            for n in number {
                let name = match index {
                    Some(i) => r.name.replace("{n}", &i.to_string()),
                    None => r.name.replace("{n}", &n.to_string()),
                };
                let offset = base + u64::from(r.offset) + u64::from(n) * u64::from(r.stride);
                add(map, &at, block, r, name, index, offset, enums, weight)?;
            }
        }
    }
    Ok(())
}

/// Adds one register, or the two halves of a wide one.
#[allow(
    clippy::too_many_arguments,
    reason = "one call with everything that a register consists of"
)]
fn add(
    map: &mut RegisterMap,
    at: &SourceLocation<'_>,
    block: &RawBlock,
    raw: &RawRegister,
    name: String,
    index: Option<u8>,
    offset: u64,
    enums: &Enums,
    weight: &mut Weight,
) -> Result<(), RegisterMapError> {
    let (width, align) = match (raw.width, raw.wide) {
        (None, false) => (4, 4),
        (None, true) => (8, 4),
        (Some(w @ (1 | 2 | 4 | 8)), false) => (w, w),
        (Some(w), false) => return Err(at.err(format!("the width is {w} bytes; valid widths are 1, 2, 4 and 8"))),
        (Some(_), true) => return Err(at.err("a wide register is a pair of 4-byte registers and has no other width")),
    };
    let bits = u32::from(width) * 8;
    if !offset.is_multiple_of(align.into()) || offset + u64::from(width) > map.window_bytes {
        return Err(at.err(format!("offset {offset:#x} is not aligned or is outside the window")));
    }
    let offset = u32::try_from(offset).map_err(|_| at.err("the offset is too large"))?;
    let (access, replay) = (access(at, raw)?, replay(at, raw)?);
    let mut layout = fields(at, &raw.fields, bits, enums)?;
    let doc = if raw.doc.is_empty() { &name } else { &raw.doc };
    layout.name.clone_from(&name);
    layout.zero.clone_from(&raw.zero);
    layout.doc.clone_from(doc);
    let screen = screen::sources(at, raw, &layout)?;
    let local = match raw.local {
        None => None,
        Some(_) if replay.role != Some(Role::BusAddress) => {
            return Err(at.err("only a bus address can have values of the device's own"));
        }
        Some([from, to]) if from < to => Some(from..to),
        Some([from, to]) => return Err(at.err(format!("the range from {from:#x} to {to:#x} is empty"))),
    };
    let doc = doc.clone();
    let register = |name: String, offset: u32, layout: Layout| Register {
        name,
        block: raw.block.clone().unwrap_or_else(|| block.name.clone()),
        index,
        offset: RegOffset::new(offset),
        width: if raw.wide { 4 } else { width },
        access,
        replay: replay.clone(),
        layout,
        doc: doc.clone(),
        pair: None,
        wide: None,
        identity: raw.identity,
        screen: screen.clone(),
        local: local.clone(),
        provenance: raw.provenance.clone().unwrap_or_else(|| block.provenance.clone()),
    };
    let mut push = |r: Register| {
        if map.registers.len() >= usize::from(u16::MAX) - 1 {
            return Err(at.err("with this register and all repeats, the map has too many registers"));
        }
        weight.add(at, weight::register(&r))?;
        map.registers.push(Arc::new(r));
        Ok(())
    };
    if !raw.wide {
        return push(register(name, offset, layout));
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
    push(low)?;
    push(high)
}

/// Returns the fields of a 64-bit register that lie in the 32 bits from `from` on, cut to them.
fn half(wide: &Layout, name: String, from: u32) -> Layout {
    let mut layout = Layout {
        name,
        bits: 32,
        fields: Vec::new(),
        zero: wide.zero.clone(),
        doc: wide.doc.clone(),
    };
    for f in &wide.fields {
        let (lo, hi) = (f.lo.max(from), f.hi.min(from + 31));
        if lo > hi {
            continue;
        }
        let cut = lo - f.lo;
        let whole = lo == f.lo && hi == f.hi;
        let kind = match &f.kind {
            FieldKind::Set { first } => FieldKind::Set {
                first: first.saturating_add(cut),
            },
            FieldKind::Address { shift } => FieldKind::Address {
                shift: shift.saturating_add(cut),
            },
            k if whole => k.clone(),
            _ => FieldKind::Hex,
        };
        layout.fields.push(Field {
            lo: lo - from,
            hi: hi - from,
            kind,
            ..f.clone()
        });
    }
    layout
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

/// Parses the fields of a layout of `bits` bits and checks them against it and each other.
fn fields(at: &SourceLocation<'_>, raw: &[RawField], bits: u32, enums: &Enums) -> Result<Layout, RegisterMapError> {
    if bits == 0 || bits > MAX_BITS {
        return Err(at.err(format!("the size is {bits} bits; the valid range is 1 to {MAX_BITS}")));
    }
    let mut fields: Vec<Field> = Vec::with_capacity(raw.len());
    for f in raw {
        let bad = |reason: &str| at.err(format!("field {}: {reason}", f.name));
        let (hi, lo) = f.bits.split_once(':').unwrap_or((&f.bits, &f.bits));
        let (Ok(hi), Ok(lo)) = (hi.parse::<u32>(), lo.parse::<u32>()) else {
            return Err(bad("bits must be \"7\" or \"7:0\""));
        };
        if lo > hi || hi - lo > 63 || hi >= bits {
            return Err(bad("its bits are reversed, wider than 64 or outside the register"));
        }
        let kind = match (f.kind.as_deref(), &f.enumeration) {
            (None, Some(e)) => FieldKind::Enum(Arc::clone(
                enums.get(e).ok_or_else(|| bad("no enumeration has this name"))?,
            )),
            (Some(_), Some(_)) => return Err(bad("it has both a kind and an enumeration")),
            (None | Some("hex"), None) => FieldKind::Hex,
            (Some("number"), None) => FieldKind::Number,
            (Some("number+1"), None) => FieldKind::NumberPlusOne,
            (Some("power-of-two"), None) => FieldKind::PowerOfTwo,
            (Some("set"), None) => FieldKind::Set { first: f.first },
            (Some("bool"), None) if lo == hi => FieldKind::Bool,
            (Some("bool"), None) => return Err(bad("a switch must have one bit")),
            (Some("address"), None) if f.shift < 64 => FieldKind::Address { shift: f.shift },
            (Some("address"), None) => return Err(bad("the shift is more than 63")),
            (Some(_), None) => return Err(bad("no kind has this name")),
        };
        if f.shift != 0 && !matches!(kind, FieldKind::Address { .. }) {
            return Err(bad("only an address can have a shift"));
        }
        if f.first != 0 && !matches!(kind, FieldKind::Set { .. }) {
            return Err(bad("only a set can have a first number"));
        }
        fields.push(Field {
            name: f.name.clone(),
            lo,
            hi,
            kind,
            doc: f.doc.clone(),
            say: f.say.clone(),
            status: f.status,
        });
    }
    fields.sort_by_key(|f| f.lo);
    for pair in fields.windows(2) {
        if let [a, b] = pair
            && b.lo <= a.hi
        {
            return Err(at.err(format!("fields {} and {} overlap", a.name, b.name)));
        }
    }
    let mut names: Vec<&str> = fields.iter().map(|f| f.name.as_str()).collect();
    names.sort_unstable();
    if let Some([name, _]) = names.array_windows().find(|[a, b]| a == b) {
        return Err(at.err(format!("two fields have the name {name}")));
    }
    Ok(Layout {
        bits,
        fields,
        ..Layout::default()
    })
}

/// Sorts the registers and fills the lookup tables; two registers with one location or name are an error.
pub(super) fn index(map: &mut RegisterMap, weight: &mut Weight) -> Result<(), RegisterMapError> {
    map.registers.sort_by_key(|r| r.offset);
    if let Some(last) = map.registers.last() {
        let at = SourceLocation {
            file: "",
            place: last.name.clone(),
        };
        weight.add(&at, last.end().get().div_ceil(4) as usize * size_of::<u16>())?;
    }
    for (i, r) in map.registers.iter().enumerate() {
        let at = SourceLocation {
            file: "",
            place: r.name.clone(),
        };
        let number = u16::try_from(i)
            .ok()
            .filter(|n| *n < u16::MAX)
            .ok_or_else(|| at.err("too many registers"))?;
        if map.by_name.insert(r.name.clone(), number).is_some() {
            return Err(at.err("two registers have this name"));
        }
        if i.checked_sub(1)
            .and_then(|b| map.registers.get(b))
            .is_some_and(|b| b.end() > r.offset)
        {
            return Err(at.err(format!("another register is at {:#x}", r.offset)));
        }
        let words = r.offset.get() as usize / 4..r.end().get().div_ceil(4) as usize;
        if map.by_word.len() < words.end {
            map.by_word.resize(words.end, 0);
        }
        for word in map.by_word.get_mut(words).into_iter().flatten().filter(|w| **w == 0) {
            *word = number + 1;
        }
    }
    Ok(())
}
