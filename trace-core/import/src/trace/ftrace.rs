//! Lines of the kernel's ftrace, as `trace`, `trace_pipe`, `trace-cmd report` and `perf script` print them: task, CPU,
//! time, event and text. They hold tracepoints of interrupts and register accesses, and function probes.
//!
//! ```text
//! TASK-PID [(TGID)] [CPU] [FLAGS] SECONDS.MICROSECONDS: EVENT: TEXT
//! TASK-PID CPU+FLAGS MICROSECONDSus : EVENT: TEXT               with the option latency-format
//! TASK PID [CPU] SECONDS.MICROSECONDS: SYSTEM:EVENT: TEXT       of perf script
//! ```
//!
//! The clocks `counter`, `uptime` and `x86-tsc` give a number of ticks in place of the seconds. A probe's text starts
//! with the location in brackets: `(FUNCTION+0x0/0x60 [MODULE])` at the entry, `(CALLER+0x12/0x34 <- FUNCTION)` at the
//! return. Fields follow, `KEY=VALUE`. Sources: the kernel's `Documentation/trace/ftrace.rst`, and the logs.

use super::text::{self, Line};

/// The head of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Head {
    /// Thread, 0 for a CPU's idle task.
    pub(super) pid: u32,
    pub(super) cpu: u32,
    /// Nanoseconds, or ticks.
    pub(super) time: u64,
    /// Whether the clock counts ticks.
    pub(super) ticks: bool,
}

/// Maximum number of brackets and of colons of a line that are tried as the end of its task and of its time.
const MAX_TRIED: usize = 4;

/// A line: its head, the event's name, and its text.
pub(super) struct Event<'a> {
    pub(super) head: Head,
    pub(super) name: &'a [u8],
    pub(super) text: &'a [u8],
}

/// Parses a line. Returns `None` for other lines.
pub(super) fn event(line: &[u8]) -> Option<Event<'_>> {
    // A task name may hold any character but is short; the CPU follows in square brackets.
    let brackets = memchr::memchr_iter(b'[', line).filter(|at| line.get(at.wrapping_sub(1)) == Some(&b' '));
    let mut brackets = brackets.take(MAX_TRIED);
    brackets
        .find_map(|open| with_bracket(line, open))
        .or_else(|| with_latency(line))
}

/// Parses a line whose CPU is in the bracket at `open`.
fn with_bracket(line: &[u8], open: usize) -> Option<Event<'_>> {
    let (task, rest) = line.split_at_checked(open)?;
    let pid = pid_of(task)?;
    let close = memchr::memchr(b']', rest)?;
    let cpu = Line::new(rest.get(1..close)?).decimal()?;
    let mut l = Line::new(rest.get(close + 1..)?);
    // An option can remove the flags.
    let mut word = l.word()?;
    if !word.ends_with(b":") {
        word = l.word()?;
    }
    let (time, ticks) = time_of(word.strip_suffix(b":")?)?;
    let head = Head { pid, cpu, time, ticks };
    rest_of(head, l)
}

/// Parses a line of the latency format: CPU and flags are one word, and the time may have a unit and a mark behind it.
fn with_latency(line: &[u8]) -> Option<Event<'_>> {
    memchr::memchr_iter(b':', line).take(MAX_TRIED).find_map(|colon| {
        let before = line.get(..colon)?.trim_ascii_end();
        let before = match before {
            [rest @ .., b'!' | b'+' | b'#' | b'*' | b'@' | b'$'] => rest,
            other => other,
        };
        let (before, word) = split_last_word(before);
        let (time, ticks) = match word.strip_suffix(b"us") {
            Some(micros) => (u64::from(decimal(micros)?).checked_mul(1000)?, false),
            None => time_of(word)?,
        };
        let (task, cpu) = split_last_word(before.trim_ascii_end());
        let digits = cpu.iter().take_while(|b| b.is_ascii_digit()).count();
        let cpu = decimal(cpu.get(..digits)?)?;
        let pid = pid_of(task)?;
        let head = Head { pid, cpu, time, ticks };
        rest_of(head, Line::new(line.get(colon + 1..)?))
    })
}

/// Parses event and text.
fn rest_of(head: Head, mut l: Line<'_>) -> Option<Event<'_>> {
    let name = l.word()?.strip_suffix(b":")?;
    // perf names the system in front of the event.
    let name = memchr::memrchr(b':', name).map_or(name, |at| name.get(at + 1..).unwrap_or_default());
    l.blanks();
    let mut text = l.rest().trim_ascii_end();
    let mut name = name;
    if let (b"print", Some(rest)) = (name, text.strip_prefix(b"tracing_mark_write: ")) {
        (name, text) = (MARK, rest);
    }
    (!name.is_empty()).then_some(Event { head, name, text })
}

/// Event of a text that a program writes to the log.
pub(super) const MARK: &[u8] = b"tracing_mark_write";

/// Splits a text at its last blank: the part before it, and the word after it.
fn split_last_word(text: &[u8]) -> (&[u8], &[u8]) {
    let at = text
        .iter()
        .rposition(|b| matches!(b, b' ' | b'\t'))
        .map_or(0, |at| at + 1);
    text.split_at_checked(at).unwrap_or((text, &[]))
}

/// Parses a whole field as a decimal number of at most 32 bits.
fn decimal(field: &[u8]) -> Option<u32> {
    let mut l = Line::new(field);
    let value = l.decimal()?;
    l.rest().is_empty().then_some(value)
}

/// Returns the thread of a task: `sh-92`, `sh-92 (   90)`, and `sh 92` or `sh 90/92` of perf.
fn pid_of(task: &[u8]) -> Option<u32> {
    let mut task = task.trim_ascii_end();
    if task.ends_with(b")") {
        // The group of the thread.
        task = task.get(..memchr::memrchr(b'(', task)?)?.trim_ascii_end();
    }
    let (before, word) = split_last_word(task);
    if let Some(dash) = memchr::memrchr(b'-', word)
        && let Some(pid) = decimal(word.get(dash + 1..)?)
    {
        return Some(pid);
    }
    let thread = word.split(|b| *b == b'/').next_back()?;
    decimal(thread).filter(|_| !before.trim_ascii().is_empty())
}

/// Parses a time in seconds or in ticks. Returns nanoseconds or ticks, and whether they are ticks.
fn time_of(field: &[u8]) -> Option<(u64, bool)> {
    if let Some(time) = Line::new(field).time() {
        return Some((time, false));
    }
    number(field)
        .filter(|_| field.iter().all(u8::is_ascii_digit))
        .map(|n| (n, true))
}

/// Returns the number of lost events, if it is known, in a line such as `CPU:0 [LOST 12 EVENTS]` of a pipe,
/// `CPU:0 [12 EVENTS DROPPED]` and `CPU:0 [EVENTS DROPPED]` of trace-cmd.
pub(super) fn lost(line: &[u8]) -> Option<Option<u64>> {
    let mut l = Line::new(line);
    l.blanks();
    l.tag(b"CPU:")?;
    l.decimal()?;
    l.blanks();
    l.tag(b"[")?;
    let rest = l.rest();
    if rest.starts_with(b"EVENTS DROPPED]") {
        return Some(None);
    }
    if l.tag(b"LOST").is_none() {
        let count = l.decimal()?;
        l.blanks();
        l.tag(b"EVENTS DROPPED]")?;
        return Some(Some(u64::from(count)));
    }
    l.blanks();
    if l.rest().starts_with(b"EVENTS]") {
        return Some(None);
    }
    let count = l.decimal()?;
    l.blanks();
    l.tag(b"EVENTS]")?;
    Some(Some(u64::from(count)))
}

/// Whether a line is one that the tracers print around the events: a comment, or a line about CPUs.
pub(super) fn is_frame(line: &[u8]) -> bool {
    let line = line.trim_ascii();
    let is_empty_cpu = line.starts_with(b"CPU ") && line.ends_with(b" is empty");
    line.is_empty()
        || line.starts_with(b"#")
        || line.starts_with(b"cpus=")
        || line.starts_with(b"version = ")
        || line.starts_with(b"##### CPU ")
        || is_empty_cpu
}

/// Parses a number of a probe: hexadecimal after `0x`, otherwise decimal. A negative one gives its two's complement.
pub(super) fn number(field: &[u8]) -> Option<u64> {
    match field.strip_prefix(b"-") {
        Some(field) => unsigned(field).filter(|n| *n <= 1 << 63).map(u64::wrapping_neg),
        None => unsigned(field),
    }
}

fn unsigned(field: &[u8]) -> Option<u64> {
    if field.starts_with(b"0x") {
        return text::hex(field);
    }
    let mut value = 0u64;
    for digit in field {
        value = value
            .checked_mul(10)?
            .checked_add(u64::from(digit.checked_sub(b'0').filter(|d| *d < 10)?))?;
    }
    (!field.is_empty()).then_some(value)
}

/// Returns the fields of a text, `KEY=VALUE`; words without `=` are skipped, and so is a comma behind a value.
pub(super) fn fields(text: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut l = Line::new(text);
    std::iter::from_fn(move || {
        loop {
            let word = l.word()?;
            if let Some(at) = memchr::memchr(b'=', word) {
                let value = word.get(at + 1..)?;
                return Some((word.get(..at)?, value.strip_suffix(b",").unwrap_or(value)));
            }
        }
    })
}

/// Returns the value of a numeric field.
pub(super) fn field(text: &[u8], name: &[u8]) -> Option<u64> {
    fields(text)
        .find(|(key, _)| *key == name)
        .and_then(|(_, value)| number(value))
}

/// The location of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Probe<'a> {
    /// The function that is probed.
    pub(super) function: &'a [u8],
    /// Whether it is the return.
    pub(super) returns: bool,
    /// The module of the function at an entry, of its caller at a return; empty for the kernel itself.
    pub(super) module: &'a [u8],
    /// The fields after the location.
    pub(super) fields: &'a [u8],
}

/// Parses the location at the start of a probe's text.
pub(super) fn probe(text: &[u8]) -> Option<Probe<'_>> {
    let inner = text.strip_prefix(b"(")?;
    let end = memchr::memchr(b')', inner)?;
    let (place, fields) = (inner.get(..end)?, inner.get(end + 1..)?);
    let arrow = memchr::memmem::find(place, b" <- ");
    let (at, function) = match arrow {
        Some(arrow) => (place.get(..arrow)?, place.get(arrow + 4..)?),
        None => (place, place),
    };
    let name = function.split(|b| matches!(b, b'+' | b' ')).next()?;
    Some(Probe {
        function: name,
        returns: arrow.is_some(),
        module: module(at),
        fields,
    })
}

/// Returns the module in a location such as `f+0x1/0x2 [radeon]`.
pub(super) fn module(place: &[u8]) -> &[u8] {
    let of = || {
        let open = memchr::memrchr(b'[', place)?;
        let inner = place.get(open + 1..)?;
        inner.get(..memchr::memchr(b']', inner)?)
    };
    of().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ftrace_line_is_parsed() {
        let line =
            b"    kworker/0:2 x-47      [003] d.h1.     5.965634: irq_handler_entry: irq=25 name=virtio0-requests\r";
        let e = event(line).unwrap();
        assert_eq!(
            e.head,
            Head {
                pid: 47,
                cpu: 3,
                time: 5_965_634_000,
                ticks: false
            }
        );
        assert_eq!((e.name, field(e.text, b"irq")), (&b"irq_handler_entry"[..], Some(25)));
        assert_eq!(fields(e.text).last().unwrap(), (&b"name"[..], &b"virtio0-requests"[..]));
        let short = event(b"<idle>-0 [000] 1.000001: x: y").unwrap();
        assert_eq!((short.head.pid, short.text), (0, &b"y"[..]));
        for invalid in [
            "# tracer: nop",
            "sh-92 [000] d.h1. 4.5: irq_handler_entry",
            "sh [000] d.h1. 4.5: a: b",
            "sh-92 [00x] d.h1. 4.5: a: b",
            "sh-92 [000] d.h1. 4.5 a: b",
            "",
        ] {
            assert!(event(invalid.as_bytes()).is_none(), "{invalid}");
        }
        for (line, count) in [
            ("CPU:0 [LOST 123 EVENTS]", Some(Some(123))),
            ("CPU:3 [7 EVENTS DROPPED]", Some(Some(7))),
            ("CPU:3 [EVENTS DROPPED]", Some(None)),
            ("CPU:0 [LOST EVENTS]", Some(None)),
            ("CPU:0 [LOST many EVENTS]", None),
            ("CPU 3 is empty", None),
        ] {
            assert_eq!(lost(line.as_bytes()), count, "{line}");
        }
        assert!(is_frame(b"cpus=8") && is_frame(b"CPU 3 is empty\r") && !is_frame(b"CPU 3 is full"));
        assert_eq!(
            (
                number(b"0x1f"),
                number(b"18"),
                number(b""),
                number(b"1f"),
                number(b"-1")
            ),
            (Some(31), Some(18), None, None, Some(u64::MAX))
        );
    }

    #[test]
    fn heads_of_every_tracer_are_parsed() {
        for (line, pid, cpu, time, ticks) in [
            // `trace` with and without the group of the thread and the flags.
            (
                "  Web Content-1977 (   1977) [002] ..... 12.000001: e: x",
                1977,
                2,
                12_000_001_000,
                false,
            ),
            (
                "           <...>-88  (-------) [001] d..1. 12.000001: e: x",
                88,
                1,
                12_000_001_000,
                false,
            ),
            (
                "          <idle>-0     [000] 12.000001: e: x",
                0,
                0,
                12_000_001_000,
                false,
            ),
            // trace-cmd pads the name of the event, and can print nanoseconds.
            (
                "     kworker/0:1-23    [000]   123.456789: e:         x",
                23,
                0,
                123_456_789_000,
                false,
            ),
            (
                "     kworker/0:1-23    [000] d.h1. 123.456789012: e: x",
                23,
                0,
                123_456_789_012,
                false,
            ),
            // The clocks that count.
            ("   sh-92      [003] .....     123456: e: x", 92, 3, 123_456, true),
            (
                "   sh-92      [003] .....     27364598172635: e: x",
                92,
                3,
                27_364_598_172_635,
                true,
            ),
            // The latency format of ftrace and of trace-cmd.
            ("  <idle>-0       2d.h1.    4us : e: x", 0, 2, 4000, false),
            ("    Xorg-1021    3d..1.   14us!: e: x", 1021, 3, 14_000, false),
            (
                "      ls-2345    1d..1   123.456789: e: x",
                2345,
                1,
                123_456_789_000,
                false,
            ),
            ("      ls-2345   12d..1   99: e: x", 2345, 12, 99, true),
            // perf script.
            (
                "kworker/0:1    23 [000]   123.456789: rwmmio:e: x",
                23,
                0,
                123_456_789_000,
                false,
            ),
            (
                "Web Content 1900/1977 [001]   123.456789:       rwmmio:e: x",
                1977,
                1,
                123_456_789_000,
                false,
            ),
        ] {
            let e = event(line.as_bytes()).unwrap_or_else(|| panic!("{line}"));
            assert_eq!(e.head, Head { pid, cpu, time, ticks }, "{line}");
            assert_eq!((e.name, e.text), (&b"e"[..], &b"x"[..]), "{line}");
        }
        let mark = event(b"  qemu-9 [000]  1.5: print:  tracing_mark_write: hello x").unwrap();
        assert_eq!((mark.name, mark.text), (MARK, &b"hello x"[..]));
        for other in [
            "Mar 14 09:26:53 host kernel: usb 1-1: new device: x",
            "[  311.204417] mali 1f000000.mali: Register IO History: x",
            "1234 12:00:00.000001 ioctl(3, x: y",
            "2026-03-14T09:26:53.589000Z memory_region_ops_read cpu 0: x: y",
        ] {
            assert!(event(other.as_bytes()).is_none(), "{other}");
        }
    }

    #[test]
    fn probe_line_has_function_and_direction() {
        let enter = probe(b"(igb_rd32+0x0/0x60 [igb]) hw=0xffff8a7a827e0ed8 off=0x18").unwrap();
        assert_eq!(
            (enter.function, enter.returns, enter.module),
            (&b"igb_rd32"[..], false, &b"igb"[..])
        );
        assert_eq!(field(enter.fields, b"off"), Some(0x18));
        let back = probe(b"(igb_get_invariants_82575+0xa2/0xef0 [igb] <- igb_rd32) val=0x0").unwrap();
        assert_eq!(
            (back.function, back.returns, field(back.fields, b"val")),
            (&b"igb_rd32"[..], true, Some(0))
        );
        assert_eq!(probe(b"irq=1"), None);
        assert_eq!(probe(b"(half"), None);
    }
}
