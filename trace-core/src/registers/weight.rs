//! How much memory a map takes once it is built, and the most that one may take.
//!
//! A few lines of TOML can tell of far more than fits in memory: registers repeat, fields of an array are built once
//! for every member, a wide register has its fields three times. So everything is weighed when it is built, and what is
//! too much ends the reading.

use super::parse::{RegisterMapError, SourceLocation};
use super::{Field, Layout, Register};
use std::sync::Arc;

/// Maximum bytes, about, that a map may come to, all its files together. The largest one known, of an STM32 with all
/// its peripherals, has some 12 MiB.
const MAX_MAP_BYTES: usize = 64 << 20;
/// What an allocation takes beside its bytes, about.
const EACH: usize = 16;

/// Bytes that a map has taken so far.
#[derive(Default)]
pub(super) struct Weight(usize);

impl Weight {
    /// Adds something that was built, or is about to be.
    ///
    /// # Errors
    /// When the map is too large with it; the error names `at`.
    pub fn add(&mut self, at: &SourceLocation<'_>, bytes: usize) -> Result<(), RegisterMapError> {
        self.0 = self.0.saturating_add(bytes);
        if self.0 > MAX_MAP_BYTES {
            return Err(at.err(format!(
                "with this, and all repeats counted, the map has more than {} MiB of registers, fields, names and texts",
                MAX_MAP_BYTES >> 20
            )));
        }
        Ok(())
    }

    /// All of it, in bytes.
    pub fn bytes(&self) -> u64 {
        self.0 as u64
    }
}

/// A text that is owned.
pub(super) fn text(text: &str) -> usize {
    text.len().saturating_add(EACH)
}

/// A list of values with names.
pub(super) fn values(values: &[(u64, String)]) -> usize {
    let each = |(_, t): &(u64, String)| text(t) + size_of::<(u64, String)>();
    values.iter().map(each).sum()
}

/// A field. The values of its enumeration are shared and not of it.
fn field(f: &Field) -> usize {
    size_of::<Field>() + text(&f.name) + text(&f.doc) + text(&f.say)
}

/// Fields with their names and texts.
pub(super) fn layout(l: &Layout) -> usize {
    let own = size_of::<Layout>() + text(&l.name) + text(&l.zero) + text(&l.doc);
    own + l.fields.iter().map(field).sum::<usize>()
}

/// A register, its place in the look-up by name too. The fields of a wide one are those of its low half.
pub(super) fn register(r: &Register) -> usize {
    let replay = text(&r.replay.reason) + r.replay.before.as_deref().map_or(0, text);
    let values = r.replay.values.as_ref().map_or(0, |v| 8 * v.len());
    let texts = 2 * text(&r.name) + text(&r.block) + text(&r.doc) + text(&r.provenance);
    let wide = r
        .wide
        .as_ref()
        .filter(|_| matches!(r.pair, Some(super::Half::Low { .. })));
    let screen: usize = r.screen.iter().map(super::ScreenSource::weight).sum();
    size_of::<Register>() + replay + values + texts + screen + layout(&r.layout) + wide.map_or(0, |w| layout(w))
}

/// An enumeration as a map keeps it.
pub(super) type Values = Arc<Vec<(u64, String)>>;
