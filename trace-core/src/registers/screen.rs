//! What registers tell of the picture on the screen: where it lies in the framebuffer, its size, its pixels.

use super::parse::{RegisterMapError, SourceLocation};
use super::raw::RawRegister;
use super::{Field, Layout, Register, RegisterMap};

/// A fact of the picture on the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ScreenFact {
    /// Where the picture's first row begins, in bytes from the start of the framebuffer space.
    Base,
    /// Pixels by which the picture begins further right than the base.
    X,
    /// Rows by which the picture begins further down than the base.
    Y,
    /// From one row to the next, in pixels. 0: the width.
    Pitch,
    /// Pixels in a row.
    Width,
    /// Rows.
    Height,
    /// Bits a pixel: 4, 8 (colours of a palette), 15, 16, 24, 32.
    Depth,
    /// Whether anything is shown: not 0.
    On,
    /// Bits of a colour of the palette: 6 or 8.
    PaletteBits,
    /// Number of the palette's colour that the next write of [`ScreenFact::PaletteColour`] sets. Each one goes on to
    /// the next colour.
    PaletteIndex,
    /// A colour of the palette, `0xrrggbb`.
    PaletteColour,
    /// Order of the bytes of a pixel: 0 the lowest first, 1 the highest first.
    BigEndian,
}

/// Names of the facts in the files.
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

/// How a fact is read out of a register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScreenSource {
    /// What it tells.
    pub fact: ScreenFact,
    /// First and last bit of the field that tells it.
    bits: (u32, u32),
    /// Added to the field's value, before it is multiplied.
    add: u32,
    /// What the sum is multiplied by.
    times: u32,
    /// What the field's values stand for, where they are no numbers; by rising value.
    values: Vec<(u64, u32)>,
}

impl ScreenSource {
    /// Bytes that it takes in memory, about.
    pub(super) fn weight(&self) -> usize {
        size_of::<Self>() + self.values.len() * size_of::<(u64, u32)>()
    }

    /// First and last bit of the field that tells it, within its register.
    #[must_use]
    pub fn bits(&self) -> (u32, u32) {
        self.bits
    }

    /// The fact out of the register's value; `None` for a value of the field that the map does not know.
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

/// The `screen` list of a register, checked.
pub(super) fn sources(
    at: &SourceLocation<'_>,
    raw: &RawRegister,
    layout: &Layout,
) -> Result<Vec<ScreenSource>, RegisterMapError> {
    let mut all: Vec<ScreenSource> = Vec::with_capacity(raw.screen.len());
    if raw.wide && !raw.screen.is_empty() {
        return Err(at.err("a wide register tells nothing of the screen"));
    }
    for s in &raw.screen {
        let fact = FACTS.iter().find(|(n, _)| *n == s.what).map(|(_, f)| *f);
        let fact = fact.ok_or_else(|| at.err(format!("a screen has no {}", s.what)))?;
        if all.iter().any(|a| a.fact == fact) {
            return Err(at.err(format!("the {} of the screen is told twice", s.what)));
        }
        let bits = match &s.field {
            None => (0, layout.bits.saturating_sub(1)),
            Some(name) => {
                let field: &Field = layout
                    .field(name)
                    .ok_or_else(|| at.err(format!("the screen's {} is in no field {name}", s.what)))?;
                (field.lo, field.hi)
            }
        };
        let mut values = Vec::with_capacity(s.values.len());
        for (key, number) in &s.values {
            let key = super::parse::number(key).ok_or_else(|| at.err(format!("{key} is not a number")))?;
            values.push((key, *number));
        }
        values.sort_unstable();
        if values.array_windows().any(|[a, b]| a.0 == b.0) {
            return Err(at.err("a value of the screen is told twice"));
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

impl RegisterMap {
    /// Every fact of the screen, with the register that tells it.
    pub fn screen(&self) -> impl Iterator<Item = (&Register, &ScreenSource)> {
        self.registers().flat_map(|r| r.screen.iter().map(move |s| (r, s)))
    }
}
