//! The lanes of the timeline, and their names.

use super::scale::Scale;
use super::{program_ranges, streams};
use kinescope_session::Document;
use trace_core::RegOffset;

/// A lane of the timeline.
#[derive(Clone, Debug, PartialEq)]
pub enum Lane {
    /// References to the selection.
    References,
    /// Boot, setup, compute, teardown.
    Phases,
    /// Jobs from submit to interrupt.
    Jobs,
    /// Interrupts.
    Interrupts,
    /// Folded polls.
    Polls,
    /// Accesses of a block of registers, by its index in the pyramid.
    Block(usize),
    /// Launches, copies and stream orders of a stream, by its number.
    Stream(usize),
    /// Ranges that the program named, by their level of nesting.
    Ranges(usize),
    /// Allocated device memory.
    MemoryUse,
    /// Calls that failed.
    Failed,
    /// Values of one register.
    Pin(RegOffset),
    /// Divergences of the last replay.
    Divergences,
    /// Differences from the compared recording.
    Differences,
    /// Notes.
    Notes,
    /// Events that pass a saved filter, by the filter's text.
    FilterMatches(String),
}

/// Returns the lanes with content in view, in order.
pub fn list_visible(doc: &Document, scale: &Scale) -> Vec<Lane> {
    let f = &doc.derived;
    let mut out = vec![Lane::References];
    if !f.phases.is_empty() {
        out.push(Lane::Phases);
    }
    if scale.spans.jobs.iter().any(|slot| !slot.is_empty()) {
        out.push(Lane::Jobs);
    }
    if !scale.spans.interrupts.is_empty() {
        out.push(Lane::Interrupts);
    }
    if doc.replay.outcome.as_ref().is_some_and(|o| !o.divergences.is_empty()) {
        out.push(Lane::Divergences);
    }
    if doc.comparison.done.as_ref().is_some_and(|c| c.steps.rows() > 0) {
        out.push(Lane::Differences);
    }
    if !doc.changes().notes().is_empty() {
        out.push(Lane::Notes);
    }
    out.extend(doc.filter_lanes().map(|(text, _)| Lane::FilterMatches(text.to_owned())));
    out.extend(doc.changes().pins().iter().map(|r| Lane::Pin(*r)));
    if !scale.spans.polls.is_empty() {
        out.push(Lane::Polls);
    }
    out.extend((0..program_ranges::count_levels(doc)).map(Lane::Ranges));
    let streams = streams::list_streams(doc);
    for (n, lanes) in streams.iter().enumerate() {
        let seen = |lane: Option<usize>| lane.is_some_and(|l| scale.pixels.total(l) != (0, 0));
        if seen(lanes.copies) || seen(lanes.launches) {
            out.push(Lane::Stream(n));
        }
    }
    if let Some(api_trace) = &f.api_trace {
        if !api_trace.allocated_bytes().is_empty() {
            out.push(Lane::MemoryUse);
        }
        if !api_trace.failed_calls().is_empty() {
            out.push(Lane::Failed);
        }
    }
    let own = streams::list_hidden_lanes(doc);
    let blocks = (0..f.pyramid.lanes().len()).filter(|lane| !own.contains(lane));
    let blocks = blocks.filter(|lane| scale.pixels.total(*lane) != (0, 0));
    out.extend(blocks.map(Lane::Block));
    out
}

/// Returns a name of a lane that stays the same in every run of the program.
pub fn key(doc: &Document, lane: &Lane) -> String {
    match lane {
        Lane::References => "selection".into(),
        Lane::Phases => "phases".into(),
        Lane::Jobs => "jobs".into(),
        Lane::Interrupts => "interrupts".into(),
        Lane::Polls => "polls".into(),
        Lane::Block(i) => {
            let name = doc.derived.pyramid.lanes().get(*i).map_or("", String::as_str);
            format!("block {name}")
        }
        Lane::Stream(n) => format!("stream {n}"),
        Lane::Ranges(level) => program_ranges::name(*level),
        Lane::MemoryUse => "memory".into(),
        Lane::Failed => "failed".into(),
        Lane::Pin(r) => format!("register {r:#x}"),
        Lane::Divergences => "divergences".into(),
        Lane::Differences => "differences".into(),
        Lane::Notes => "notes".into(),
        Lane::FilterMatches(text) => format!("filter {text}"),
    }
}

/// Describes a lane whose name does not say all: the handle and the engine of a channel.
pub fn describe(doc: &Document, lane: &Lane) -> Option<String> {
    let (Lane::Block(i), Some(data)) = (lane, &doc.derived.driver) else {
        return None;
    };
    let name = doc.derived.pyramid.lanes().get(*i)?;
    let channel = data.channel_names.list().iter().find(|c| c.format() == *name)?;
    Some(channel.describe())
}

/// Returns a lane's name, and which accesses of its block the recording has.
pub fn name(doc: &Document, lane: &Lane) -> (String, &'static str) {
    match lane {
        Lane::References => match doc.xref_target_name() {
            Some(name) => (name, ""),
            None => ("selection".into(), ""),
        },
        Lane::Phases => ("phases".into(), ""),
        Lane::Jobs => ("jobs".into(), ""),
        Lane::Interrupts => ("interrupts".into(), ""),
        Lane::Polls => ("polls".into(), ""),
        Lane::Block(i) => {
            let name = doc.derived.pyramid.lanes().get(*i).cloned().unwrap_or_default();
            let kind = match doc.derived.lane_totals.get(*i) {
                // All events of a channel are ring entries.
                _ if describe(doc, lane).is_some() => "",
                Some((0, _)) => "writes",
                Some((_, 0)) if name != "marks" && name != "other calls" => "reads",
                _ => "",
            };
            (name, kind)
        }
        Lane::Stream(n) => {
            let call_stream = doc.recording.api().and_then(|c| c.streams.get(*n));
            let name = call_stream.map(|s| s.name.clone()).filter(|n| !n.is_empty());
            (name.unwrap_or_else(|| format!("stream {n}")), "")
        }
        Lane::Ranges(level) => (program_ranges::name(*level), ""),
        Lane::MemoryUse => ("memory".into(), "in use"),
        Lane::Failed => ("failed".into(), "calls"),
        Lane::Pin(r) => (doc.derived.register_name(*r), ""),
        Lane::Divergences => ("differs".into(), ""),
        Lane::Differences => ("A ≠ B".into(), ""),
        Lane::Notes => ("notes".into(), ""),
        Lane::FilterMatches(text) => {
            let named = doc.changes().filter(text).map(|s| &s.name).filter(|n| !n.is_empty());
            (named.unwrap_or(text).clone(), "")
        }
    }
}
