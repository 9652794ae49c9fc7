//! Checks of undecoded accesses, whose address was recorded but not their value.
//!
//! A finding says how many there are and which ranges of a space they go to, because the recording's contents of
//! those ranges are unreliable. It also says which rows of the picture cannot be right.

use super::capped_findings::REPORT_EVERY;
use crate::RegOffset;
use crate::finding::{Finding, FindingKind};
use crate::progress::{Cancelled, Progress};
use crate::recording::{EventKind, Recording, Space};
use crate::screen::{Display, DisplayError, Framebuffer, FramebufferError, RenderedScreen, StoreState};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Maximum number of ranges of a space, or of rows, that are listed.
const MAX_RANGES: usize = 8;
/// Maximum gap between two accesses of one range, bytes: the gap between rows of a copy is larger.
const MAX_GAP_BYTES: u32 = 64;
/// Assumed size of an access whose width is not known, bytes.
const DEFAULT_ACCESS_BYTES: u8 = 4;

/// The undecoded accesses to a space.
#[derive(Default)]
struct UndecodedAccesses {
    first: u64,
    count: u64,
    reads: u64,
    /// Accesses by a repeated x86 move (`rep movs`), which a driver uses for block copies to or from a device.
    copies: u64,
    /// Locations: offset of the first byte and of the last.
    places: Vec<(u32, u32)>,
}

/// Adds a finding for each space with undecoded accesses.
pub(super) fn check_undecoded(
    recording: &Recording,
    progress: &Progress,
    findings: &mut Vec<Finding>,
) -> Result<(), Cancelled> {
    let events = &recording.events;
    if events.undecoded.is_empty() {
        return Ok(());
    }
    let mut spaces: BTreeMap<u8, UndecodedAccesses> = BTreeMap::new();
    let columns = events.kind.iter().zip(events.space.iter()).zip(events.payload.iter());
    for (event, ((kind, space), payload)) in columns.enumerate() {
        if event % REPORT_EVERY == 0 {
            progress.check()?;
        }
        if kind != EventKind::Undecoded as u8 {
            continue;
        }
        let Some(row) = events.undecoded.get(payload as usize) else {
            continue;
        };
        let found = spaces.entry(space).or_insert_with(|| UndecodedAccesses {
            first: event as u64,
            ..UndecodedAccesses::default()
        });
        found.count += 1;
        found.reads += u64::from(row.write() == Some(false));
        found.copies += u64::from(row.is_repeated_move());
        let last = row
            .offset
            .saturating_add(u32::from(row.width().unwrap_or(DEFAULT_ACCESS_BYTES).max(1)) - 1);
        match found.places.last_mut() {
            // A copy continues where it was, or covers the same bytes again.
            Some(p)
                if row.offset >= RegOffset::new(p.0)
                    && row.offset <= RegOffset::new(p.1.saturating_add(MAX_GAP_BYTES)) =>
            {
                p.1 = p.1.max(last.get())
            }
            _ => found.places.push((row.offset.get(), last.get())),
        }
    }
    let display = match Display::read(recording, &Progress::new()) {
        Ok(display) => display,
        Err(DisplayError::Cancelled(c)) => return Err(c),
        // The limit is exceeded: then no rows are listed.
        Err(DisplayError::TooMany { .. }) => None,
    };
    for (space, found) in spaces {
        let of = recording.metadata.spaces.get(usize::from(space));
        let rows = match &display {
            Some(d) if d.framebuffer() == Some(space) => rows(recording, d, progress)?,
            _ => None,
        };
        findings.push(found.finding(of, space, rows.as_deref()));
    }
    Ok(())
}

/// Describes which rows of the last picture hold pixels that an undecoded access left and no later store overwrote.
/// Returns `None` if the recording has no picture or no row is affected.
fn rows(recording: &Recording, display: &Display, progress: &Progress) -> Result<Option<String>, Cancelled> {
    progress.check()?;
    let last = (recording.events.len() as u64).saturating_sub(1);
    let (Some(space), Some(screen)) = (display.framebuffer(), display.last_screen(last)) else {
        return Ok(None);
    };
    // Building the framebuffer is not a step of the check's progress.
    let framebuffer = match Framebuffer::build(recording, space, &Progress::new()) {
        Ok(framebuffer) => framebuffer,
        Err(FramebufferError::Cancelled(c)) => return Err(c),
        Err(_) => return Ok(None),
    };
    if screen.check(framebuffer.bytes()).is_err() {
        return Ok(None);
    }
    progress.check()?;
    let drawn = RenderedScreen::new(&framebuffer.after(last), &screen, &display.after(last).palette);
    let (mut ranges, mut pixels) = (Vec::<(usize, usize)>::new(), 0u64);
    for (y, row) in drawn.known().chunks(drawn.width().max(1) as usize).enumerate() {
        let lost = row.iter().filter(|k| **k == StoreState::Lost).count() as u64;
        if lost == 0 {
            continue;
        }
        pixels += lost;
        match ranges.last_mut() {
            Some(r) if r.1.saturating_add(1) == y => r.1 = y,
            _ => ranges.push((y, y)),
        }
    }
    let Some(((first, end), rest)) = ranges.split_first() else {
        return Ok(None);
    };
    let mut message = match (first == end, rest.is_empty()) {
        (true, true) => format!("row y {first}"),
        _ => format!("rows y {first}–{end}"),
    };
    for (first, end) in rest.iter().take(MAX_RANGES - 1) {
        // Writing to a `String` never fails.
        let _ = write!(message, ", {first}–{end}");
    }
    if let Some(n @ 1..) = ranges.len().checked_sub(MAX_RANGES) {
        let _ = write!(message, " and {n} more ranges");
    }
    let (width, height) = (screen.width, screen.height);
    Ok(Some(format!(
        "{message} of the last picture ({width} by {height}) may be wrong: such accesses left {pixels} pixels that \
         were not stored again"
    )))
}

impl UndecodedAccesses {
    fn finding(mut self, space: Option<&Space>, number: u8, rows: Option<&str>) -> Finding {
        self.places.sort_unstable();
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        for (first, last) in self.places {
            match ranges.last_mut() {
                Some(r) if first <= r.1.saturating_add(MAX_GAP_BYTES) => r.1 = r.1.max(last),
                _ => ranges.push((first, last)),
            }
        }
        let messages: Vec<String> = ranges
            .iter()
            .take(MAX_RANGES)
            .map(|(f, l)| format!("{f:#x}–{l:#x}"))
            .collect();
        let more = match ranges.len().saturating_sub(MAX_RANGES) {
            0 => String::new(),
            n => format!(" and {n} more ranges"),
        };
        let what = match (self.count, self.reads == self.count) {
            (1, true) => "1 read was".to_owned(),
            (1, false) => "1 access was".to_owned(),
            (n, true) => format!("{n} reads were"),
            (n, false) => format!("{n} accesses were"),
        };
        let lost = if self.reads == self.count {
            "the read values are unknown"
        } else {
            "the values are unknown, so a replay cannot repeat the accesses"
        };
        let name = space.map_or_else(|| format!("space {number}"), |s| s.name.clone());
        let why = "the recorder cannot read the value of a repeated move (`rep movs`)";
        let why = match self.copies {
            0 => String::new(),
            n if n == self.count => format!(", because {why}"),
            n => format!(", {n} of them because {why}"),
        };
        let message = format!(
            "{what} recorded without the value{why}, at {}{more}: {lost}",
            messages.join(", ")
        );
        // The damage to the picture comes first: lists show only the start of a message.
        let message = match rows {
            Some(rows) => format!("{rows}: {message}"),
            None => message,
        };
        Finding::new(FindingKind::UndecodedAccess, name, message).at_event(self.first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RegOffset;
    use crate::recording::{EventsBuilder, SpaceKind, UndecodedRow};

    #[test]
    fn undecoded_ranges_are_reported_per_space() {
        let mut b = EventsBuilder::new();
        for row in [2u32, 0, 1] {
            for at in 0..100 {
                b.undecoded(
                    0,
                    0,
                    1,
                    UndecodedRow::from_instruction(RegOffset::new(row * 0x1000 + at * 8), 0x00f3_48a5),
                );
            }
        }
        b.mark(0, "a note");
        b.undecoded(0, 0, 0, UndecodedRow::from_access(RegOffset::new(0x10), false, 2));
        let mut r = Recording {
            events: b.finish(),
            ..Recording::default()
        };
        for name in ["config", "bar0"] {
            r.metadata.spaces.push(Space {
                name: name.into(),
                kind: SpaceKind::Framebuffer,
                bytes: 0x10000,
            });
        }
        let mut findings = Vec::new();
        check_undecoded(&r, &Progress::new(), &mut findings).unwrap();
        let entries: Vec<_> = findings
            .iter()
            .map(|f| (f.place.as_str(), f.message.as_str(), f.event))
            .collect();
        assert_eq!(
            entries,
            [
                (
                    "config",
                    "1 read was recorded without the value, at 0x10–0x11: the read values are unknown",
                    Some(301)
                ),
                (
                    "bar0",
                    "300 accesses were recorded without the value, because the recorder cannot read the value of a \
                     repeated move (`rep movs`), at 0x0–0x31f, 0x1000–0x131f, 0x2000–0x231f: the values are unknown, \
                     so a replay cannot repeat the accesses",
                    Some(0)
                ),
            ]
        );
        assert!(findings.iter().all(|f| f.kind == FindingKind::UndecodedAccess));
    }
}
