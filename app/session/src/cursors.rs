//! Cursors A and B: two events that the user marks to measure between them.
//!
//! A cursor is an event, not a time: clocks are coarse and repeat, but the index of an event is unique.

use crate::text;

/// One of the two cursors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cursor {
    /// Cursor A.
    A,
    /// Cursor B.
    B,
}

impl Cursor {
    /// Both, in order.
    pub const ALL: [Self; 2] = [Self::A, Self::B];

    /// Returns the letter of the cursor.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::A => "A",
            Self::B => "B",
        }
    }
}

/// The positions of the cursors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursors {
    /// Event of cursor A.
    pub a: Option<u64>,
    /// Event of cursor B.
    pub b: Option<u64>,
}

impl Cursors {
    /// Returns the event of a cursor, or `None` if it is not set.
    #[must_use]
    pub fn get(self, cursor: Cursor) -> Option<u64> {
        match cursor {
            Cursor::A => self.a,
            Cursor::B => self.b,
        }
    }

    /// Sets a cursor to an event.
    pub fn set(&mut self, cursor: Cursor, event: u64) {
        match cursor {
            Cursor::A => self.a = Some(event),
            Cursor::B => self.b = Some(event),
        }
    }

    /// Removes a cursor.
    pub fn remove(&mut self, cursor: Cursor) {
        match cursor {
            Cursor::A => self.a = None,
            Cursor::B => self.b = None,
        }
    }

    /// Returns the cursors at an event.
    pub fn at(self, event: u64) -> impl Iterator<Item = Cursor> {
        Cursor::ALL.into_iter().filter(move |c| self.get(*c) == Some(event))
    }

    /// Returns the cursor that the next click without a name sets: the first that is not set, else the one nearer to
    /// `event`.
    #[must_use]
    pub fn next(self, event: u64) -> Cursor {
        match (self.a, self.b) {
            (None, _) => Cursor::A,
            (_, None) => Cursor::B,
            (Some(a), Some(b)) if b.abs_diff(event) < a.abs_diff(event) => Cursor::B,
            _ => Cursor::A,
        }
    }
}

/// The distance between both cursors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CursorSpan {
    /// The earlier event of the two.
    pub first: u64,
    /// The later event of the two.
    pub last: u64,
    /// Nanoseconds between them; `None` if the recording has no times.
    pub ns: Option<u64>,
    /// Whether B lies before A.
    pub reversed: bool,
}

impl CursorSpan {
    /// Returns the number of events from one cursor to the other: 1 for neighbours.
    #[must_use]
    pub fn events(self) -> u64 {
        self.last - self.first
    }

    /// Formats the span: `A to B 180 µs · 14 events`, with a minus sign if B lies before A.
    #[must_use]
    pub fn describe(self) -> String {
        let sign = if self.reversed { "\u{2212}" } else { "" };
        let events = text::count_noun(self.events(), "event", "events");
        match self.ns {
            Some(ns) => format!("A to B {sign}{} · {sign}{events}", text::duration(ns)),
            None => format!("A to B {sign}{events}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_click_sets_the_free_cursor_and_then_the_nearer_one() {
        let mut c = Cursors::default();
        assert_eq!(c.next(7), Cursor::A);
        c.set(Cursor::A, 10);
        assert_eq!(c.next(7), Cursor::B);
        c.set(Cursor::B, 100);
        assert_eq!((c.next(7), c.next(90)), (Cursor::A, Cursor::B));
        assert_eq!(c.at(100).collect::<Vec<_>>(), [Cursor::B]);
        c.remove(Cursor::A);
        assert_eq!((c.get(Cursor::A), c.next(100)), (None, Cursor::A));
    }

    #[test]
    fn cursor_span_shows_signed_time_and_events() {
        let span = |ns, reversed| CursorSpan {
            first: 5,
            last: 19,
            ns,
            reversed,
        };
        assert_eq!(span(Some(180_000), false).describe(), "A to B 180 µs · 14 events");
        assert_eq!(span(None, true).describe(), "A to B \u{2212}14 events");
    }
}
