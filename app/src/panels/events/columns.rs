//! Where the columns of the event table stand. Numbers keep their room at every width; as the table narrows it goes
//! without thread, then job, then meaning, then the word beside the access's mark.

use egui::{Rect, pos2};

/// A column: its edges from the left of the table, points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cell {
    pub left: f32,
    pub right: f32,
}

impl Cell {
    /// The column's part of a row.
    pub fn of(self, row: Rect) -> Rect {
        let x = |v: f32| row.left() + v;
        Rect::from_min_max(pos2(x(self.left), row.top()), pos2(x(self.right), row.bottom()))
    }

    #[cfg(test)]
    fn width(self) -> f32 {
        self.right - self.left
    }
}

/// The columns, from left to right.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Columns {
    pub event: Cell,
    pub time: Cell,
    pub access: Cell,
    /// Whether the access's mark has its word beside it.
    pub words: bool,
    pub name: Cell,
    pub value: Cell,
    pub means: Option<Cell>,
    pub thread: Option<Cell>,
    pub job: Option<Cell>,
}

/// Left of the event's number: marks of notes and divergences.
const MARKS: f32 = 12.0;
/// Room for `12 345 678`.
const EVENT: f32 = 62.0 - MARKS;
/// Room for `+9 999.999 µs` and `1 234.567 890 s`.
const TIME: f32 = 94.0;
/// Room for a mark and its word.
const ACCESS: f32 = 54.0;
/// Room for a mark.
const MARK: f32 = 12.0;
/// Room for eighteen characters of a register's name.
const NAME: f32 = 131.0;
/// Widest that a register's name gets.
const NAME_MOST: f32 = 190.0;
/// Room for `0x00000000`.
const VALUE: f32 = 74.0;
/// Least room for what it means.
const MEANS: f32 = 96.0;
const THREAD: f32 = 42.0;
const JOB: f32 = 32.0;
/// Between columns.
const GAP: f32 = 12.0;
/// Before the access, where interrupts are marked.
const WIDE_GAP: f32 = 16.0;
/// Right of everything: the scroll bar.
const BAR: f32 = 12.0;

impl Columns {
    /// The columns of a table of this width, points.
    pub fn new(width: f32) -> Self {
        let after = |last: Cell, gap: f32, w: f32| Cell {
            left: last.right + gap,
            right: last.right + gap + w,
        };
        let event = Cell {
            left: MARKS,
            right: MARKS + EVENT,
        };
        let time = after(event, GAP, TIME);
        let least = time.right + WIDE_GAP + ACCESS + GAP + NAME + GAP + VALUE + BAR;
        let mut spare = width - least;
        let words = spare >= 0.0;
        if !words {
            spare += ACCESS - MARK;
        }
        let mut take = |w: f32| {
            let fits = words && spare >= w + GAP;
            if fits {
                spare -= w + GAP;
            }
            fits
        };
        let has_means = take(MEANS);
        let has_job = has_means && take(JOB);
        let has_thread = has_job && take(THREAD);
        // Below the least the name gives way: it is cut in the middle and whole on hover.
        let name_width = if has_means {
            NAME + (spare * 0.3).min(NAME_MOST - NAME)
        } else {
            (NAME + spare).clamp(24.0, NAME_MOST)
        };
        let access = after(time, WIDE_GAP, if words { ACCESS } else { MARK });
        let name = after(access, GAP, name_width);
        let value = after(name, GAP, VALUE);
        let mut end = width - BAR;
        let mut back = |has: bool, w: f32| {
            has.then(|| {
                let cell = Cell {
                    left: end - w,
                    right: end,
                };
                end -= w + GAP;
                cell
            })
        };
        let job = back(has_job, JOB);
        let thread = back(has_thread, THREAD);
        let means = has_means.then_some(Cell {
            left: value.right + GAP,
            right: end,
        });
        Self {
            event,
            time,
            access,
            words,
            name,
            value,
            means,
            thread,
            job,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(c: &Columns) -> Vec<Cell> {
        let fixed = [c.event, c.time, c.access, c.name, c.value];
        let more = [c.means, c.thread, c.job];
        fixed.into_iter().chain(more.into_iter().flatten()).collect()
    }

    #[test]
    fn no_column_lies_over_another_at_any_width() {
        for width in 300..3000 {
            let c = Columns::new(width as f32);
            for pair in all(&c).windows(2) {
                assert!(pair[0].right < pair[1].left, "at {width}: {pair:?}");
                assert!(pair[0].width() > 0.0 && pair[1].width() > 0.0, "at {width}: {pair:?}");
            }
            assert!(
                width < 360 || all(&c).iter().all(|x| x.right <= width as f32),
                "at {width}: {c:?}"
            );
        }
    }

    #[test]
    fn numbers_keep_their_room_and_the_others_go_one_after_another() {
        for width in (440..2000).step_by(7) {
            let c = Columns::new(width as f32);
            for (cell, room) in [(c.event, EVENT), (c.time, TIME), (c.value, VALUE)] {
                assert!((cell.width() - room).abs() < 0.01, "at {width}: {c:?}");
            }
            assert!(c.name.width() > NAME - 0.01, "at {width}: {c:?}");
            assert!(c.thread.is_none() || c.job.is_some(), "the thread goes first");
            assert!(c.job.is_none() || c.means.is_some(), "then the job");
            assert!(c.means.is_none() || c.words, "then the meaning");
        }
        assert!(Columns::new(790.0).thread.is_some(), "at 1280 points all are there");
        assert!(Columns::new(430.0).means.is_none());
    }
}
