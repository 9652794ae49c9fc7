//! Values of both sides of a comparison, as `diff --json` prints them: counts, elements and fields.

use serde::Serialize;
use trace_core::diff::ElementDiff;
use trace_core::memory::element_text;

/// A value of each side. The engine has pairs.
#[derive(Serialize)]
pub struct Sides<T> {
    /// The value of the first recording.
    pub a: T,
    /// The value of the second recording.
    pub b: T,
}

impl<T> From<(T, T)> for Sides<T> {
    fn from((a, b): (T, T)) -> Self {
        Self { a, b }
    }
}

/// The texts of a field of a descriptor or of a call. The engine has them as tuples with empty texts.
#[derive(Serialize)]
pub struct FieldPair<'a> {
    /// Name of the field.
    pub field: &'a str,
    /// Its text on each side; `null` if that side has none.
    pub a: Option<&'a str>,
    pub b: Option<&'a str>,
}

/// The first element that differs by more than the tolerance. Its values are text, so that no digit is lost.
#[derive(Serialize)]
pub struct Element {
    /// Index of the element, from 0.
    pub index: u64,
    /// Its value on each side.
    pub a: String,
    pub b: String,
}

impl Element {
    /// Returns the first element that differs; `None` if none does.
    pub fn first(elements: &ElementDiff) -> Option<Self> {
        let text = |bits: u64| element_text(elements.element, &bits.to_le_bytes()).unwrap_or_default();
        elements.first.map(|f| Self {
            index: f.index,
            a: text(f.a),
            b: text(f.b),
        })
    }
}
