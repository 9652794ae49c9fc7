//! Columns of a piece of a log: the events, the window of each, and their side data. Pieces are joined in order when
//! the whole log is known.

use super::mmio_regions::{MmioRegions, NOWHERE, STRAY};
use trace_core::RegOffset;
use trace_core::recording::{DmaMapRow, EventKind, InterruptRow, SubmitRow, UndecodedRow};

/// Number of side tables: see [`Rows::tables`].
pub(super) const TABLES: usize = 6;
/// Maximum number of line numbers of unusable lines that are kept for the report.
const FIRST_LINES: usize = 4;

/// Lines without a meaning for an importer.
#[derive(Clone, Debug, Default)]
pub(super) struct UnusableLines {
    /// Number of lines.
    pub(super) count: u64,
    /// Numbers of the first of them, from 1.
    pub(super) first: Vec<u64>,
    /// The first line that is almost one of the format: its number, and what is missing.
    pub(super) incomplete: Option<(u64, &'static str)>,
}

impl UnusableLines {
    pub(super) fn add(&mut self, line: u64) {
        self.count += 1;
        if self.first.len() < FIRST_LINES {
            self.first.push(line);
        }
    }

    /// Adds a line that is almost one of the format, with what is missing.
    pub(super) fn add_incomplete(&mut self, line: u64, missing: &'static str) {
        self.add(line);
        self.incomplete.get_or_insert((line, missing));
    }

    /// Adds those of a later piece, whose lines follow line `before`.
    pub(super) fn append(&mut self, later: &Self, before: u64) {
        self.count += later.count;
        let room = FIRST_LINES.saturating_sub(self.first.len());
        self.first.extend(later.first.iter().take(room).map(|l| l + before));
        let later = later.incomplete.map(|(line, missing)| (line + before, missing));
        self.incomplete = self.incomplete.or(later);
    }

    /// Formats the first of them: `line 3`, `lines 3, 4, 9 …`.
    pub(super) fn place(&self) -> String {
        let numbers: Vec<String> = self.first.iter().map(u64::to_string).collect();
        let more = if self.count > self.first.len() as u64 {
            " …"
        } else {
            ""
        };
        let word = if self.count == 1 { "line" } else { "lines" };
        format!("{word} {}{more}", numbers.join(", "))
    }
}

/// Missing events of a piece of a log.
#[derive(Clone, Debug)]
pub(super) struct LostRows {
    /// Row before which they are missing.
    pub(super) before: usize,
    /// Number of events, if known.
    pub(super) count: Option<u64>,
    /// Message of the log.
    pub(super) reason: String,
}

/// An access whose window was unknown when its line was read.
#[derive(Clone, Copy, Debug)]
pub(super) struct StrayAccess {
    /// The event, and its row in the columns of its kind.
    event: u32,
    row: u32,
    undecoded: bool,
    address: u64,
}

/// The target of an access.
#[derive(Clone, Copy, Debug)]
pub(super) enum AccessTarget {
    /// A window, and the offset in it.
    Window(u16, u32),
    /// A memory address.
    Address(u64),
}

/// The events of a piece of a log.
#[derive(Debug, Default)]
pub(super) struct Rows {
    pub(super) kind: Vec<u8>,
    /// Number of the window; [`NOWHERE`] for events without one, [`STRAY`] if it is not known yet.
    pub(super) window: Vec<u16>,
    pub(super) time: Vec<u64>,
    /// Empty, or one for each event.
    pub(super) thread: Vec<u32>,
    pub(super) offset: Vec<u32>,
    pub(super) width: Vec<u8>,
    pub(super) value: Vec<u64>,
    pub(super) interrupts: Vec<InterruptRow>,
    pub(super) undecoded: Vec<UndecodedRow>,
    pub(super) dma_maps: Vec<DmaMapRow>,
    pub(super) marks: Vec<String>,
    pub(super) submits: Vec<SubmitRow>,
    pub(super) strays: Vec<StrayAccess>,
    pub(super) lost: Vec<LostRows>,
    /// Number of lines of the piece, and its unusable lines.
    pub(super) lines: u64,
    pub(super) unusable: UnusableLines,
}

impl Rows {
    /// Returns the number of events.
    pub(super) fn len(&self) -> usize {
        self.kind.len()
    }

    /// Returns the memory of the events, bytes.
    pub(super) fn bytes(&self) -> u64 {
        /// Memory of a text besides its characters: a `String`, and an allocation's overhead.
        const TEXT: usize = size_of::<String>() + 16;
        let columns = self.kind.capacity()
            + self.window.capacity() * 2
            + (self.time.capacity() + self.value.capacity()) * 8
            + (self.thread.capacity() + self.offset.capacity()) * 4
            + self.width.capacity()
            + self.interrupts.capacity() * size_of::<InterruptRow>()
            + self.undecoded.capacity() * size_of::<UndecodedRow>()
            + self.dma_maps.capacity() * size_of::<DmaMapRow>()
            + self.submits.capacity() * size_of::<SubmitRow>();
        let marks: usize = self.marks.iter().map(|m| m.capacity() + TEXT).sum();
        let lost: usize = self.lost.iter().map(|l| l.reason.capacity() + TEXT + 24).sum();
        (columns + marks + lost) as u64
    }

    fn row(&mut self, kind: EventKind, window: u16, time: u64) {
        self.kind.push(kind as u8);
        self.window.push(window);
        self.time.push(time);
    }

    /// Adds an access.
    pub(super) fn access(&mut self, write: bool, time: u64, at: AccessTarget, width: u8, value: u64) {
        let (window, offset) = self.place(at, self.offset.len(), false);
        self.row(if write { EventKind::Write } else { EventKind::Read }, window, time);
        self.offset.push(offset);
        self.width.push(width);
        self.value.push(value);
    }

    /// Adds an access without a value; the row's offset is that in the window, if the window is known.
    pub(super) fn undecoded(&mut self, time: u64, at: AccessTarget, row: UndecodedRow) {
        let (window, offset) = self.place(at, self.undecoded.len(), true);
        self.row(EventKind::Undecoded, window, time);
        self.undecoded.push(UndecodedRow {
            offset: RegOffset::new(offset),
            ..row
        });
    }

    /// Returns window and offset of an address; unknown ones are recorded for later. `row` is its future row in the
    /// columns of its kind.
    fn place(&mut self, at: AccessTarget, row: usize, undecoded: bool) -> (u16, u32) {
        match at {
            AccessTarget::Window(window, offset) => (window, offset),
            AccessTarget::Address(address) => {
                // A piece comes from one block, whose lines fit 32 bits.
                self.strays.push(StrayAccess {
                    event: self.len() as u32,
                    row: row as u32,
                    undecoded,
                    address,
                });
                (STRAY, 0)
            }
        }
    }

    /// Resolves the windows that were unknown when the lines were read, and counts the accesses of each. `range`
    /// returns the mapped range of an address, for a new window, and whether it is guessed.
    pub(super) fn settle(&mut self, windows: &mut MmioRegions, range: impl Fn(u64) -> (u64, u64, bool)) {
        for stray in std::mem::take(&mut self.strays) {
            let found = windows
                .find(stray.address)
                .or_else(|| windows.find_or_add(stray.address, range(stray.address)));
            let (event, row) = (stray.event as usize, stray.row as usize);
            let (Some((number, at)), Some(window)) = (found, self.window.get_mut(event)) else {
                continue;
            };
            if stray.undecoded {
                if let Some(u) = self.undecoded.get_mut(row) {
                    (*window, u.offset) = (number, RegOffset::new(at));
                }
            } else if let Some(offset) = self.offset.get_mut(row) {
                (*window, *offset) = (number, at);
            }
        }
        windows.count(&self.window);
    }

    /// Moves events to other windows and offsets, as [`MmioRegions::join`] and [`MmioRegions::fit`] return them: offsets
    /// change modulo 2^32.
    pub(super) fn move_to(&mut self, moved: &[(u16, u32)]) {
        let (mut access, mut undecoded) = (0, 0);
        for (kind, window) in self.kind.iter().zip(&mut self.window) {
            let place = moved.get(usize::from(*window));
            match EventKind::from_raw(*kind) {
                Some(EventKind::Read | EventKind::Write) => {
                    access += 1;
                    if let (Some((to, by)), Some(offset)) = (place, self.offset.get_mut(access - 1)) {
                        (*window, *offset) = (*to, offset.wrapping_add(*by));
                    }
                }
                Some(EventKind::Undecoded) => {
                    undecoded += 1;
                    if let (Some((to, by)), Some(u)) = (place, self.undecoded.get_mut(undecoded - 1)) {
                        (*window, u.offset) = (*to, u.offset.wrapping_add(*by));
                    }
                }
                _ => {}
            }
        }
    }

    /// Widens the first and the last accessed offset of each window, by number.
    pub(super) fn widen(&self, accessed: &mut [Option<(u32, u32)>]) {
        let (mut access, mut undecoded) = (0, 0);
        for (kind, window) in self.kind.iter().zip(&self.window) {
            let range = match EventKind::from_raw(*kind) {
                Some(EventKind::Read | EventKind::Write) => {
                    access += 1;
                    let width = self.width.get(access - 1).copied().unwrap_or(1);
                    let at = self.offset.get(access - 1).copied();
                    at.map(|at| (at, at.saturating_add(u32::from(width.saturating_sub(1)))))
                }
                Some(EventKind::Undecoded) => {
                    undecoded += 1;
                    let row = self.undecoded.get(undecoded - 1);
                    row.map(|u| (u.offset.get(), u.offset.get()))
                }
                _ => None,
            };
            if let (Some((low, high)), Some(slot)) = (range, accessed.get_mut(usize::from(*window))) {
                let (first, last) = slot.unwrap_or((low, high));
                *slot = Some((first.min(low), last.max(high)));
            }
        }
    }

    /// Returns the number of rows of each table: accesses, interrupts, marks, undecoded accesses, memory for the
    /// device, submits.
    pub(super) fn tables(&self) -> [usize; TABLES] {
        [
            self.offset.len(),
            self.interrupts.len(),
            self.marks.len(),
            self.undecoded.len(),
            self.dma_maps.len(),
            self.submits.len(),
        ]
    }

    /// Reserves memory for `accesses` more accesses.
    pub(super) fn reserve(&mut self, accesses: usize) {
        self.kind.reserve(accesses);
        self.window.reserve(accesses);
        self.time.reserve(accesses);
        self.offset.reserve(accesses);
        self.width.reserve(accesses);
        self.value.reserve(accesses);
    }

    /// Records that events are missing here.
    pub(super) fn lose(&mut self, count: Option<u64>, reason: String) {
        self.lost.push(LostRows {
            before: self.len(),
            count,
            reason,
        });
    }

    /// Adds a note.
    pub(super) fn mark(&mut self, time: u64, text: String) {
        self.row(EventKind::Mark, NOWHERE, time);
        self.marks.push(text);
    }

    /// Adds an interrupt.
    pub(super) fn interrupt(&mut self, time: u64, row: InterruptRow) {
        self.row(EventKind::Interrupt, NOWHERE, time);
        self.interrupts.push(row);
    }

    /// Adds memory for the device.
    pub(super) fn dma_map(&mut self, time: u64, row: DmaMapRow) {
        self.row(EventKind::DmaMap, NOWHERE, time);
        self.dma_maps.push(row);
    }

    /// Adds a submit.
    pub(super) fn submit(&mut self, time: u64, row: SubmitRow) {
        self.row(EventKind::Submit, NOWHERE, time);
        self.submits.push(row);
    }

    /// Sets the thread of the last event.
    pub(super) fn thread_of_last(&mut self, thread: u32) {
        if thread != 0 || !self.thread.is_empty() {
            self.thread.resize(self.len(), 0);
            if let Some(last) = self.thread.last_mut() {
                *last = thread;
            }
        }
    }

    /// Returns the table of an event kind, in the order of [`Rows::tables`].
    pub(super) fn table_of(kind: EventKind) -> usize {
        match kind {
            EventKind::Interrupt => 1,
            EventKind::Mark => 2,
            EventKind::Undecoded => 3,
            EventKind::DmaMap => 4,
            EventKind::Submit => 5,
            _ => 0,
        }
    }

    /// Adds the event `at` of another piece; `row` is its row in the table of its kind.
    pub(super) fn copy(&mut self, from: &Self, at: usize, kind: EventKind, row: usize) -> Option<()> {
        let (time, window) = (*from.time.get(at)?, *from.window.get(at)?);
        match kind {
            EventKind::Interrupt => self.interrupts.push(*from.interrupts.get(row)?),
            EventKind::Mark => self.marks.push(from.marks.get(row)?.clone()),
            EventKind::Undecoded => self.undecoded.push(*from.undecoded.get(row)?),
            EventKind::DmaMap => self.dma_maps.push(*from.dma_maps.get(row)?),
            EventKind::Submit => self.submits.push(*from.submits.get(row)?),
            _ => {
                let (offset, width, value) = (*from.offset.get(row)?, *from.width.get(row)?, *from.value.get(row)?);
                self.offset.push(offset);
                self.width.push(width);
                self.value.push(value);
            }
        }
        self.row(kind, window, time);
        self.thread_of_last(from.thread.get(at).copied().unwrap_or(0));
        Some(())
    }

    /// Keeps the events selected by `kept`, with their rows.
    pub(super) fn retain(&mut self, kept: &[bool]) {
        if kept.iter().all(|k| *k) {
            return;
        }
        for lost in &mut self.lost {
            lost.before = kept.iter().take(lost.before).filter(|k| **k).count();
        }
        let of = |table: usize| -> Vec<bool> {
            let all = self.kind.iter().zip(kept);
            let fits = |k: u8| EventKind::from_raw(k).is_some_and(|k| Self::table_of(k) == table);
            all.filter(|(k, _)| fits(**k)).map(|(_, k)| *k).collect()
        };
        let [accesses, interrupts, marks, undecoded, dma_maps, submits] = [0, 1, 2, 3, 4, 5].map(of);
        filter(&mut self.offset, &accesses);
        filter(&mut self.width, &accesses);
        filter(&mut self.value, &accesses);
        filter(&mut self.interrupts, &interrupts);
        filter(&mut self.marks, &marks);
        filter(&mut self.undecoded, &undecoded);
        filter(&mut self.dma_maps, &dma_maps);
        filter(&mut self.submits, &submits);
        filter(&mut self.kind, kept);
        filter(&mut self.window, kept);
        filter(&mut self.time, kept);
        if !self.thread.is_empty() {
            self.thread.resize(kept.len(), 0);
            filter(&mut self.thread, kept);
        }
    }
}

fn filter<T>(values: &mut Vec<T>, kept: &[bool]) {
    let mut keeps = kept.iter();
    values.retain(|_| keeps.next().copied().unwrap_or(true));
}
