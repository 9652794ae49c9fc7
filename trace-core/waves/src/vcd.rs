//! Waveforms as VCD (IEEE 1364, clause 18): text, read by every viewer.

use crate::changes::Value;
use crate::sink::{Body, DeclarationLine, declare, find, spell, write};
use crate::{ExportSummary, Source, WavesError};
use std::io::Write;
use trace_core::progress::Progress;

/// Writes a VCD file; times are nanoseconds.
///
/// # Errors
///
/// When `to` cannot be written or the work is cancelled.
pub fn vcd(source: &Source<'_>, to: &mut dyn Write, progress: &Progress) -> Result<ExportSummary, WavesError> {
    let signals = find(source, progress)?;
    writeln!(to, "$version Kinescope {} $end", env!("CARGO_PKG_VERSION"))?;
    writeln!(to, "$timescale 1 ns $end")?;
    let mut place = 0;
    declare(&signals, |line| match line {
        DeclarationLine::Scope(name) => writeln!(to, "$scope module {name} $end"),
        DeclarationLine::Up => writeln!(to, "$upscope $end"),
        DeclarationLine::Signal(s) => {
            let kind = if s.bits == 1 { "wire" } else { "reg" };
            let done = writeln!(to, "$var {kind} {} {} {} $end", s.bits, code(place), s.name);
            place += 1;
            done
        }
    })?;
    writeln!(to, "$enddefinitions $end")?;
    let codes = (0..signals.len()).map(code).collect();
    let digits = Vec::new();
    let mut body = Text { to, codes, digits };
    write(source, &signals, progress, &mut body)
}

/// Returns the short identifier of a signal: printable characters, `!` to `~`, the lowest digit first.
fn code(mut n: usize) -> String {
    let mut out = String::new();
    loop {
        out.push(char::from(b'!' + (n % 94) as u8));
        n /= 94;
        if n == 0 {
            return out;
        }
        n -= 1;
    }
}

struct Text<'a> {
    to: &'a mut dyn Write,
    codes: Vec<String>,
    digits: Vec<u8>,
}

impl Body for Text<'_> {
    fn time(&mut self, time: u64) -> Result<(), WavesError> {
        Ok(writeln!(self.to, "#{time}")?)
    }

    fn change(&mut self, signal: usize, bits: u32, value: Value) -> Result<(), WavesError> {
        let Some(code) = self.codes.get(signal) else {
            return Ok(());
        };
        spell(bits, value, &mut self.digits);
        if bits > 1 {
            // Leading zeros carry no information: a reader adds them. A leading x would be extended, so one stays.
            let zeros = self.digits.iter().take_while(|d| **d == b'0').count();
            let from = zeros.min(self.digits.len().saturating_sub(1));
            // A remaining zero keeps an x from being extended to the missing digits.
            let from = match self.digits.get(from) {
                Some(b'x') => from.saturating_sub(1),
                _ => from,
            };
            self.to.write_all(b"b")?;
            self.to.write_all(self.digits.get(from..).unwrap_or_default())?;
            self.to.write_all(b" ")?;
        } else {
            self.to.write_all(&self.digits)?;
        }
        Ok(writeln!(self.to, "{code}")?)
    }

    fn note(&mut self, text: &str) -> Result<(), WavesError> {
        // A VCD keyword starts with a dollar sign; a comment ends with one.
        let plain = |c: char| if c == '$' || c.is_control() { ' ' } else { c };
        let text: String = text.chars().map(plain).collect();
        Ok(writeln!(self.to, "$comment mark: {text} $end")?)
    }
}

#[cfg(test)]
mod tests {
    use super::code;

    #[test]
    fn codes_are_printable_and_different() {
        let mut all: Vec<String> = (0..20_000).map(code).collect();
        assert!(all.iter().all(|c| c.bytes().all(|b| (b'!'..=b'~').contains(&b))));
        assert_eq!((all[0].as_str(), all[93].as_str(), all[94].as_str()), ("!", "~", "!!"));
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 20_000);
    }
}
