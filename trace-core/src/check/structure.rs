//! Checks of events: lost, backwards in time, outside the register map, changed feature registers.

use super::capped_findings::{CappedFindings, REPORT_EVERY};
use crate::RegOffset;
use crate::families::find_family;
use crate::finding::{Finding, FindingKind};
use crate::progress::{Cancelled, Progress};
use crate::recording::{Recording, SpaceKind};
use crate::registers::{RecordedRegisters, RegisterMap, format_location};
use std::collections::{BTreeMap, BTreeSet};

/// Reports events that the recorder knows it missed. A finding that the importer or recorder already made at the same
/// event is not repeated.
pub(super) fn check_lost_events(recording: &Recording, findings: &mut Vec<Finding>) {
    let report = recording.metadata.findings.iter();
    let set: BTreeSet<u64> = report
        .filter(|f| f.kind == FindingKind::LostEvents)
        .filter_map(|f| f.event)
        .collect();
    for l in recording
        .metadata
        .lost
        .iter()
        .filter(|l| !set.contains(&l.before_event))
    {
        let count = l.count.map_or("some".to_owned(), |n| n.to_string());
        findings.push(
            Finding::new(
                FindingKind::LostEvents,
                format!("event {}", l.before_event),
                format!("{count} events before it are missing: {}", l.reason),
            )
            .at_event(l.before_event),
        );
    }
}

/// Reports events whose time is before that of the previous event, as one finding. A driver call is recorded at its
/// return, with the time of its start. Of overlapping calls, in two threads or nested, the later row may have started
/// earlier.
pub(super) fn check_time(
    recording: &Recording,
    progress: &Progress,
    findings: &mut Vec<Finding>,
) -> Result<(), Cancelled> {
    if recording.api().is_some() {
        return Ok(());
    }
    let mut before = 0;
    let (mut count, mut first, mut max) = (0u64, None, 0);
    for (event, time) in recording.events.time.iter().enumerate() {
        if event % REPORT_EVERY == 0 {
            progress.advance(if event == 0 { 0 } else { REPORT_EVERY as u64 })?;
        }
        if time < before {
            count += 1;
            max = max.max(before - time);
            first = first.or(Some(event as u64));
        }
        before = time;
    }
    if let Some(event) = first {
        let message = if count == 1 {
            format!("its time is {max} ns before that of the previous event")
        } else {
            format!(
                "the times of this and {} more events are before those of their previous events, by up to {max} ns",
                count - 1
            )
        };
        findings.push(Finding::new(FindingKind::TimeBackwards, format!("event {event}"), message).at_event(event));
    }
    Ok(())
}

/// Accesses to one location of a space that has no register.
#[derive(Default)]
struct UnknownAccesses {
    first: u64,
    count: u64,
}

/// Explains why no register of a recording has a name, and what to do.
fn without_names(recording: &Recording) -> String {
    let id = recording.metadata.identity.gpu_id;
    let from = recording.opened_from.as_ref().map(|p| p.display().to_string());
    let file = from.unwrap_or_else(|| "RECORDING".to_owned());
    if let Some(map) = RegisterMap::for_device_of(recording) {
        let (name, space) = (map.name(), map.space());
        return format!("the register map {name} describes {space}, which was not recorded, so no register has a name");
    }
    if let Some(explanation) = find_family(recording).explain_missing_map(recording, &file) {
        return explanation;
    }
    let how = "`kinescope regmaps import` makes a map from an SVD, rules-ng-ng, genxml or csbgen file";
    match recording.hardware() {
        Some(h) if id == 0 && h.is_named() => {
            let id = h.id();
            format!("no register map knows the device {id}, so no register has a name: {how}, with --next-to {file}")
        }
        _ if id == 0 => format!(
            "the recording does not name its device, so no register has a name. Import it again with `--device \
             VENDOR:DEVICE` (1002:5159) or `--device COMPATIBLE` (arm,pl031), or add a map: {how}, with --next-to \
             {file}"
        ),
        _ => format!(
            "no register map knows a GPU with id {id:#010x}, so no register has a name: {how}, with --next-to {file}"
        ),
    }
}

/// Reports registers that are not in the map, and identity registers that change.
pub(super) fn check_registers(
    recording: &Recording,
    progress: &Progress,
    findings: &mut Vec<Finding>,
) -> Result<(), Cancelled> {
    let spaces = &recording.metadata.spaces;
    let is_registers = |s: u8| {
        spaces
            .get(usize::from(s))
            .is_some_and(|s| s.kind == SpaceKind::Registers)
    };
    let Some(device) = RecordedRegisters::new(recording).filter(|d| d.has_map()) else {
        if let Some((event, _)) = recording
            .events
            .accesses(0..recording.events.len())
            .find(|(_, a)| is_registers(a.space))
        {
            let message = without_names(recording);
            let f = Finding::new(FindingKind::UnknownRegister, format!("event {event}"), message);
            findings.push(f.at_event(event as u64));
        }
        return Ok(());
    };
    let map = device.map();
    let mut unknown = UnknownRegisters::default();
    let mut features: BTreeMap<RegOffset, u64> = BTreeMap::new();
    let mut changed = CappedFindings::new(FindingKind::FeatureChanged);
    for (nth, (event, a)) in recording.events.accesses(0..recording.events.len()).enumerate() {
        if nth % REPORT_EVERY == 0 {
            progress.advance(if nth == 0 { 0 } else { REPORT_EVERY as u64 })?;
        }
        let listed = usize::from(a.space) < spaces.len();
        if listed && !is_registers(a.space) {
            continue;
        }
        if listed && a.space != device.space() {
            unknown.add_other_space(event as u64, a.space);
            continue;
        }
        let known = listed && map.has_registers_for(a.offset, a.width);
        let Some(register) = map.find_accessed(a.offset, a.width).filter(|_| known) else {
            unknown.add_register(event as u64, (a.space, a.offset, a.width));
            continue;
        };
        if register.identity && !a.write && register.width == a.width {
            let before = features.insert(a.offset, a.value);
            if let Some(before) = before.filter(|b| *b != a.value) {
                changed.add(|| {
                    let message = format!(
                        "{} reads {:#x} here, but {before:#x} before; this register identifies the GPU",
                        register.name, a.value
                    );
                    let place = format!("event {event}, {}", register.name);
                    Finding::new(FindingKind::FeatureChanged, place, message).at_event(event as u64)
                });
            }
        }
    }
    changed.append_to(findings);
    unknown.append_to(recording, map.name(), findings);
    Ok(())
}

/// Accesses to registers that the map does not describe, reported once each.
#[derive(Default)]
struct UnknownRegisters {
    /// By MMIO region that the map does not describe.
    spaces: BTreeMap<u8, UnknownAccesses>,
    /// By space, offset and width in bytes.
    registers: BTreeMap<(u8, RegOffset, u8), UnknownAccesses>,
}

impl UnknownRegisters {
    fn add_other_space(&mut self, event: u64, space: u8) {
        let first = UnknownAccesses { first: event, count: 0 };
        self.spaces.entry(space).or_insert(first).count += 1;
    }

    /// Hostile offsets must not fill memory: accesses beyond the cap are counted with the last entry.
    fn add_register(&mut self, event: u64, key: (u8, RegOffset, u8)) {
        if self.registers.len() < CappedFindings::MAX_FINDINGS || self.registers.contains_key(&key) {
            let first = UnknownAccesses { first: event, count: 0 };
            self.registers.entry(key).or_insert(first).count += 1;
        } else if let Some(mut last) = self.registers.last_entry() {
            last.get_mut().count += 1;
        }
    }

    fn append_to(self, recording: &Recording, map: &str, findings: &mut Vec<Finding>) {
        let spaces = &recording.metadata.spaces;
        for (space, o) in self.spaces {
            let name = spaces.get(usize::from(space)).map_or("", |s| s.name.as_str());
            let message = format!(
                "{} accesses to {name}, a space that the register map {map} does not describe",
                o.count
            );
            let place = format!("event {}, {name}", o.first);
            findings.push(Finding::new(FindingKind::UnknownRegister, place, message).at_event(o.first));
        }
        for ((space, offset, width), s) in self.registers {
            let name = spaces
                .get(usize::from(space))
                .map_or("a space that is not listed", |s| s.name.as_str());
            let message = format!(
                "{} accesses of {width} bytes at {offset:#x} of {name}, where the map has no such register",
                s.count
            );
            let location = format_location(recording, space, offset);
            let place = format!("event {}, offset {location}", s.first);
            findings.push(Finding::new(FindingKind::UnknownRegister, place, message).at_event(s.first));
        }
    }
}
