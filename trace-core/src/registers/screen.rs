//! Screen facts of registers: position of the picture in the framebuffer, its size, its pixels.

use super::map_error::{RegisterMapError, SourceLocation};
use super::raw::{RawRegister, number};
use super::{Field, Layout};

/// A fact about the picture on the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ScreenFact {
    /// Offset of the picture's first row from the start of the framebuffer space, bytes.
    Base,
    /// Horizontal offset of the picture from the base, pixels.
    X,
    /// Vertical offset of the picture from the base, rows.
    Y,
    /// Distance between rows, pixels. 0: the width.
    Pitch,
    /// Width of the picture, pixels.
    Width,
    /// Height of the picture, rows.
    Height,
    /// Bits per pixel: 4, 8 (palette colours), 15, 16, 24, 32.
    Depth,
    /// Whether anything is shown: not 0.
    On,
    /// Bits per channel of a palette colour: 6 or 8.
    PaletteBits,
    /// Index of the palette colour that the next write of [`ScreenFact::PaletteColour`] sets. Each write advances it.
    PaletteIndex,
    /// A palette colour, `0xrrggbb`.
    PaletteColour,
    /// Byte order of a pixel: 0 lowest byte first, 1 highest byte first.
    BigEndian,
}

/// Names of the facts in the map files.
const FACTS: &[(&str, ScreenFact)] = &[
    ("base", ScreenFact::Base),
    ("x", ScreenFact::X),
    ("y", ScreenFact::Y),
    ("pitch", ScreenFact::Pitch),
    ("width", ScreenFact::Width),
    ("height", ScreenFact::Height),
    ("depth", ScreenFact::Depth),
    ("on", ScreenFact::On),
    ("palette-bits", ScreenFact::PaletteBits),
    ("palette-index", ScreenFact::PaletteIndex),
    ("palette-colour", ScreenFact::PaletteColour),
    ("big-endian", ScreenFact::BigEndian),
];

/// How a fact is read from a register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScreenSource {
    /// The fact.
    pub fact: ScreenFact,
    /// First and last bit of the field with the fact.
    bits: (u32, u32),
    /// Added to the field's value before multiplication.
    add: u32,
    /// Factor of the sum.
    times: u32,
    /// Meaning of the field's values, if they are no numbers; by ascending value.
    values: Vec<(u64, u32)>,
}

impl ScreenSource {
    /// Returns its approximate memory size, bytes.
    pub(super) fn weight(&self) -> usize {
        size_of::<Self>() + self.values.len() * size_of::<(u64, u32)>()
    }

    /// Returns the first and last bit of the field with the fact, within its register.
    #[must_use]
    pub fn bits(&self) -> (u32, u32) {
        self.bits
    }

    /// Reads the fact from the register's value. Returns `None` for a field value that the map does not know.
    #[must_use]
    pub fn read(&self, value: u64) -> Option<u64> {
        let (lo, hi) = self.bits;
        let field = value.checked_shr(lo).unwrap_or(0);
        let field = match hi.saturating_sub(lo) {
            63.. => field,
            more => field & ((1 << (more + 1)) - 1),
        };
        let number = if self.values.is_empty() {
            field
        } else {
            let at = self.values.binary_search_by_key(&field, |(v, _)| *v).ok()?;
            u64::from(self.values.get(at)?.1)
        };
        number.checked_add(self.add.into())?.checked_mul(self.times.into())
    }
}

/// Parses and checks the `screen` list of a register.
pub(super) fn sources(
    at: &SourceLocation<'_>,
    raw: &RawRegister,
    layout: &Layout,
) -> Result<Vec<ScreenSource>, RegisterMapError> {
    let mut all: Vec<ScreenSource> = Vec::with_capacity(raw.screen.len());
    if raw.wide && !raw.screen.is_empty() {
        return Err(at.err("a wide register cannot describe the screen"));
    }
    for s in &raw.screen {
        let fact = FACTS.iter().find(|(n, _)| *n == s.what).map(|(_, f)| *f);
        let fact = fact.ok_or_else(|| at.err(format!("a screen has no property {}", s.what)))?;
        if all.iter().any(|a| a.fact == fact) {
            return Err(at.err(format!("the property {} of the screen is set twice", s.what)));
        }
        let bits = match &s.field {
            None => (0, layout.bits.saturating_sub(1)),
            Some(name) => {
                let field: &Field = layout.field(name).ok_or_else(|| {
                    at.err(format!(
                        "the property {} of the screen names the missing field {name}",
                        s.what
                    ))
                })?;
                (field.lo, field.hi)
            }
        };
        let mut values = Vec::with_capacity(s.values.len());
        for (key, value) in &s.values {
            let key = number(key).ok_or_else(|| at.err(format!("{key} is not a number")))?;
            values.push((key, *value));
        }
        values.sort_unstable();
        if values.array_windows().any(|[a, b]| a.0 == b.0) {
            return Err(at.err("a value of the screen is set twice"));
        }
        all.push(ScreenSource {
            fact,
            bits,
            add: s.add,
            times: s.times,
            values,
        });
    }
    Ok(all)
}
