//! Faults of a driver trace: which submission, launch and buffer are nearest to what the driver reports.

use crate::GpuVa;
use crate::driver_trace::{DecodedSubmission, DriverFault, DriverWork, GpuWork, Submission, SubmittedLaunch};
use crate::families::Family;
use crate::finding::{Finding, FindingKind};
use crate::recording::Recording;
use std::collections::HashMap;

/// Maximum number of submissions of a channel before a fault that are searched for a launch.
const MAX_SUBMISSIONS: usize = 256;

/// Start of the message about commands that the kernel rejected.
const REJECTED: &str = "the kernel rejected the push buffers of a submission";

/// Explains the faults of a recording.
pub(super) struct FaultExplainer<'a> {
    work: &'a DriverWork,
    submissions: Vec<(&'a Submission, &'a DecodedSubmission)>,
    /// Hardware numbers of channels.
    numbers: HashMap<usize, u32>,
    /// Events of rejections, in order.
    rejections: Vec<u64>,
}

impl<'a> FaultExplainer<'a> {
    pub(super) fn new(recording: &Recording, work: &'a DriverWork, family: &dyn Family) -> Self {
        let rejected = recording.metadata.findings.iter();
        let mut rejections: Vec<u64> = rejected
            .filter(|f| f.kind == FindingKind::DriverError && f.message.starts_with(REJECTED))
            .filter_map(|f| f.event)
            .collect();
        rejections.sort_unstable();
        Self {
            rejections,
            work,
            submissions: work.submissions().collect(),
            numbers: family.channel_numbers(recording, work.trace()),
        }
    }

    /// Returns a finding for each fault that requests or saved memory show.
    pub(super) fn report(&self, faults: Vec<DriverFault>) -> Vec<Finding> {
        let report = |fault: DriverFault| {
            let explanation = self.explain(&fault);
            let message = match explanation.is_empty() {
                true => fault.message,
                false => format!("{}; {explanation}", fault.message),
            };
            let place = format!("event {}", fault.event);
            let finding = Finding::new(FindingKind::DriverError, place, message).at_event(fault.event);
            Finding {
                address: fault.address,
                ..finding
            }
        };
        faults.into_iter().map(report).collect()
    }

    /// Adds what is nearest to a fault to a finding of an importer, whose message names channel and address.
    pub(super) fn extend(&self, finding: &Finding) -> Finding {
        let mut finding = finding.clone();
        if finding.kind != FindingKind::DriverError {
            return finding;
        }
        let address = find_number(&finding.message, &[" at 0x", " access at 0x"]).map(GpuVa::new);
        let number = find_channel(&finding.message);
        let last = self.submissions.last().map_or(0, |(s, _)| s.event);
        let fault = DriverFault {
            event: finding.event.unwrap_or_else(|| last.saturating_add(1)),
            channels: number.map_or_else(Vec::new, |n| self.find_channels(n)),
            address,
            message: String::new(),
        };
        let explanation = match (number.is_none() && address.is_none(), finding.event) {
            (true, Some(event)) if finding.message.starts_with(REJECTED) => self.explain_rejection(event),
            (true, _) => return finding,
            (false, _) => self.explain(&fault),
        };
        if !explanation.is_empty() {
            finding.message = format!("{}; {explanation}", finding.message);
        }
        finding.address = finding.address.or(address);
        finding
    }

    /// Returns the channels with a number of an error message: its number in the hardware, or else its handle.
    fn find_channels(&self, number: u32) -> Vec<usize> {
        let mut found: Vec<usize> = self
            .numbers
            .iter()
            .filter(|(_, n)| **n == number)
            .map(|(c, _)| *c)
            .collect();
        if found.is_empty() {
            let trace = self.work.trace();
            let channels = trace.channels().iter().enumerate();
            let is_it = |object: usize| trace.objects().get(object).is_some_and(|o| o.handle == Some(number));
            found.extend(channels.filter(|(_, c)| is_it(c.object)).map(|(n, _)| n));
        }
        found
    }

    /// Describes the last submission of the channel before a fault, its launch, and the buffer next to the address.
    fn explain(&self, fault: &DriverFault) -> String {
        let mut parts = Vec::new();
        let before = self.submissions.partition_point(|(s, _)| s.event < fault.event);
        let before = self.submissions.get(..before).unwrap_or_default();
        let used = |channel: usize| before.iter().any(|(s, _)| s.channel == channel);
        // A channel without submissions did not cause the fault.
        let channels: Vec<usize> = fault.channels.iter().copied().filter(|c| used(*c)).collect();
        let of_channel = |s: &Submission| channels.contains(&s.channel);
        let last = before.iter().rev().find(|(s, _)| of_channel(s));
        if let Some((submission, decoded)) = last {
            parts.push(format!(
                "the last submission of channel {} before it is {} at event {}",
                self.name_channel(submission.channel),
                submission.index,
                submission.event
            ));
            let own = find_launch(decoded, fault.address);
            let earlier = || {
                let mut own = before.iter().rev().filter(|(s, _)| of_channel(s)).take(MAX_SUBMISSIONS);
                own.find_map(|(s, d)| Some((*s, find_launch(d, fault.address)?)))
            };
            if let Some((from, launch)) = own.map(|l| (*submission, l)).or_else(earlier) {
                let which = match from.index == submission.index {
                    true => "its launch".to_owned(),
                    false => format!("the last launch, of submission {},", from.index),
                };
                parts.push(format!("{which} {}", describe_launch(launch)));
            }
        }
        if let Some(address) = fault.address {
            let trace = self.work.trace();
            let nearest = trace.find_nearest_buffer(address, fault.event);
            // A trace without the addresses of buffers says nothing.
            if nearest.is_some() || trace.placed_buffers().next().is_some() {
                parts.push(trace.describe_nearest(address, nearest));
            }
        }
        parts.join("; ")
    }

    /// Describes the submissions that the kernel rejected: libdrm prints them after the rejection.
    fn explain_rejection(&self, event: u64) -> String {
        let next = self.rejections.iter().copied().find(|e| *e > event).unwrap_or(u64::MAX);
        let mut printed = self
            .submissions
            .iter()
            .filter(|(s, _)| s.event > event && s.event < next);
        let Some((first, _)) = printed.clone().next() else {
            return String::new();
        };
        let last = printed.next_back().map_or(first.index, |(s, _)| s.index);
        let which = match last == first.index {
            true => format!("submission {last}"),
            false => format!("submissions {} to {last}", first.index),
        };
        let mut parts = vec![format!("it is {which} of channel {}", self.name_channel(first.channel))];
        let trace = self.work.trace();
        let submissions = self
            .submissions
            .iter()
            .filter(|(s, _)| (first.index..=last).contains(&s.index));
        let words = submissions.flat_map(|(s, d)| d.address_words.iter().map(|a| (s.event, *a)));
        // Zero switches a unit off.
        let mut outside = words.filter(|(at, a)| a.va != GpuVa::ZERO && trace.find_buffer(a.va, *at).is_none());
        if let Some((at, word)) = outside.next() {
            let place = trace.describe_nearest(word.va, trace.find_nearest_buffer(word.va, at));
            parts.push(format!(
                "{} in it has an address outside the listed buffers: {place}",
                word.name
            ));
        }
        parts.join("; ")
    }

    fn name_channel(&self, channel: usize) -> String {
        let trace = self.work.trace();
        let object = trace.channels().get(channel).map(|c| c.object);
        let name = object.and_then(|o| Some(trace.objects().get(o)?.name(o)));
        name.unwrap_or_default()
    }
}

/// Returns the launch of a submission whose parameters are nearest to an address; without an address or a near parameter
/// the last launch.
fn find_launch(decoded: &DecodedSubmission, address: Option<GpuVa>) -> Option<&SubmittedLaunch> {
    let launches = decoded.work.iter().rev().filter_map(|w| match w {
        GpuWork::Launch(launch) => Some(&**launch),
        _ => None,
    });
    let distance = |launch: &SubmittedLaunch| {
        let pointers = launch.parameters.iter().filter(|p| p.buffer.is_some());
        let nearest = address.and_then(|a| pointers.map(|p| p.value.abs_diff(a.get())).min());
        nearest.unwrap_or(u64::MAX)
    };
    // Of equal distances, the last launch counts.
    launches.min_by_key(|l| distance(l))
}

/// Describes a launch: `has grid 4x1x1, block 256x1x1 and its program at 0x7f2bd37ac200`.
fn describe_launch(launch: &SubmittedLaunch) -> String {
    let three = |d: [u32; 3]| format!("{}x{}x{}", d[0], d[1], d[2]);
    format!(
        "has grid {}, block {} and its program at {}",
        three(launch.grid),
        three(launch.block),
        launch.program
    )
}

/// Returns the hexadecimal number after the first of some texts that a message has.
fn find_number(message: &str, before: &[&str]) -> Option<u64> {
    let rest = before.iter().find_map(|text| message.split_once(text))?.1;
    let end = rest.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(rest.len());
    u64::from_str_radix(rest.get(..end)?, 16).ok()
}

/// Returns the number of the channel that a message names: `channel 0x8`, `channel 5`, or `ch 5`.
fn find_channel(message: &str) -> Option<u32> {
    for text in ["channel ", " ch "] {
        for (at, _) in message.match_indices(text) {
            let word = message.get(at + text.len()..)?;
            let end = word.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(word.len());
            let word = word.get(..end)?;
            let number = match word.strip_prefix("0x") {
                Some(hex) => u32::from_str_radix(hex, 16).ok(),
                None => word.parse().ok(),
            };
            if number.is_some() {
                return number;
            }
        }
    }
    None
}
