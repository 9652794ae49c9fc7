//! The memory size of a map during construction, and its limit.
//!
//! A few lines of TOML can describe far more than fits in memory: the blocks of a file repeat all their registers, and
//! a wide register has its fields three times. So everything is counted when it is built, and exceeding the limit ends
//! the reading. An array counts once, whatever its number of members.

use super::map_error::{RegisterMapError, SourceLocation};
use super::{Field, Layout, NamedValues, Register};
use std::sync::Arc;

/// Maximum size of a map with all its files, bytes (approximate). The largest known one, of an STM32 with all its
/// peripherals, has some 12 MiB.
const MAX_MAP_BYTES: usize = 64 << 20;
/// Approximate overhead of an allocation, bytes.
const EACH: usize = 16;

/// Size of a map so far, bytes.
#[derive(Default)]
pub(super) struct Weight(usize);

impl Weight {
    /// Adds the size of something that was built, or is about to be.
    ///
    /// # Errors
    ///
    /// When the map becomes too large; the error names `at`.
    pub fn add(&mut self, at: &SourceLocation<'_>, bytes: usize) -> Result<(), RegisterMapError> {
        self.0 = self.0.saturating_add(bytes);
        if self.0 > MAX_MAP_BYTES {
            return Err(at.err(format!(
                "with this and all repeats, the map has more than {} MiB of registers, fields, names and texts",
                MAX_MAP_BYTES >> 20
            )));
        }
        Ok(())
    }

    /// Returns the total size, bytes.
    pub fn bytes(&self) -> u64 {
        self.0 as u64
    }
}

/// Returns the size of an owned text.
pub(super) fn text(text: &str) -> usize {
    text.len().saturating_add(EACH)
}

/// Returns the size of a list of named values.
pub(super) fn values(values: &NamedValues) -> usize {
    let each = |(_, t): &(u64, String)| text(t) + size_of::<(u64, String)>();
    values.iter().chain(values.docs()).map(each).sum()
}

/// Returns the size of a field. The values of its enumeration are shared and not included.
fn field(f: &Field) -> usize {
    size_of::<Field>() + text(&f.name) + text(&f.doc) + text(&f.say)
}

/// Returns the size of fields with their names and texts.
pub(super) fn layout(l: &Layout) -> usize {
    let own = size_of::<Layout>() + text(&l.name) + text(&l.zero) + text(&l.doc);
    own + l.fields.iter().map(field).sum::<usize>()
}

/// Returns the size of a register with its entry in the lookup by name. The fields of a wide register count for its low
/// half.
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

/// An enumeration in a map.
pub(super) type Values = Arc<NamedValues>;
