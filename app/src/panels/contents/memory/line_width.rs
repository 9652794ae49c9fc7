//! The width of a line of memory: number of bytes, with or without letters.

use trace_core::recording::ElementType;

/// Width of an element, in digits, below which a line has half the elements.
const ELEMENT: f32 = 9.0;

/// What a line of memory shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LineWidth {
    /// Number of bytes, 8 or 16.
    pub bytes: u64,
    /// Whether the bytes are also shown as ASCII, right of the hexadecimal digits.
    pub letters: bool,
}

impl LineWidth {
    /// Returns what fits into `room` points: 16 bytes if they fit, else 8; letters if they are requested and fit too.
    pub fn new(room: f32, digit: f32, element: Option<ElementType>, letters: bool) -> Self {
        if let Some(e) = element {
            // A line of 8 bytes holds one element of 8 bytes, which has no half.
            let narrow = e.bytes() < 8 && room / ((16 / e.bytes()) as f32) < digit * ELEMENT;
            return Self {
                bytes: if narrow { 8 } else { 16 },
                letters: false,
            };
        }
        // A byte needs two digits and a space, and a letter; spaces separate both parts.
        let needed = |bytes: f32, letters: bool| digit * (bytes * 3.0 + 1.0 + if letters { bytes + 2.0 } else { 0.0 });
        let bytes = if room < needed(16.0, false) { 8 } else { 16 };
        Self {
            bytes,
            letters: letters && room >= needed(bytes as f32, true),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexdump_line_width_fits_the_panel() {
        let width = |room: f32, element, letters| {
            let w = LineWidth::new(room, 7.0, element, letters);
            (w.bytes, w.letters)
        };
        assert_eq!(width(500.0, None, true), (16, true));
        assert_eq!(width(500.0, None, false), (16, false));
        assert_eq!(width(400.0, None, true), (16, false));
        assert_eq!(width(300.0, None, true), (8, true));
        assert_eq!(width(200.0, None, true), (8, false));
        assert_eq!(width(500.0, Some(ElementType::F32), true), (16, false));
        assert_eq!(width(200.0, Some(ElementType::F32), true), (8, false));
        assert_eq!(width(100.0, Some(ElementType::F64), true), (16, false));
    }
}
