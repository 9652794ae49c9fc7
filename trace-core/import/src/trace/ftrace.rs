//! Lines of the kernel's ftrace, as `trace` and `trace_pipe` print them: task, CPU, time, event and text. They hold
//! tracepoints of interrupts and register accesses, and function probes.
//!
//! ```text
//! TASK-PID [CPU] FLAGS SECONDS.MICROSECONDS: EVENT: TEXT
//! ```
//!
//! A probe's text starts with the location in brackets: `(FUNCTION+0x0/0x60 [MODULE])` at the entry, `(CALLER+0x12/0x34
//! <- FUNCTION)` at the return. Fields follow, `KEY=VALUE`.

use super::text::{self, Line};

/// The head of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// Thread, 0 for a CPU's idle task.
    pub(super) pid: u32,
    pub(super) cpu: u32,
    /// Nanoseconds.
    pub(super) time: u64,
}

/// A line: its head, the event's name, and its text.
pub(super) struct Event<'a> {
    pub(super) head: Head,
    pub(super) name: &'a [u8],
    pub(super) text: &'a [u8],
}

/// Parses a line. Returns `None` for other lines.
pub(super) fn event(line: &[u8]) -> Option<Event<'_>> {
    // A task name may hold any character but is short; the CPU follows in square brackets.
    let open = memchr::memchr_iter(b'[', line).find(|at| line.get(at.wrapping_sub(1)) == Some(&b' '))?;
    let (task, rest) = line.split_at_checked(open)?;
    let dash = memchr::memrchr(b'-', task)?;
    let mut pid = Line::new(task.get(dash + 1..)?);
    let pid = pid.decimal()?;
    let close = memchr::memchr(b']', rest)?;
    let mut cpu = Line::new(rest.get(1..close)?);
    let cpu = cpu.decimal()?;
    let mut l = Line::new(rest.get(close + 1..)?);
    // An option can remove the flags.
    let mut word = l.word()?;
    if !word.ends_with(b":") {
        word = l.word()?;
    }
    let mut time = Line::new(word.strip_suffix(b":")?);
    let time = time.time()?;
    let name = l.word()?.strip_suffix(b":")?;
    l.blanks();
    let text = l.rest().strip_suffix(b"\r").unwrap_or(l.rest());
    Some(Event {
        head: Head { pid, cpu, time },
        name,
        text,
    })
}

/// Returns the number of lost events in a line such as `CPU:0 [LOST 12 EVENTS]`.
pub(super) fn lost(line: &[u8]) -> Option<u64> {
    let mut l = Line::new(line);
    l.blanks();
    l.tag(b"CPU:")?;
    l.decimal()?;
    l.blanks();
    l.tag(b"[LOST")?;
    let count = l.decimal()?;
    l.blanks();
    l.tag(b"EVENTS]")?;
    Some(u64::from(count))
}

/// Parses a number of a probe: hexadecimal after `0x`, otherwise decimal.
pub(super) fn number(field: &[u8]) -> Option<u64> {
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

/// Returns the fields of a text, `KEY=VALUE`; words without `=` are skipped.
pub(super) fn fields(text: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut l = Line::new(text);
    std::iter::from_fn(move || {
        loop {
            let word = l.word()?;
            if let Some(at) = memchr::memchr(b'=', word) {
                return Some((word.get(..at)?, word.get(at + 1..)?));
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
                time: 5_965_634_000
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
        assert_eq!(lost(b"CPU:0 [LOST 123 EVENTS]"), Some(123));
        assert_eq!(lost(b"CPU:0 [LOST many EVENTS]"), None);
        assert_eq!(
            (number(b"0x1f"), number(b"18"), number(b""), number(b"1f")),
            (Some(31), Some(18), None, None)
        );
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
