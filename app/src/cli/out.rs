//! The output of a verb: streamed text or JSON.

use kinescope_files::pipe_writer::standard_output;
use serde::Serialize;
use std::fmt::Display;
use std::io::{self, BufWriter, Write};
use std::sync::{Arc, Mutex, PoisonError};
use trace_core::recording::Clock;

/// The output of a verb.
pub struct Out {
    to: Box<dyn Write>,
    json: bool,
}

/// Formats an address, offset or id for JSON and text: lower-case, `0x…`.
#[must_use]
pub fn format_hex(value: u64) -> String {
    format!("{value:#x}")
}

/// Formats a count with its noun: `1 job`, `23 jobs`.
#[must_use]
pub fn format_count(n: u64, noun: &str) -> String {
    if n == 1 {
        format!("1 {noun}")
    } else {
        format!("{n} {noun}s")
    }
}

/// Formats a duration in a suitable unit.
#[must_use]
pub fn format_duration(ns: u64) -> String {
    let n = ns as f64;
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.1} us", n / 1e3),
        1_000_000..1_000_000_000 => format!("{:.2} ms", n / 1e6),
        _ => format!("{:.2} s", n / 1e9),
    }
}

/// Formats an interval between times of a recording: a duration, or ticks if its clock counts them.
#[must_use]
pub fn format_interval(clock: Clock, n: u64) -> String {
    match clock.counts_ticks() {
        true => format_count(n, "tick"),
        false => format_duration(n),
    }
}

/// Output of a verb in memory; clones share it.
#[derive(Clone, Debug, Default)]
pub struct MemoryOutput(Arc<Mutex<Vec<u8>>>);

impl MemoryOutput {
    /// Returns the output so far, and leaves none.
    #[must_use]
    pub fn take(&self) -> Vec<u8> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Write for MemoryOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Out {
    /// Creates an output to the standard output of the process.
    #[must_use]
    pub fn stdout(json: bool) -> Self {
        Self {
            to: Box::new(BufWriter::with_capacity(64 << 10, standard_output())),
            json,
        }
    }

    /// Creates an output into memory.
    #[must_use]
    pub fn memory(buffer: &MemoryOutput, json: bool) -> Self {
        Self {
            to: Box::new(buffer.clone()),
            json,
        }
    }

    /// Runs `work` and returns its text output.
    #[cfg(test)]
    pub fn capture(work: impl FnOnce(&mut Self)) -> String {
        let buffer = MemoryOutput::default();
        work(&mut Self::memory(&buffer, false));
        String::from_utf8(buffer.take()).unwrap()
    }

    /// Returns whether JSON output is requested.
    #[must_use]
    pub fn is_json(&self) -> bool {
        self.json
    }

    /// Prints a line of text.
    ///
    /// # Errors
    /// When the output is closed or full.
    pub fn line(&mut self, text: impl Display) -> io::Result<()> {
        writeln!(self.to, "{text}")
    }

    /// Writes bytes unchanged.
    ///
    /// # Errors
    /// When the output is closed or full.
    pub fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.to.write_all(bytes)
    }

    /// Prints one JSON document.
    ///
    /// # Errors
    /// When the output is closed or full.
    pub fn value(&mut self, value: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut self.to, value).map_err(io::Error::from)?;
        writeln!(self.to)
    }

    /// Prints a JSON array with one element per line, and writes each element as it comes.
    ///
    /// # Errors
    /// When the output is closed or full.
    pub fn array<T: Serialize>(&mut self, items: impl IntoIterator<Item = T>) -> io::Result<()> {
        self.array_with(|out, add| items.into_iter().try_for_each(|item| add(out, &item)))
    }

    /// Prints a JSON array like [`Out::array`]. `fill` finds the elements: it receives the output and a callback that
    /// adds an element.
    ///
    /// # Errors
    /// The errors of `fill`; when the output is closed or full.
    pub fn array_with<T: Serialize, E: From<io::Error>>(
        &mut self,
        fill: impl FnOnce(&mut Self, &mut dyn FnMut(&mut Self, &T) -> io::Result<()>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut lead = "[\n";
        fill(self, &mut |out, item| {
            out.to.write_all(lead.as_bytes())?;
            serde_json::to_writer(&mut out.to, item).map_err(io::Error::from)?;
            lead = ",\n";
            Ok(())
        })?;
        let end: &[u8] = if lead == "[\n" { b"[]\n" } else { b"\n]\n" };
        Ok(self.to.write_all(end)?)
    }

    /// Prints rows of text in columns as wide as their widest cell. The first row is the header. The last column is not
    /// padded.
    ///
    /// # Errors
    /// When the output is closed or full.
    pub fn table(&mut self, rows: &[Vec<String>]) -> io::Result<()> {
        let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |c: usize| {
            rows.iter()
                .filter_map(|r| r.get(c))
                .map(|s| s.chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in rows {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                line.push_str(cell);
                let pad = width.saturating_sub(cell.chars().count()) + 2;
                line.extend(std::iter::repeat_n(' ', pad));
            }
            self.line(line.trim_end())?;
        }
        Ok(())
    }

    /// Flushes the output.
    ///
    /// # Errors
    /// When the output is closed or full.
    pub fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_times_read_well() {
        assert_eq!([0, 1, 2].map(|n| format_count(n, "job")), ["0 jobs", "1 job", "2 jobs"]);
        let times = [999, 1_500, 2_345_678, 3_000_000_000].map(format_duration);
        assert_eq!(times, ["999 ns", "1.5 us", "2.35 ms", "3.00 s"]);
    }
}
