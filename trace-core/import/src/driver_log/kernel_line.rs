//! The prefix of a line of the kernel log, in the forms that dmesg, journalctl and syslog print.

use crate::trace::text::Line;

/// Maximum number of characters before `kernel: `, which a log file puts in front: a date and the name of a machine.
const MAX_LOG_FILE_PREFIX: usize = 120;

/// A line of the kernel log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KernelLine<'a> {
    /// Nanoseconds since the machine started, if the line has them.
    pub(super) time: Option<u64>,
    /// The message.
    pub(super) text: &'a str,
}

impl<'a> KernelLine<'a> {
    /// Splits a line into its time and its message.
    pub(super) fn parse(line: &'a str) -> Self {
        let mut parsed = Self {
            time: None,
            text: line.trim(),
        };
        parsed.strip_level();
        parsed.strip_stamp();
        // Another text may hold `kernel: ` too, but after a colon of its own.
        if let Some((before, text)) = parsed.text.split_once("kernel: ")
            && before.len() <= MAX_LOG_FILE_PREFIX
            && (before.is_empty() || before.ends_with(' '))
            && !before.contains(": ")
        {
            parsed.text = text.trim_start();
            parsed.strip_stamp();
        }
        parsed
    }

    /// Removes the level in front of a message: `<6>`, or `kern  :info  : `.
    fn strip_level(&mut self) {
        let number = self.text.strip_prefix('<').and_then(|rest| rest.split_once('>'));
        if let Some((_, text)) = number.filter(|(level, _)| level.parse::<u8>().is_ok()) {
            self.text = text.trim_start();
        }
        let words = self.text.strip_prefix("kern").and_then(|rest| {
            let (before, rest) = rest.split_once(':')?;
            let (level, text) = rest.split_once(':')?;
            (before.trim().is_empty() && level.trim().bytes().all(|b| b.is_ascii_lowercase())).then_some(text)
        });
        self.text = words.unwrap_or(self.text).trim_start();
    }

    /// Removes a time in brackets, and the thread or CPU that may follow it in brackets.
    fn strip_stamp(&mut self) {
        let bracket = |text: &'a str| text.strip_prefix('[')?.split_once(']');
        let Some((stamp, rest)) = bracket(self.text) else {
            return;
        };
        let time = Line::new(stamp.trim().as_bytes()).time();
        // `dmesg -T` prints a date, which has no fraction of a second.
        let is_date = stamp.matches(':').count() == 2 && stamp.split_whitespace().count() == 5;
        if time.is_none() && !is_date {
            return;
        }
        self.time = time;
        self.text = rest.trim_start();
        if let Some((caller, rest)) = bracket(self.text) {
            let caller = caller.trim_start();
            let number = caller.strip_prefix(['T', 'C']).unwrap_or_default();
            if !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()) {
                self.text = rest.trim_start();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_of_kernel_logs_are_removed() {
        let time = Some(12_000_005_000);
        for (line, expected) in [
            ("gopen: x", (None, "gopen: x")),
            ("[   12.000005] gopen: x", (time, "gopen: x")),
            ("[   12.000005][  T463] gopen: x", (time, "gopen: x")),
            ("<6>[   12.000005] gopen: x", (time, "gopen: x")),
            ("kern  :info  : [   12.000005] gopen: x", (time, "gopen: x")),
            (
                "Nov 28 04:40:48 host kernel: [   12.000005] gopen: x",
                (time, "gopen: x"),
            ),
            ("[   12.000005] host kernel: gopen: x", (time, "gopen: x")),
            ("Nov 28 04:40:48 host kernel: gopen: x", (None, "gopen: x")),
            ("kernel: gopen: x", (None, "gopen: x")),
            ("[Sat Nov 28 04:40:48 2026] gopen: x", (None, "gopen: x")),
            ("[gdev] Opened gdev0", (None, "[gdev] Opened gdev0")),
            ("[1] gopen: x", (None, "[1] gopen: x")),
            ("gopen: the kernel: x", (None, "gopen: the kernel: x")),
            (
                "nouveau: kernel rejected pushbuf: x",
                (None, "nouveau: kernel rejected pushbuf: x"),
            ),
            ("[", (None, "[")),
            ("", (None, "")),
        ] {
            let parsed = KernelLine::parse(line);
            assert_eq!((parsed.time, parsed.text), expected, "{line}");
        }
    }
}
