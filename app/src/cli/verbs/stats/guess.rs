//! `stats --register`: infers the purpose of a register from its accesses.

use crate::cli::failure::complain;
use crate::cli::out::{format_count, format_interval};
use crate::cli::source::SourceRecording;
use crate::cli::{Exit, Failure, Out, empty_result, format_hex, progress_line};
use serde::Serialize;
use trace_core::RegOffset;
use trace_core::registers::{Follower, Guess, Poller, RegisterMap, format_location, guess, register_space};

/// A register with the names of the map. The engine knows offsets alone.
#[derive(Serialize)]
struct Row {
    /// The register.
    name: Option<String>,
    space: String,
    offset: String,
    /// Its width in bytes.
    width: u8,
    /// Number of reads, of writes, and of accesses to a part of the register.
    reads: u64,
    writes: u64,
    partial: u64,
    /// Guesses, in sentences.
    looks_like: Vec<String>,
    /// Number of different values.
    different_values: u64,
    /// Number of accesses whose values were no longer distinguished.
    beyond: u64,
    /// The 64 most frequent values.
    values: Vec<ValueRow>,
    /// Bits by behaviour.
    bits_changed: String,
    bits_always_1: String,
    bits_always_0: String,
    /// Reads after a write that returned the written value, or another one.
    read_back: u64,
    read_other: u64,
    /// Writes of ones to bits that were 1, by effect.
    cleared: u64,
    kept: u64,
    /// Reads compared with the read before.
    rises: u64,
    falls: u64,
    /// Polls, and their reads.
    polls: u64,
    polled_reads: u64,
    /// Bits that the polls wait for.
    awaited_bits: String,
    /// Threads that poll.
    pollers: Vec<Poller>,
    /// Accesses that often follow a write of the register.
    followers: Vec<FollowerRow>,
}

/// A value of the register, with its meaning.
#[derive(Serialize)]
struct ValueRow {
    /// The value.
    value: String,
    /// Number of accesses with it.
    count: u64,
    /// The value in words.
    means: Option<String>,
}

/// An access that follows a write of the register, with the name of its register.
#[derive(Serialize)]
struct FollowerRow {
    /// The register that is accessed next.
    name: Option<String>,
    offset: String,
    /// Whether the access is a write.
    write: bool,
    /// How often it follows.
    count: u64,
    /// How much later it comes, in accesses and in time.
    median_accesses: u32,
    median_ns: Option<i64>,
    /// Ticks in place of the time, if the clock counts them.
    #[serde(skip_serializing_if = "Option::is_none")]
    median_ticks: Option<i64>,
}

/// The location of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RegisterAt {
    space: u8,
    offset: u32,
}

/// Parses an offset: `0x24`, or decimal.
fn offset(text: &str) -> Option<u32> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Finds the registers that a text names: a register of the map, `SPACE+OFFSET`, or an offset in every space with an
/// access there. The register space comes first, and is the result if no space has an access.
fn find_registers(opened: &SourceRecording, text: &str) -> Result<Vec<RegisterAt>, Failure> {
    let spaces = &opened.recording.metadata.spaces;
    let map = opened.device.map(|d| d.map());
    let own = register_space(&opened.recording, opened.map.or(map));
    let named = map.and_then(|m| {
        let found = m.find_register(|r| r.name.eq_ignore_ascii_case(text));
        // The name of a pair refers to its low half.
        let low = || {
            let low = format!("{text}_LO");
            m.find_register(|r| r.name.eq_ignore_ascii_case(&low))
        };
        Some(found.or_else(low)?.offset)
    });
    if let Some(offset) = named {
        return Ok(vec![RegisterAt {
            space: own,
            offset: offset.get(),
        }]);
    }
    if let Some((space, of)) = text.rsplit_once('+').and_then(|(s, o)| Some((s, offset(o)?))) {
        let found = spaces.iter().position(|s| s.name.eq_ignore_ascii_case(space));
        let number = found.and_then(|n| u8::try_from(n).ok());
        let names: Vec<&str> = spaces.iter().map(|s| s.name.as_str()).collect();
        return match number {
            Some(space) => Ok(vec![RegisterAt { space, offset: of }]),
            None => Err(Failure::usage(format!(
                "--register {text}: no space is called '{space}' (the recording has {})",
                names.join(", ")
            ))),
        };
    }
    let Some(offset) = offset(text) else {
        return Err(Failure::usage(format!(
            "--register {text}: no register of this recording has this name; give its name, its offset as 0x24, or \
             SPACE+OFFSET as {}+0x24",
            spaces.first().map_or("bar0", |s| s.name.as_str())
        )));
    };
    let events = &opened.recording.events;
    let mut accessed: Vec<u8> = Vec::new();
    for (_, a) in events.accesses(0..events.len()) {
        // An access to any byte of a register counts.
        let touches = a.offset <= RegOffset::new(offset) && offset - a.offset.get() < u32::from(a.width.max(1));
        if touches && !accessed.contains(&a.space) {
            accessed.push(a.space);
        }
    }
    accessed.sort_by_key(|s| (*s != own, *s));
    if accessed.is_empty() {
        accessed.push(own);
    }
    Ok(accessed.into_iter().map(|space| RegisterAt { space, offset }).collect())
}

/// Prints the properties of a register that follow from its accesses.
pub fn run(opened: &SourceRecording, register: &str, out: &mut Out) -> Result<Exit, Failure> {
    let places = find_registers(opened, register)?;
    let Some((at, others)) = places.split_first() else {
        return Err(Failure::usage(format!(
            "--register {register}: this recording has no such register"
        )));
    };
    warn_about_others(opened, *at, others);
    let register = GuessedRegister::new(opened, *at)?;
    if out.is_json() {
        out.value(&register.row())?;
    } else {
        register.text(out)?;
    }
    Ok(Exit::Good)
}

/// Warns on standard error about registers of the same offset in other spaces.
fn warn_about_others(opened: &SourceRecording, at: RegisterAt, others: &[RegisterAt]) {
    let format = |p: &RegisterAt| format_location(&opened.recording, p.space, RegOffset::new(p.offset));
    let others: Vec<String> = others.iter().map(format).collect();
    if let Some(first) = others.first() {
        complain(format_args!(
            "this is {}; {} {} accessed, too: --register {first}",
            format(&at),
            others.join(", "),
            if others.len() == 1 { "is" } else { "are" },
        ));
    }
}

/// A register with what its accesses show.
struct GuessedRegister<'a> {
    opened: &'a SourceRecording,
    /// The map, if it names registers of this space.
    map: Option<&'a RegisterMap>,
    at: RegisterAt,
    /// Width in bytes.
    width: u8,
    guess: Guess,
}

impl<'a> GuessedRegister<'a> {
    fn new(opened: &'a SourceRecording, at: RegisterAt) -> Result<Self, Failure> {
        let recording = &opened.recording;
        let RegisterAt { space, offset } = at;
        // The map names only registers of its own space.
        let map = opened.device.filter(|d| d.space() == space).map(|d| d.map());
        let width = map
            .and_then(|m| m.at(RegOffset::new(offset)))
            .map(|r| r.width)
            .unwrap_or_else(|| {
                let all = recording.events.accesses(0..recording.events.len());
                let mut here = all.filter(|(_, a)| a.space == space && a.offset == RegOffset::new(offset));
                here.next().map_or(4, |(_, a)| a.width)
            });
        let guess = progress_line::run_with_progress("analysing accesses", |progress, _| {
            guess(recording, space, RegOffset::new(offset), width, progress).map_err(|e| Failure::file(&opened.file, e))
        })?;
        Ok(Self {
            opened,
            map,
            at,
            width,
            guess,
        })
    }

    /// Returns the name of the register at an offset of the same space.
    fn name(&self, offset: u32) -> Option<String> {
        self.map
            .and_then(|m| m.at(RegOffset::new(offset)))
            .map(|r| r.name.clone())
    }

    fn location(&self, offset: u32) -> String {
        format_location(&self.opened.recording, self.at.space, RegOffset::new(offset))
    }

    fn describe_value(&self, value: u64) -> Option<String> {
        self.map
            .and_then(|m| m.describe(RegOffset::new(self.at.offset), self.width, value))
    }

    /// Returns the JSON report.
    fn row(&self) -> Row {
        let g = &self.guess;
        let ticks = self.opened.recording.counts_ticks();
        let follower = |f: &Follower| FollowerRow {
            name: self.name(f.offset.get()),
            offset: format_hex(u64::from(f.offset.get())),
            write: f.write,
            count: f.count,
            median_accesses: f.accesses,
            median_ns: Some(f.ns).filter(|_| !ticks),
            median_ticks: Some(f.ns).filter(|_| ticks),
        };
        let value = |(value, count): &(u64, u64)| ValueRow {
            value: format_hex(*value),
            count: *count,
            means: self.describe_value(*value),
        };
        let spaces = &self.opened.recording.metadata.spaces;
        let space = spaces.get(usize::from(self.at.space));
        Row {
            name: self.name(self.at.offset),
            space: space.map(|s| s.name.clone()).unwrap_or_default(),
            offset: format_hex(u64::from(self.at.offset)),
            width: self.width,
            reads: g.reads,
            writes: g.writes,
            partial: g.partial,
            looks_like: g.hints().iter().map(ToString::to_string).collect(),
            different_values: g.different,
            beyond: g.beyond,
            values: g.values.iter().map(value).collect(),
            bits_changed: format_hex(g.changing),
            bits_always_1: format_hex(g.ones),
            bits_always_0: format_hex(g.zeros),
            read_back: g.read_back,
            read_other: g.read_other,
            cleared: g.cleared,
            kept: g.kept,
            rises: g.rises,
            falls: g.falls,
            polls: g.polls,
            polled_reads: g.polled,
            awaited_bits: format_hex(g.awaited),
            pollers: g.pollers.clone(),
            followers: g.followers.iter().map(follower).collect(),
        }
    }

    fn text(&self, out: &mut Out) -> Result<(), Failure> {
        let g = &self.guess;
        let offset = self.at.offset;
        out.line(format_args!(
            "{}, offset {}, {} bits: {}, {}",
            self.name(offset).unwrap_or_else(|| "no name".to_owned()),
            self.location(offset),
            u32::from(self.width) * 8,
            format_count(g.reads, "read"),
            format_count(g.writes, "write"),
        ))?;
        if g.reads + g.writes == 0 {
            return self.explain_no_access(out);
        }
        for hint in &g.hints() {
            out.line(format_args!("looks like {hint}"))?;
        }
        text(g, out)?;
        self.print_values(out)?;
        self.print_followers(out)
    }

    fn explain_no_access(&self, out: &mut Out) -> Result<(), Failure> {
        let recording = &self.opened.recording;
        let spaces = &recording.metadata.spaces;
        let is_named = self.name(self.at.offset).is_some();
        if recording.events.offset.is_empty() {
            out.line(empty_result::describe_accesses(self.opened, false))?;
        } else if spaces.len() > 1 && !is_named {
            let names: Vec<&str> = spaces.iter().map(|s| s.name.as_str()).collect();
            out.line(format_args!("not accessed in any space ({})", names.join(", ")))?;
        }
        Ok(())
    }

    fn print_values(&self, out: &mut Out) -> Result<(), Failure> {
        let g = &self.guess;
        let mut table = vec![["Value", "Count", "Meaning"].map(str::to_owned).to_vec()];
        for (value, n) in &g.values {
            let means = self.describe_value(*value).unwrap_or_default();
            table.push(vec![format_hex(*value), n.to_string(), means]);
        }
        out.table(&table)?;
        let reported = g.values.len() as u64;
        if g.different > reported || g.beyond > 0 {
            let at_least = if g.beyond > 0 { "at least " } else { "" };
            out.line(format_args!("and {at_least}{} more values", g.different - reported))?;
        }
        Ok(())
    }

    fn print_followers(&self, out: &mut Out) -> Result<(), Failure> {
        if self.guess.followers.is_empty() {
            return Ok(());
        }
        let clock = self.opened.recording.metadata.identity.clock;
        let head = ["After a write", "Count", "Accesses later", "Time"];
        let mut table = vec![head.map(str::to_owned).to_vec()];
        for f in &self.guess.followers {
            let what = self
                .name(f.offset.get())
                .unwrap_or_else(|| self.location(f.offset.get()));
            let sign = if f.ns < 0 { "-" } else { "" };
            table.push(vec![
                format!("{} {what}", if f.write { "write" } else { "read" }),
                f.count.to_string(),
                f.accesses.to_string(),
                format!("{sign}{}", format_interval(clock, f.ns.unsigned_abs())),
            ]);
        }
        Ok(out.table(&table)?)
    }
}

/// Prints the behaviour of bits and reads.
fn text(g: &Guess, out: &mut Out) -> Result<(), Failure> {
    out.line(format_args!(
        "bits that changed {:#x}, always 1 {:#x}, always 0 {:#x}",
        g.changing, g.ones, g.zeros
    ))?;
    if g.read_back + g.read_other > 0 {
        let all = g.read_back + g.read_other;
        out.line(format_args!(
            "{} of {} after a write return the written value",
            g.read_back,
            format_count(all, "read")
        ))?;
    }
    if g.polls > 0 {
        let who: Vec<String> = g
            .pollers
            .iter()
            .map(|p| format!("thread {} ({})", p.thread, p.reads))
            .collect();
        out.line(format_args!(
            "{} with {}, by {}",
            format_count(g.polls, "poll"),
            format_count(g.polled, "read"),
            who.join(", ")
        ))?;
    }
    Ok(())
}
