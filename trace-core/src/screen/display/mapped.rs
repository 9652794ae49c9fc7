//! The screen described by a register map: follows the registers that it names and reads its screen facts from them.
//! This is enough for a controller that the map describes completely.

use super::controller::{Controller, Effect, Mode, ModeError};
use super::registers::Registers;
use crate::RegOffset;
use crate::registers::{Register, RegisterMap, ScreenFact, ScreenSource};
use crate::screen::format::{ByteOrder, PixelFormat, ScreenFormat};

/// Bits of a 32-bit word of the register window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bits {
    word: u32,
    low: u32,
    high: u32,
}

impl Bits {
    /// Creates the bits `low` to `high` of a register. Returns `None` for a register of more than 32 bits, or across
    /// two words.
    fn new(register: &Register, low: u32, high: u32) -> Option<Self> {
        let shift = register.offset.get() % 4 * 8;
        let bits = Self {
            word: register.offset.get() & !3,
            low: shift.checked_add(low)?,
            high: shift.checked_add(high)?,
        };
        (low <= high && bits.high < 32).then_some(bits)
    }

    /// Finds a field by the names of its register and itself, if the map has it.
    pub fn find(map: &RegisterMap, register: &str, field: &str) -> Option<Self> {
        let register = map.find_by_name(register)?;
        let field = register.layout.field(field)?;
        Self::new(register, field.lo, field.hi)
    }
}

/// A screen fact and its location.
#[derive(Debug)]
struct Source {
    fact: &'static ScreenSource,
    register: &'static Register,
    bits: Bits,
}

/// The screen geometry in the map, before a controller adjusts it. Lengths are in pixels, the base in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScreenGeometry {
    base: u64,
    x: u32,
    y: u32,
    /// Distance between rows; less than a row means a row.
    pitch: u32,
    width: u32,
    height: u32,
    pixel: PixelFormat,
    order: ByteOrder,
}

impl ScreenGeometry {
    /// Returns the screen format.
    pub fn format(self) -> ScreenFormat {
        let bytes = self.pixel.bytes();
        let pitch = self.pitch.max(self.width).saturating_mul(bytes);
        let skipped = u64::from(self.x) * u64::from(bytes) + u64::from(self.y) * u64::from(pitch);
        ScreenFormat {
            base: self.base.saturating_add(skipped),
            pitch,
            width: self.width,
            height: self.height,
            pixel: self.pixel,
            order: self.order,
        }
    }
}

/// The registers that a map names for its screen, and their values.
#[derive(Debug)]
pub(super) struct MapScreen {
    sources: Vec<Source>,
    registers: Registers,
    /// Index of the next palette colour.
    index: u8,
}

impl MapScreen {
    /// Creates the screen of a map. `more` are additional fields of a controller.
    pub fn new(map: &'static RegisterMap, more: &[Option<Bits>]) -> Self {
        let sources: Vec<Source> = map
            .screen()
            .filter_map(|(register, fact)| {
                let (low, high) = fact.bits();
                let bits = Bits::new(register, low, high)?;
                Some(Source { fact, register, bits })
            })
            .collect();
        let mut words: Vec<u32> = sources.iter().map(|s| s.bits.word).collect();
        words.extend(more.iter().flatten().map(|b| b.word));
        words.sort_unstable();
        words.dedup();
        Self {
            sources,
            registers: Registers::new(&words),
            index: 0,
        }
    }

    /// Whether the map describes enough for a picture.
    pub fn is_whole(map: &RegisterMap) -> bool {
        [ScreenFact::Width, ScreenFact::Height, ScreenFact::Depth]
            .iter()
            .all(|fact| map.screen().any(|(_, s)| s.fact == *fact))
    }

    fn source(&self, fact: ScreenFact) -> Option<&Source> {
        self.sources.iter().find(|s| s.fact.fact == fact)
    }

    /// Returns bits, if they are known.
    pub fn bits(&self, bits: Option<Bits>) -> Option<u32> {
        let b = bits?;
        self.registers.bits(b.word, b.low, b.high)
    }

    /// Returns a screen fact that every screen needs.
    fn get(&self, fact: ScreenFact, what: &'static str) -> Result<u32, ModeError> {
        let source = self.source(fact).ok_or(ModeError::Unset(what))?;
        let name = source.register.name.as_str();
        let field = self.bits(Some(source.bits)).ok_or(ModeError::Unset(name))?;
        let unsupported = ModeError::Unsupported {
            what: name,
            value: field,
        };
        let reported = source.fact.read(u64::from(field) << source.fact.bits().0);
        reported.and_then(|t| u32::try_from(t).ok()).ok_or(unsupported)
    }

    /// Returns a screen fact, or 0 if the map lacks it or its register is unknown.
    fn or_zero(&self, fact: ScreenFact) -> u32 {
        self.get(fact, "").unwrap_or(0)
    }

    /// Returns the geometry from the registers. `optional` are facts that count as 0 until an access shows their
    /// register: its reset value, which a driver need not write.
    pub fn geometry(&self, optional: &[ScreenFact]) -> Result<ScreenGeometry, ModeError> {
        if self.source(ScreenFact::On).is_some() && self.get(ScreenFact::On, "")? == 0 {
            return Err(ModeError::Off("the display controller is off"));
        }
        let fact = |fact: ScreenFact, what: &'static str| match self.source(fact) {
            None => Ok(0),
            Some(_) if optional.contains(&fact) => Ok(self.or_zero(fact)),
            Some(_) => self.get(fact, what),
        };
        let pixel = match self.get(ScreenFact::Depth, "the bits of a pixel")? {
            8 => PixelFormat::Indexed8,
            15 => PixelFormat::Rgb555,
            16 => PixelFormat::Rgb565,
            24 => PixelFormat::Rgb888,
            32 => PixelFormat::Xrgb8888,
            value => {
                return Err(ModeError::Unsupported {
                    what: "the number of bits per pixel",
                    value,
                });
            }
        };
        let width = self.get(ScreenFact::Width, "the width")?;
        let height = self.get(ScreenFact::Height, "the height")?;
        Ok(ScreenGeometry {
            pitch: fact(ScreenFact::Pitch, "the pitch")?,
            base: u64::from(fact(ScreenFact::Base, "the base")?),
            x: fact(ScreenFact::X, "the first pixel")?,
            y: fact(ScreenFact::Y, "the first row")?,
            width,
            height,
            pixel,
            order: match fact(ScreenFact::BigEndian, "the order of bytes")? {
                0 => ByteOrder::Little,
                _ => ByteOrder::Big,
            },
        })
    }

    /// Whether an access touches the register of a screen fact.
    fn meets(&self, fact: ScreenFact, offset: u32, width: u8) -> bool {
        let end = u64::from(offset) + u64::from(width);
        self.source(fact)
            .is_some_and(|s| u64::from(s.register.offset.get()) < end && offset < s.register.end().get())
    }

    /// Handles a register write. `palette`: whether its colours are those of the shown palette.
    pub fn written(&mut self, offset: u32, width: u8, value: u64, palette: bool) -> Effect {
        if !self.registers.take(offset, width, value) {
            return Effect::None;
        }
        if self.meets(ScreenFact::PaletteIndex, offset, width) {
            // A write that does not include its lowest byte sets no index.
            let first = self.source(ScreenFact::PaletteIndex).map(|s| s.register.offset);
            if first == Some(RegOffset::new(offset))
                && let Ok(index) = self.get(ScreenFact::PaletteIndex, "")
            {
                self.index = index as u8;
            }
            return Effect::None;
        }
        if self.meets(ScreenFact::PaletteColour, offset, width) {
            return self.color(palette);
        }
        Effect::Mode
    }

    /// Handles a colour write. A narrow write sets a part and leaves the rest.
    fn color(&mut self, palette: bool) -> Effect {
        let Ok(color) = self.get(ScreenFact::PaletteColour, "") else {
            return Effect::None;
        };
        let index = self.index;
        self.index = index.wrapping_add(1);
        if !palette {
            return Effect::None;
        }
        let eight = self.or_zero(ScreenFact::PaletteBits) == 8;
        let stretched = |v: u32| if eight { v } else { (v & 63) << 2 | (v & 63) >> 4 };
        let part = |shift: u32| stretched(color >> shift & 0xff) as u8;
        Effect::Color(index, [part(16), part(8), part(0)])
    }

    /// Handles a register read. The palette does not read back the written values.
    pub fn was_read(&mut self, offset: u32, width: u8, value: u64) -> Effect {
        let palette = [ScreenFact::PaletteIndex, ScreenFact::PaletteColour];
        if palette.iter().any(|f| self.meets(*f, offset, width)) || !self.registers.take(offset, width, value) {
            return Effect::None;
        }
        Effect::Mode
    }

    /// Returns the registers of the map's screen facts that are readable without side effects, with their widths in
    /// bytes; `more` are a controller's own.
    pub fn readable(&self, more: &[Option<Bits>]) -> Vec<(u32, u8)> {
        let palette = [ScreenFact::PaletteIndex, ScreenFact::PaletteColour];
        let metadata = self.sources.iter().filter(|s| !palette.contains(&s.fact.fact));
        let mut all: Vec<(u32, u8)> = metadata.map(|s| (s.register.offset.get(), s.register.width)).collect();
        all.extend(more.iter().flatten().map(|b| (b.word, 4)));
        all.sort_unstable();
        all.dedup();
        all
    }
}

impl Controller for MapScreen {
    fn write(&mut self, offset: u32, width: u8, value: u64) -> Effect {
        self.written(offset, width, value, true)
    }

    fn read(&mut self, offset: u32, width: u8, value: u64) -> Effect {
        self.was_read(offset, width, value)
    }

    fn mode(&self) -> Mode {
        Mode {
            screen: self.geometry(&[]).map(ScreenGeometry::format),
            cursor: false,
        }
    }

    fn readable(&self) -> Vec<(u32, u8)> {
        MapScreen::readable(self, &[])
    }
}
