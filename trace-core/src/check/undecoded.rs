//! Accesses of which a recorder saw the address and not the value: how many there are, and which ranges of a space they
//! go to, since nothing there can be taken for what the recording says.

use super::{Finding, FindingKind, REPORT_EVERY};
use crate::progress::{Cancelled, Progress};
use crate::recording::{EventKind, Recording, Space};
use std::collections::BTreeMap;

/// Most ranges of a space that are told.
const MOST_RANGES: usize = 8;
/// Bytes between two accesses of one range: what a copy leaves out between rows is more.
const NEAR: u32 = 64;
/// Bytes that an access is taken to have where its width is not known.
const SOME: u8 = 4;

/// The undecoded accesses to a space.
#[derive(Default)]
struct Found {
    first: u64,
    count: u64,
    reads: u64,
    /// Places: offset of the first byte and of the last.
    places: Vec<(u32, u32)>,
}

/// A finding for each space with accesses that were not decoded.
pub(super) fn undecoded(
    recording: &Recording,
    progress: &Progress,
    findings: &mut Vec<Finding>,
) -> Result<(), Cancelled> {
    let events = &recording.events;
    if events.undecoded.is_empty() {
        return Ok(());
    }
    let mut spaces: BTreeMap<u8, Found> = BTreeMap::new();
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
        let found = spaces.entry(space).or_insert_with(|| Found {
            first: event as u64,
            ..Found::default()
        });
        found.count += 1;
        found.reads += u64::from(row.write() == Some(false));
        let last = row
            .offset
            .saturating_add(u32::from(row.width().unwrap_or(SOME).max(1)) - 1);
        match found.places.last_mut() {
            // A copy goes on where it was, or goes over the same bytes again.
            Some(p) if row.offset >= p.0 && row.offset <= p.1.saturating_add(NEAR) => p.1 = p.1.max(last),
            _ => found.places.push((row.offset, last)),
        }
    }
    for (space, found) in spaces {
        let of = recording.facts.spaces.get(usize::from(space));
        findings.push(found.finding(of, space));
    }
    Ok(())
}

impl Found {
    fn finding(mut self, space: Option<&Space>, number: u8) -> Finding {
        self.places.sort_unstable();
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        for (first, last) in self.places {
            match ranges.last_mut() {
                Some(r) if first <= r.1.saturating_add(NEAR) => r.1 = r.1.max(last),
                _ => ranges.push((first, last)),
            }
        }
        let told: Vec<String> = ranges
            .iter()
            .take(MOST_RANGES)
            .map(|(f, l)| format!("{f:#x}–{l:#x}"))
            .collect();
        let more = match ranges.len().saturating_sub(MOST_RANGES) {
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
            "what they gave is not known"
        } else {
            "what was read or stored there is not known, and a replay cannot do it again"
        };
        let name = space.map_or_else(|| format!("space {number}"), |s| s.name.clone());
        let message = format!("{what} seen without the value, at {}{more}: {lost}", told.join(", "));
        Finding::new(FindingKind::UndecodedAccess, name, message).at_event(self.first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::{EventsBuilder, SpaceKind, UndecodedRow};

    #[test]
    fn the_ranges_of_each_space_are_told() {
        let mut b = EventsBuilder::new();
        for row in [2u32, 0, 1] {
            for at in 0..100 {
                b.undecoded(
                    0,
                    0,
                    1,
                    UndecodedRow::of_instruction(row * 0x1000 + at * 8, 0x00f3_48a5),
                );
            }
        }
        b.mark(0, "a note");
        b.undecoded(0, 0, 0, UndecodedRow::of_access(0x10, false, 2));
        let mut r = Recording {
            events: b.finish(),
            ..Recording::default()
        };
        for name in ["config", "bar0"] {
            r.facts.spaces.push(Space {
                name: name.into(),
                kind: SpaceKind::Framebuffer,
                bytes: 0x10000,
            });
        }
        let mut findings = Vec::new();
        undecoded(&r, &Progress::new(), &mut findings).unwrap();
        let told: Vec<_> = findings
            .iter()
            .map(|f| (f.place.as_str(), f.message.as_str(), f.event))
            .collect();
        assert_eq!(
            told,
            [
                (
                    "config",
                    "1 read was seen without the value, at 0x10–0x11: what they gave is not known",
                    Some(301)
                ),
                (
                    "bar0",
                    "300 accesses were seen without the value, at 0x0–0x31f, 0x1000–0x131f, 0x2000–0x231f: what was \
                     read or stored there is not known, and a replay cannot do it again",
                    Some(0)
                ),
            ]
        );
        assert!(findings.iter().all(|f| f.kind == FindingKind::UndecodedAccess));
    }
}
