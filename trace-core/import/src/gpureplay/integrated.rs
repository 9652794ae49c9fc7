//! `*_integrated`: the authors' readable timeline, with absolute times and thread ids that the history lacks.
//!
//! Its accesses are those of the history, but where two threads ran at once the order may differ. The order of the
//! history stays; times and threads are matched to it, each thread's accesses in their own order.

use super::align::{TimelineAccess, align, find_missing_lines};
use super::tally::FileTally;
use crate::error::ImportError;
use std::collections::BTreeMap;
use std::io::{BufRead as _, Read as _};
use std::path::{Path, PathBuf};
use trace_core::finding::{Finding, FindingKind};
use trace_core::progress::{Cancelled, Progress};
use trace_core::recording::{Events, LostEvents};

/// Maximum size of a line with its line end, bytes: far more than the authors' script writes.
const LINE_MAX: u64 = 1 << 16;
/// Maximum number of other timelines, and of other streams, that are named.
const MAX_OTHERS: usize = 16;

/// Number of bytes between two progress reports.
const STEP: u64 = 1 << 20;

/// The contents of the file.
pub(super) struct Timeline {
    name: String,
    bytes: u64,
    used: u64,
    accesses: Vec<TimelineAccess>,
    /// Number of lines of the other streams.
    others: BTreeMap<String, u64>,
    /// Number of lines of unknown form, and the first of them.
    odd: (u64, u64),
}

impl Timeline {
    pub(super) fn tally(&self) -> FileTally {
        FileTally {
            name: self.name.clone(),
            bytes: self.bytes,
            used: self.used,
        }
    }
}

/// Whether a file has the name of a timeline.
pub(super) fn is_timeline(path: &Path) -> bool {
    let named = |n: &std::ffi::OsStr| n.to_string_lossy().ends_with("_integrated");
    path.file_name().is_some_and(named) && path.is_file()
}

/// Finds the timeline of the folder: the only `*_integrated` in it, or the one with the folder's name. Reports skipped
/// ones.
pub(super) fn find(folder: &Path, findings: &mut Vec<Finding>) -> Result<Option<PathBuf>, ImportError> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(|e| ImportError::io(folder, e))? {
        let path = entry.map_err(|e| ImportError::io(folder, e))?.path();
        if is_timeline(&path) {
            found.push(path);
        }
    }
    if found.len() > 1 {
        let own = folder
            .file_name()
            .map(|n| format!("{}_integrated", n.to_string_lossy()));
        found.sort();
        let is_own = |p: &PathBuf| p.file_name().map(|n| n.to_string_lossy().into_owned()) == own;
        for other in found.iter().filter(|p| !is_own(p)).take(MAX_OTHERS) {
            let name = other.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let message = "the folder has several timelines; this one does not have the name of the folder and was not \
                           used";
            findings.push(Finding::new(FindingKind::NotUsed, name, message));
        }
        found.retain(is_own);
    }
    Ok(found.pop())
}

/// Returns the accesses of a timeline file in file order.
///
/// # Errors
///
/// When the file cannot be read, or the work was cancelled.
pub fn accesses(path: &Path, progress: &Progress) -> Result<Vec<TimelineAccess>, ImportError> {
    read(path, progress).map(|t| t.accesses)
}

pub(super) fn read(path: &Path, progress: &Progress) -> Result<Timeline, ImportError> {
    let file = std::fs::File::open(path).map_err(|e| ImportError::io(path, e))?;
    let bytes = file.metadata().map_err(|e| ImportError::io(path, e))?.len();
    let mut from = std::io::BufReader::with_capacity(1 << 16, file).take(bytes);
    let mut t = Timeline {
        name: path
            .file_name()
            .map(|n| n.to_string_lossy().into_owned())
            .unwrap_or_default(),
        bytes,
        used: 0,
        accesses: Vec::new(),
        others: BTreeMap::new(),
        odd: (0, 0),
    };
    let mut line = Vec::new();
    let mut reported = 0;
    for number in 0u64.. {
        line.clear();
        // A line without an end is cut into pieces, none of which has a known form.
        let read = (&mut from).take(LINE_MAX).read_until(b'\n', &mut line);
        if read.map_err(|e| ImportError::io(path, e))? == 0 {
            break;
        }
        reported += line.len() as u64;
        if number % 4096 == 0 || reported >= STEP {
            progress.advance(reported)?;
            reported = 0;
        }
        match std::str::from_utf8(&line).ok().and_then(parse_line) {
            Some(Parsed::Access(a)) => t.accesses.push(a),
            Some(Parsed::Other(stream)) => {
                let known = t.others.contains_key(stream) || t.others.len() < MAX_OTHERS;
                let name = if known { stream } else { "others" };
                *t.others.entry(name.to_owned()).or_default() += 1;
            }
            None => {
                if t.odd.0 == 0 {
                    t.odd.1 = number + 1;
                }
                t.odd.0 += 1;
                continue;
            }
        }
        t.used += line.len() as u64;
    }
    progress.advance(reported)?;
    Ok(t)
}

enum Parsed<'a> {
    Access(TimelineAccess),
    Other(&'a str),
}

fn parse_line(line: &str) -> Option<Parsed<'_>> {
    let (time, rest) = word(line)?;
    let (stream, rest) = word(rest)?;
    let (thread, rest) = word(rest)?;
    let (time, thread) = (time.parse().ok()?, thread.parse().ok()?);
    if stream != "IO" {
        return Some(Parsed::Other(stream));
    }
    let (index, rest) = word(rest)?;
    index.strip_suffix(':')?.parse::<u64>().ok()?;
    let (way, rest) = word(rest)?;
    let rest = word(rest).filter(|w| w.0 == "reg")?.1;
    let (offset, rest) = word(rest)?;
    let rest = word(rest).filter(|w| w.0 == "val")?.1;
    let (value, text) = word(rest)?;
    let hex = |s: &str| u32::from_str_radix(s.strip_prefix("0x").unwrap_or(s), 16).ok();
    let write = match way {
        "R" => false,
        "W" => true,
        _ => return None,
    };
    let text = text.trim().to_owned();
    Some(Parsed::Access(TimelineAccess {
        time,
        thread,
        write,
        offset: hex(offset)?,
        value: hex(value)?,
        text,
    }))
}

/// Splits a text after its first word.
fn word(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start();
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    if end == 0 { None } else { text.split_at_checked(end) }
}

/// Sets the times and threads of the events from the timeline; reports differences and what the history lost. Returns
/// whether they were set.
pub(super) fn apply(
    timeline: &Timeline,
    events: &mut Events,
    lost: &mut Vec<LostEvents>,
    findings: &mut Vec<Finding>,
    progress: &Progress,
) -> Result<bool, Cancelled> {
    let name = &timeline.name;
    if !timeline.others.is_empty() {
        let list: Vec<String> = timeline.others.iter().map(|(s, n)| format!("{n} of {s}")).collect();
        let message = format!(
            "lines of streams other than register accesses were not used: {}",
            list.join(", ")
        );
        findings.push(Finding::new(FindingKind::NotUsed, name.clone(), message));
    }
    if timeline.odd.0 > 0 {
        let message = format!("{} lines, this one first, have an unknown format", timeline.odd.0);
        findings.push(Finding::new(
            FindingKind::NotUsed,
            format!("{name}, line {}", timeline.odd.1),
            message,
        ));
    }
    if events.is_empty() {
        let message = format!(
            "the history has no access that could get a time from its {} accesses; it was not used",
            timeline.accesses.len()
        );
        findings.push(Finding::new(FindingKind::NotUsed, name.clone(), message));
        return Ok(false);
    }
    let matched = align(events, &timeline.accesses, progress)?;
    let pairs: Vec<(usize, usize)> = matched
        .iter()
        .enumerate()
        .filter_map(|(e, m)| Some((e, (*m)?)))
        .collect();
    if pairs.len() * 2 < events.len() || pairs.is_empty() {
        let message = format!(
            "only {} of {} accesses of the history are in it, so it belongs to another recording; it was not used",
            pairs.len(),
            events.len()
        );
        findings.push(Finding::new(FindingKind::NotUsed, name.clone(), message));
        return Ok(false);
    }
    report_order(name, &pairs, findings);
    let (no_time, no_event) = (events.len() - pairs.len(), timeline.accesses.len() - pairs.len());
    if no_time + no_event > 0 {
        let first = matched.iter().position(Option::is_none);
        let mut f = Finding::new(
            FindingKind::OrderDiffers,
            name.clone(),
            format!(
                "{no_time} accesses of the history are not in the timeline, and {no_event} of the timeline are not in \
                 the history; those of the history keep their times relative to the previous access"
            ),
        );
        f.event = first.map(|e| e as u64);
        findings.push(f);
    }
    if no_event > 0
        && let Some(l) = find_missing_lines(events, &timeline.accesses, &matched)
    {
        let finding = Finding::new(FindingKind::LostEvents, name.clone(), l.reason.clone());
        findings.push(finding.at_event(l.before_event));
        lost.push(l);
    }
    let relative: Vec<u64> = events.time.iter().collect();
    // Offset between the machine's clock and the history's, from the nearest earlier match, or else the first one.
    let ahead = |e: usize, j: usize| Some(timeline.accesses.get(j)?.time.wrapping_sub(*relative.get(e)?));
    let mut offset = pairs.first().and_then(|(e, j)| ahead(*e, *j)).unwrap_or(0);
    let mut thread = 0;
    let (mut times, mut threads) = (Vec::with_capacity(relative.len()), Vec::with_capacity(relative.len()));
    for (e, t) in relative.iter().enumerate() {
        if let Some(j) = matched.get(e).copied().flatten() {
            offset = ahead(e, j).unwrap_or(offset);
            thread = timeline.accesses.get(j).map_or(0, |a| a.thread);
        }
        times.push(t.wrapping_add(offset));
        threads.push(if matched.get(e).copied().flatten().is_some() {
            thread
        } else {
            0
        });
    }
    events.time = times.into();
    events.thread = threads.into();
    Ok(true)
}

/// Reports how many lines have another position than in the history, and how many of them are swapped neighbours.
fn report_order(name: &str, pairs: &[(usize, usize)], findings: &mut Vec<Finding>) {
    let mut sorted: Vec<usize> = pairs.iter().map(|p| p.1).collect();
    sorted.sort_unstable();
    let moved: Vec<usize> = pairs
        .iter()
        .zip(&sorted)
        .filter(|(p, s)| p.1 != **s)
        .map(|(p, _)| p.0)
        .collect();
    let Some(first) = moved.first() else { return };
    let swapped = pairs
        .windows(2)
        .zip(sorted.windows(2))
        .filter(|(p, s)| matches!((p, s), ([a, b], [x, y]) if a.1 == *y && b.1 == *x && a.1 != b.1))
        .count();
    let rest = moved.len() - 2 * swapped;
    let longer = if rest > 0 {
        format!(", and {rest} lines in longer interleavings")
    } else {
        String::new()
    };
    let message = format!(
        "{} lines are in another position than in the history: {swapped} pairs of neighbours are swapped{longer}; the \
         history's order was kept",
        moved.len()
    );
    findings.push(Finding::new(FindingKind::OrderDiffers, name, message).at_event(*first as u64));
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace_core::RegOffset;
    use trace_core::recording::{Access, EventsBuilder};

    fn events(accesses: &[(u32, u64)]) -> Events {
        let mut b = EventsBuilder::new();
        for (i, (offset, value)) in accesses.iter().enumerate() {
            let access = Access {
                space: 0,
                write: false,
                offset: RegOffset::new(*offset),
                width: 4,
                value: *value,
            };
            b.access(i as u64 * 10, 0, access);
        }
        b.finish()
    }

    fn timeline(lines: &[(u64, u32, u32, u32)]) -> Timeline {
        let accesses = lines
            .iter()
            .map(|(time, thread, offset, value)| TimelineAccess {
                time: *time,
                thread: *thread,
                write: false,
                offset: *offset,
                value: *value,
                text: String::new(),
            })
            .collect();
        Timeline {
            name: "t".into(),
            bytes: 0,
            used: 0,
            accesses,
            others: BTreeMap::new(),
            odd: (0, 0),
        }
    }

    #[test]
    fn integrated_timeline_line_is_parsed_completely() {
        let line = "947878218605\t   IO\t  7828\t   0: W reg 0x000018e0 val 60a00002    JS | JS1 | X (RO) \t\n";
        let Some(Parsed::Access(a)) = parse_line(line) else {
            panic!("not read")
        };
        assert_eq!(
            (a.time, a.thread, a.write, a.offset, a.value),
            (947_878_218_605, 7828, true, 0x18e0, 0x60a0_0002)
        );
        assert_eq!(a.text, "JS | JS1 | X (RO)");
        assert!(matches!(parse_line("1 RBUF 2 CORE, 3"), Some(Parsed::Other("RBUF"))));
        assert!(parse_line("1 IO 2 x: R reg 0 val 0").is_none());
        assert!(parse_line("").is_none());
    }

    #[test]
    fn swapped_neighbours_keep_the_historys_order() {
        let mut e = events(&[(0, 1), (0x38, 15), (0x2428, 0), (4, 2)]);
        let t = timeline(&[(100, 7, 0, 1), (110, 8, 0x2428, 0), (110, 7, 0x38, 15), (130, 7, 4, 2)]);
        let mut f = Vec::new();
        assert!(apply(&t, &mut e, &mut Vec::new(), &mut f, &Progress::new()).unwrap());
        assert_eq!(e.time.iter().collect::<Vec<_>>(), [100, 110, 110, 130]);
        assert_eq!(e.thread.iter().collect::<Vec<_>>(), [7, 7, 8, 7]);
        assert_eq!(f.len(), 1);
        assert_eq!((f[0].kind, f[0].event), (FindingKind::OrderDiffers, Some(1)));
        assert!(
            f[0].message
                .starts_with("2 lines are in another position than in the history: 1 pairs"),
            "{}",
            f[0].message
        );
    }

    #[test]
    fn longer_interleavings_keep_each_threads_order() {
        // Thread 1 polls the same register with the same value; thread 2's accesses are between them in the history.
        let mut e = events(&[(8, 1), (8, 1), (8, 1), (0x10, 5), (0x14, 6), (8, 0)]);
        let t = timeline(&[
            (1, 2, 0x10, 5),
            (2, 1, 8, 1),
            (3, 2, 0x14, 6),
            (4, 1, 8, 1),
            (5, 1, 8, 1),
            (6, 1, 8, 0),
        ]);
        let mut f = Vec::new();
        assert!(apply(&t, &mut e, &mut Vec::new(), &mut f, &Progress::new()).unwrap());
        assert_eq!(e.time.iter().collect::<Vec<_>>(), [2, 4, 5, 1, 3, 6]);
        assert_eq!(e.thread.iter().collect::<Vec<_>>(), [1, 1, 1, 2, 2, 1]);
        assert!(f[0].message.contains("longer interleavings"), "{}", f[0].message);
    }

    #[test]
    fn one_sided_timeline_lines_are_reported() {
        let all: Vec<(u32, u64)> = (0..300).map(|i| (i * 4, u64::from(i))).collect();
        let mut e = events(&all);
        // The timeline lacks event 100 and has ten lines of its own.
        let mut lines: Vec<_> = all
            .iter()
            .enumerate()
            .map(|(i, (o, v))| (1000 + i as u64 * 10, 1, *o, *v as u32))
            .collect();
        lines.remove(100);
        for i in 0..10 {
            lines.insert(150, (2500, 1, 0x3000, i));
        }
        let t = timeline(&lines);
        let mut f = Vec::new();
        let mut lost = Vec::new();
        assert!(apply(&t, &mut e, &mut lost, &mut f, &Progress::new()).unwrap());
        assert!(e.time.iter().eq((0..300).map(|i| 1000 + i * 10)));
        assert_eq!(f.len(), 2, "{f:?}");
        assert!(
            f[0].message
                .starts_with("1 accesses of the history are not in the timeline, and 10")
        );
        assert_eq!(f[0].event, Some(100));
        // The ten lines are lost events before the event that follows them in the timeline.
        assert_eq!((f[1].kind, f[1].event), (FindingKind::LostEvents, Some(151)));
        assert!(f[1].message.starts_with("10 register accesses"), "{f:?}");
        assert_eq!((lost.len(), lost[0].before_event, lost[0].count), (1, 151, Some(10)));
    }

    #[test]
    fn lost_accesses_are_counted_and_reordered_ones_are_not() {
        let all: Vec<(u32, u64)> = (0..500u64).map(|i| ((i % 40) as u32 * 4, i % 7)).collect();
        let lines: Vec<_> = all
            .iter()
            .enumerate()
            .map(|(i, (o, v))| (1000 + i as u64 * 10, 1, *o, *v as u32))
            .collect();
        let describe = |history: &[(u32, u64)]| {
            let (mut f, mut lost) = (Vec::new(), Vec::new());
            assert!(
                apply(
                    &timeline(&lines),
                    &mut events(history),
                    &mut lost,
                    &mut f,
                    &Progress::new()
                )
                .unwrap()
            );
            let warnings = f.iter().filter(|f| f.kind == FindingKind::LostEvents).count();
            assert_eq!(warnings, lost.len());
            lost.iter().map(|l| l.count).collect::<Vec<_>>()
        };
        assert_eq!(describe(&all), []);
        let mut swapped = all.clone();
        swapped.swap(20, 21);
        swapped[300..320].reverse();
        assert_eq!(describe(&swapped), []);
        let mut short = all.clone();
        short.drain(200..301);
        assert_eq!(describe(&short), [Some(101)]);
    }

    /// Many accesses are equal. The remaining accesses keep their times, even if many accesses are missing.
    #[test]
    fn accesses_after_a_loss_keep_their_times() {
        let all: Vec<(u32, u64)> = (0..2000u64)
            .map(|i| ((i % 5) as u32 * 4, u64::from(i % 97 == 0) * i))
            .collect();
        let lines: Vec<_> = all
            .iter()
            .enumerate()
            .map(|(i, (o, v))| (1000 + i as u64 * 10, 1, *o, *v as u32))
            .collect();
        let none = 0..0;
        for gaps in [
            [0..500, none.clone()],
            [700..730, none.clone()],
            [300..1500, none.clone()],
            [1900..2000, none.clone()],
            [100..190, 900..1200],
        ] {
            let remaining: Vec<usize> = (0..2000).filter(|i| !gaps.iter().any(|g| g.contains(i))).collect();
            let history: Vec<_> = remaining.iter().map(|i| all[*i]).collect();
            let (mut e, mut f, mut lost) = (events(&history), Vec::new(), Vec::new());
            assert!(apply(&timeline(&lines), &mut e, &mut lost, &mut f, &Progress::new()).unwrap());
            // An access at the border may match its equal on the other side of the gap.
            let matching = remaining
                .iter()
                .zip(e.time.iter())
                .filter(|(i, t)| 1000 + **i as u64 * 10 == *t)
                .count();
            assert!(
                matching + 100 >= remaining.len(),
                "{gaps:?}: {matching} of {}",
                remaining.len()
            );
            assert_eq!(lost.len(), 1, "{gaps:?}");
            assert_eq!(lost[0].count, Some(2000 - remaining.len() as u64), "{gaps:?}");
            let first = remaining
                .iter()
                .position(|i| *i >= gaps[0].end)
                .unwrap_or(remaining.len()) as u64;
            assert!(lost[0].before_event.abs_diff(first) <= 97, "{gaps:?}: {lost:?}");
        }
    }

    #[test]
    fn timeline_of_another_recording_is_ignored() {
        let mut e = events(&[(0, 1), (4, 2)]);
        let mut f = Vec::new();
        assert!(
            !apply(
                &timeline(&[(1, 1, 8, 8)]),
                &mut e,
                &mut Vec::new(),
                &mut f,
                &Progress::new()
            )
            .unwrap()
        );
        assert_eq!(f[0].kind, FindingKind::NotUsed);
        assert_eq!(e.time.get(1), Some(10));
    }
}
