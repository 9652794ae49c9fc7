//! A line of strace's output: thread, time, and the system call with its arguments and result.

use crate::driver_log::scan::number;

/// Maximum number of arguments of a call that are looked at.
const MAX_ARGUMENTS: usize = 8;
/// Seconds from which on a time is one since 1970 and not one since the last call.
const MIN_EPOCH_SECONDS: u64 = 100_000_000;
const SECOND: u64 = 1_000_000_000;

/// A time in front of a call, nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stamp {
    /// Since the call before (`-r`).
    Since(u64),
    /// Since 1970 (`-ttt`).
    Epoch(u64),
    /// Since midnight (`-t`, `-tt`).
    OfDay(u64),
}

impl Stamp {
    fn parse(word: &str) -> Option<Self> {
        let (whole, fraction) = word.split_once('.').unwrap_or((word, ""));
        let is_digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
        if !is_digits(fraction) || fraction.len() > 9 {
            return None;
        }
        let unit = 10u64.pow(9 - fraction.len() as u32);
        let part = if fraction.is_empty() {
            0
        } else {
            fraction.parse::<u64>().ok()?.checked_mul(unit)?
        };
        let time = |seconds: u64| seconds.checked_mul(SECOND)?.checked_add(part);
        let fields: Vec<&str> = whole.split(':').take(4).collect();
        if fields.iter().any(|f| f.is_empty() || !is_digits(f)) {
            return None;
        }
        match fields[..] {
            [hours, minutes, seconds] => {
                let number = |text: &str| text.parse::<u64>().ok().filter(|n| *n < 62);
                let seconds = number(hours)? * 3600 + number(minutes)? * 60 + number(seconds)?;
                Some(Self::OfDay(time(seconds)?))
            }
            [seconds] if !fraction.is_empty() => {
                let seconds = seconds.parse().ok()?;
                let time = time(seconds)?;
                Some(if seconds < MIN_EPOCH_SECONDS {
                    Self::Since(time)
                } else {
                    Self::Epoch(time)
                })
            }
            _ => None,
        }
    }
}

/// A line without its thread and time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StraceLine<'a> {
    pub(super) thread: Option<u32>,
    pub(super) stamp: Option<Stamp>,
    pub(super) text: &'a str,
}

/// Whether a line is only a part of a call, because another thread was faster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unfinished<'a> {
    /// A call begins: its text so far.
    Begin(&'a str),
    /// A call ends: the rest of its text.
    End(&'a str),
    /// The call is complete.
    No,
}

impl<'a> StraceLine<'a> {
    pub(super) fn parse(line: &'a str) -> Self {
        let mut parsed = Self {
            thread: None,
            stamp: None,
            text: line.trim(),
        };
        if let Some((pid, rest)) = parsed.text.strip_prefix("[pid").and_then(|rest| rest.split_once(']'))
            && let Ok(pid) = pid.trim().parse()
        {
            (parsed.thread, parsed.text) = (Some(pid), rest.trim_start());
        } else if let Some((pid, rest)) = parsed.text.split_once(' ')
            && let Ok(pid) = pid.parse()
        {
            (parsed.thread, parsed.text) = (Some(pid), rest.trim_start());
        }
        if let Some((word, rest)) = parsed.text.split_once(' ')
            && let Some(stamp) = Stamp::parse(word)
        {
            (parsed.stamp, parsed.text) = (Some(stamp), rest.trim_start());
            // `-r` with `-t`: the second time counts.
            if let Some((word, rest)) = parsed.text.split_once(' ')
                && let Some(stamp) = Stamp::parse(word.trim_start_matches(['(', '+']).trim_end_matches(')'))
            {
                (parsed.stamp, parsed.text) = (Some(stamp), rest.trim_start());
            }
        }
        parsed
    }

    /// Returns the call, if the line has a whole one.
    pub(super) fn call(self) -> Option<SystemCall<'a>> {
        SystemCall::parse(self.text)
    }

    /// Returns whether the line is only a part of a call.
    pub(super) fn unfinished(self) -> Unfinished<'a> {
        if let Some(begin) = self.text.strip_suffix("<unfinished ...>") {
            return Unfinished::Begin(begin.trim_end());
        }
        let resumed = self
            .text
            .strip_prefix("<... ")
            .and_then(|rest| rest.split_once(" resumed>"));
        resumed.map_or(Unfinished::No, |(_, rest)| Unfinished::End(rest))
    }
}

/// A system call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SystemCall<'a> {
    pub(super) name: &'a str,
    arguments: Vec<&'a str>,
    result: &'a str,
}

impl<'a> SystemCall<'a> {
    /// Parses `NAME(ARGUMENTS) = RESULT`.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        let (name, rest) = text.split_once('(')?;
        let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        let (arguments, rest) = split_arguments(rest)?;
        let result = rest.trim_start().strip_prefix("= ")?.trim();
        is_name.then_some(Self {
            name,
            arguments,
            result,
        })
    }

    /// Returns an argument as text.
    pub(super) fn argument(&self, index: usize) -> Option<&'a str> {
        self.arguments.get(index).copied()
    }

    /// Returns an argument as a number.
    pub(super) fn number(&self, index: usize) -> Option<u64> {
        number(self.argument(index)?)
    }

    /// Returns an argument that is a file descriptor.
    pub(super) fn descriptor(&self, index: usize) -> Option<i32> {
        descriptor(self.argument(index)?)
    }

    /// Returns the path that strace printed behind a descriptor: `3</dev/nvidiactl>`.
    pub(super) fn path_of(&self, index: usize) -> Option<&'a str> {
        let (_, rest) = self.argument(index)?.split_once('<')?;
        let path = rest.strip_suffix('>')?;
        // `-yy` prints the numbers of a device behind its path.
        Some(path.split('<').next().unwrap_or(path))
    }

    /// Returns the path behind the descriptor that the call is about.
    pub(super) fn path(&self) -> Option<&'a str> {
        self.path_of(if self.name.starts_with("mmap") { 4 } else { 0 })
    }

    /// Returns the path that the call opens.
    pub(super) fn opened_path(&self) -> Option<&'a str> {
        let argument = self.argument(if self.name == "open" { 0 } else { 1 })?;
        argument.strip_prefix('"')?.strip_suffix('"')
    }

    /// Returns the descriptor that the call returned.
    pub(super) fn returned_descriptor(&self) -> Option<i32> {
        descriptor(self.result).filter(|d| *d >= 0)
    }

    /// Returns the address that the call returned.
    pub(super) fn returned_address(&self) -> Option<u64> {
        self.result.starts_with("0x").then(|| number(self.result)).flatten()
    }

    /// Returns the name of the error that the call returned, `EINVAL`.
    pub(super) fn error(&self) -> Option<&'a str> {
        let rest = self.result.strip_prefix("-1 ")?;
        rest.split_whitespace().next()
    }

    /// Returns how long the call took in nanoseconds (`-T`); 0 if the line does not say it.
    pub(super) fn took(&self) -> u32 {
        let seconds = self.result.strip_suffix('>').and_then(|rest| rest.rsplit_once('<'));
        let time = seconds.and_then(|(_, text)| match Stamp::parse(text)? {
            Stamp::Since(time) | Stamp::Epoch(time) | Stamp::OfDay(time) => Some(time),
        });
        u32::try_from(time.unwrap_or(0)).unwrap_or(u32::MAX)
    }
}

/// Parses a file descriptor at the start of a text.
fn descriptor(text: &str) -> Option<i32> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text.get(..end)?.parse().ok()
}

/// Splits the arguments of a call at commas outside of brackets and texts. Returns them and the text after the bracket
/// that ends them.
fn split_arguments(text: &str) -> Option<(Vec<&str>, &str)> {
    let mut arguments = Vec::new();
    let (mut begin, mut depth) = (0, 0u32);
    let (mut in_text, mut escaped) = (false, false);
    for (at, byte) in text.bytes().enumerate() {
        if in_text {
            in_text = escaped || byte != b'"';
            escaped = !escaped && byte == b'\\';
            continue;
        }
        let is_end = depth == 0 && byte == b')';
        if is_end || (depth == 0 && byte == b',') {
            if arguments.len() < MAX_ARGUMENTS {
                arguments.push(text.get(begin..at)?.trim());
            }
            begin = at + 1;
        }
        match byte {
            _ if is_end => return Some((arguments, text.get(at + 1..)?)),
            b'"' => in_text = true,
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_and_times_are_removed() {
        for (line, thread, stamp) in [
            ("close(3) = 0", None, None),
            ("[pid  4711] close(3) = 0", Some(4711), None),
            ("4711  close(3) = 0", Some(4711), None),
            ("     0.000250 close(3) = 0", None, Some(Stamp::Since(250_000))),
            (
                "1700000000.000001 close(3) = 0",
                None,
                Some(Stamp::Epoch(1_700_000_000_000_001_000)),
            ),
            (
                "4711 01:02:03 close(3) = 0",
                Some(4711),
                Some(Stamp::OfDay(3_723_000_000_000)),
            ),
            (
                "[pid 5] 01:02:03.5 close(3) = 0",
                Some(5),
                Some(Stamp::OfDay(3_723_500_000_000)),
            ),
        ] {
            let parsed = StraceLine::parse(line);
            assert_eq!(
                (parsed.thread, parsed.stamp, parsed.text),
                (thread, stamp, "close(3) = 0"),
                "{line}"
            );
        }
    }

    #[test]
    fn arguments_may_hold_brackets_and_texts() {
        let call = SystemCall::parse(
            r#"f("a,)\"b", {x=[1, 2]}, 3</dev/nvidia0<char 195:0>>) = -1 EINVAL (Invalid) <0.000017>"#,
        );
        let call = call.unwrap();
        assert_eq!(
            (call.name, call.argument(0), call.argument(1)),
            ("f", Some(r#""a,)\"b""#), Some("{x=[1, 2]}"))
        );
        assert_eq!((call.descriptor(2), call.path_of(2)), (Some(3), Some("/dev/nvidia0")));
        assert_eq!(
            (call.error(), call.took(), call.returned_descriptor()),
            (Some("EINVAL"), 17_000, None)
        );
        for text in [
            "",
            "f(",
            "f(1",
            "f(1)",
            "f g(1) = 0",
            "+++ exited with 0 +++",
            "f(\"",
            "f(\"\\",
        ] {
            assert_eq!(SystemCall::parse(text), None, "{text}");
        }
    }
}
