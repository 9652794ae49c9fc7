//! `stats --register`: what the accesses of one register tell of what it is.

use super::out::{counted, duration};
use super::source::Opened;
use super::{Exit, Failure, Out, hex, waiting};
use serde::Serialize;
use trace_core::registers::{Follower, Guess, guess, register_space};

#[derive(Serialize)]
struct Row {
    name: Option<String>,
    space: String,
    offset: String,
    width: u8,
    reads: u64,
    writes: u64,
    partial: u64,
    looks_like: Vec<String>,
    different_values: u64,
    beyond: u64,
    values: Vec<ValueRow>,
    bits_changed: String,
    bits_always_1: String,
    bits_always_0: String,
    read_back: u64,
    read_other: u64,
    cleared: u64,
    kept: u64,
    rises: u64,
    falls: u64,
    polls: u64,
    polled_reads: u64,
    awaited_bits: String,
    pollers: Vec<Poller>,
    followers: Vec<FollowerRow>,
}

#[derive(Serialize)]
struct ValueRow {
    value: String,
    count: u64,
    means: Option<String>,
}

#[derive(Serialize)]
struct Poller {
    thread: u32,
    reads: u64,
}

#[derive(Serialize)]
struct FollowerRow {
    name: Option<String>,
    offset: String,
    write: bool,
    count: u64,
    median_accesses: u32,
    median_ns: i64,
}

/// The offset that a text names: a register of the map, or a number.
fn offset_of(opened: &Opened, text: &str) -> Result<u32, Failure> {
    let map = opened.device.map(|d| d.map());
    let named = map.and_then(|m| {
        let found = m.registers().find(|r| r.name.eq_ignore_ascii_case(text));
        // A pair is meant by its low half.
        let low = || {
            m.registers()
                .find(|r| r.name.eq_ignore_ascii_case(&format!("{text}_LO")))
        };
        Some(found.or_else(low)?.offset)
    });
    let number = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    named.or(number).ok_or_else(|| {
        Failure::usage(format!(
            "--register {text}: no register of this recording has this name; give its name, or its offset as 0x24"
        ))
    })
}

/// Prints what is known of a register by its accesses.
pub fn run(opened: &Opened, register: &str, out: &mut Out) -> Result<Exit, Failure> {
    let offset = offset_of(opened, register)?;
    let recording = &opened.recording;
    let map = opened.device.map(|d| d.map());
    let space = register_space(recording, opened.map.or(map));
    let known = map.and_then(|m| m.at(offset));
    let width = known.map(|r| r.width).unwrap_or_else(|| {
        let all = recording.events.accesses(0..recording.events.len());
        let mut here = all.filter(|(_, a)| a.space == space && a.offset == offset);
        here.next().map_or(4, |(_, a)| a.width)
    });
    let g = waiting::show("looking at accesses", |progress, _| {
        guess(recording, space, offset, width, progress).map_err(|e| Failure::file(&opened.file, e))
    })?;
    let name = |offset: u32| map.and_then(|m| m.at(offset)).map(|r| r.name.clone());
    let hints: Vec<String> = g.hints().iter().map(ToString::to_string).collect();
    if out.json() {
        let follower = |f: &Follower| FollowerRow {
            name: name(f.offset),
            offset: hex(u64::from(f.offset)),
            write: f.write,
            count: f.count,
            median_accesses: f.accesses,
            median_ns: f.ns,
        };
        let value = |(value, count): &(u64, u64)| ValueRow {
            value: hex(*value),
            count: *count,
            means: map.and_then(|m| m.describe(offset, width, *value)),
        };
        let spaces = recording.facts.spaces.get(usize::from(space));
        out.value(&Row {
            name: name(offset),
            space: spaces.map(|s| s.name.clone()).unwrap_or_default(),
            offset: hex(u64::from(offset)),
            width,
            reads: g.reads,
            writes: g.writes,
            partial: g.partial,
            looks_like: hints,
            different_values: g.different,
            beyond: g.beyond,
            values: g.values.iter().map(value).collect(),
            bits_changed: hex(g.changing),
            bits_always_1: hex(g.ones),
            bits_always_0: hex(g.zeros),
            read_back: g.read_back,
            read_other: g.read_other,
            cleared: g.cleared,
            kept: g.kept,
            rises: g.rises,
            falls: g.falls,
            polls: g.polls,
            polled_reads: g.polled,
            awaited_bits: hex(g.awaited),
            pollers: g
                .pollers
                .iter()
                .map(|(thread, reads)| Poller {
                    thread: *thread,
                    reads: *reads,
                })
                .collect(),
            followers: g.followers.iter().map(follower).collect(),
        })?;
        return Ok(Exit::Good);
    }
    let called = name(offset).unwrap_or_else(|| "no name".to_owned());
    out.line(format_args!(
        "{called}, offset {offset:#x}, {} bits: {}, {}",
        u32::from(width) * 8,
        counted(g.reads, "read"),
        counted(g.writes, "write"),
    ))?;
    if g.reads + g.writes == 0 {
        return Ok(Exit::Good);
    }
    for hint in &hints {
        out.line(format_args!("looks like {hint}"))?;
    }
    text(&g, out)?;
    let mut table = vec![["Value", "Count", "Means"].map(str::to_owned).to_vec()];
    for (value, n) in &g.values {
        let means = map.and_then(|m| m.describe(offset, width, *value)).unwrap_or_default();
        table.push(vec![hex(*value), n.to_string(), means]);
    }
    out.table(&table)?;
    let told = g.values.len() as u64;
    if g.different > told || g.beyond > 0 {
        let at_least = if g.beyond > 0 { "at least " } else { "" };
        out.line(format_args!("and {at_least}{} more values", g.different - told))?;
    }
    if g.followers.is_empty() {
        return Ok(Exit::Good);
    }
    let head = ["After a write", "Count", "Accesses on", "Time"];
    let mut table = vec![head.map(str::to_owned).to_vec()];
    for f in &g.followers {
        let what = name(f.offset).unwrap_or_else(|| hex(u64::from(f.offset)));
        let sign = if f.ns < 0 { "-" } else { "" };
        table.push(vec![
            format!("{} {what}", if f.write { "write" } else { "read" }),
            f.count.to_string(),
            f.accesses.to_string(),
            format!("{sign}{}", duration(f.ns.unsigned_abs())),
        ]);
    }
    out.table(&table)?;
    Ok(Exit::Good)
}

fn text(g: &Guess, out: &mut Out) -> Result<(), Failure> {
    out.line(format_args!(
        "bits that changed {:#x}, always 1 {:#x}, always 0 {:#x}",
        g.changing, g.ones, g.zeros
    ))?;
    if g.read_back + g.read_other > 0 {
        let all = g.read_back + g.read_other;
        out.line(format_args!(
            "{} of {} after a write give what was written",
            g.read_back,
            counted(all, "read")
        ))?;
    }
    if g.polls > 0 {
        let who: Vec<String> = g.pollers.iter().map(|(t, n)| format!("thread {t} ({n})")).collect();
        out.line(format_args!(
            "{} with {}, by {}",
            counted(g.polls, "poll"),
            counted(g.polled, "read"),
            who.join(", ")
        ))?;
    }
    Ok(())
}
