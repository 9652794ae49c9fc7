//! Waveforms as VCD (IEEE 1364, clause 18): text, read by every viewer.

use crate::changes::Value;
use crate::names::Signal;
use crate::sink::{Body, DeclarationLine, declare, find, spell, write};
use crate::{Clock, ExportSummary, Source, WavesError};
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
    if source.clock == Clock::Time && source.recording.counts_ticks() {
        writeln!(to, "$comment The clock counts ticks. A nanosecond is one tick. $end")?;
    }
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

    fn initial_values(&mut self, signals: &[Signal]) -> Result<(), WavesError> {
        writeln!(self.to, "$dumpvars")?;
        for (n, signal) in signals.iter().enumerate() {
            self.change(n, signal.bits, signal.key.initial_value())?;
        }
        Ok(writeln!(self.to, "$end")?)
    }

    fn change(&mut self, signal: usize, bits: u32, value: Value) -> Result<(), WavesError> {
        let Some(code) = self.codes.get(signal) else {
            return Ok(());
        };
        spell(bits, value, &mut self.digits);
        if bits > 1 {
            // Leading zeros and all but one leading x carry no information: a reader adds them.
            let first = self.digits.first().copied().unwrap_or(b'0');
            let alike = match first {
                b'0' | b'x' => self.digits.iter().take_while(|d| **d == first).count(),
                _ => 0,
            };
            let rest = alike.min(self.digits.len().saturating_sub(1));
            let from = match (first, self.digits.get(rest)) {
                (b'x', Some(b'x')) => rest,
                (b'x', _) => rest.saturating_sub(1),
                // A remaining zero keeps an x from being extended to the missing digits.
                (_, Some(b'x')) => rest.saturating_sub(1),
                _ => rest,
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
    use super::{code, vcd};
    use crate::{Clock, Source};
    use trace_core::progress::Progress;
    use trace_core::recording::{Access, EventsBuilder};
    use trace_core::timeline::Timeline;
    use trace_core::{Recording, RegOffset};

    fn vcd_of(accesses: &[(bool, u32, u8, u64)]) -> String {
        let mut events = EventsBuilder::new();
        for (time, (write, offset, width, value)) in (100u64..).zip(accesses.iter().copied()) {
            let access = Access {
                space: 0,
                write,
                offset: RegOffset::new(offset),
                width,
                value,
            };
            events.access(time, 1, access);
        }
        let recording = Recording {
            events: events.finish(),
            ..Recording::default()
        };
        let source = Source {
            recording: &recording,
            timeline: &Timeline::default(),
            events: None,
            clock: Clock::Time,
        };
        let mut out = Vec::new();
        vcd(&source, &mut out, &Progress::new()).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_file_starts_with_the_values_of_all_signals() {
        let text = vcd_of(&[(true, 0x10, 4, 0x1234_5678)]);
        let body = text.split_once("$enddefinitions $end\n").unwrap().1;
        // The signals are the event, the register's value and its writes.
        let expected = "#100\n$dumpvars\nbx !\nbx \"\nb0 #\n$end\nb0 !\nb1 #\nb10010001101000101011001111000 \"\n";
        assert_eq!(body, expected);
        let empty = vcd_of(&[]);
        assert!(empty.ends_with("#0\n$dumpvars\nbx !\n$end\n"), "{empty}");
    }

    #[test]
    fn accesses_of_other_widths_change_the_locations_over_the_same_bytes() {
        let text = vcd_of(&[
            (true, 0x12, 1, 0xab),
            (true, 0x10, 4, 0),
            (true, 0x12, 1, 0x7),
            (true, 0x0c, 8, 0x5_0000_0009),
        ]);
        let last_of = |name: &str| {
            let declared = text.lines().find(|l| l.contains(&format!(" {name} $end"))).unwrap();
            let code = declared.split(' ').nth(3).unwrap();
            let end = format!(" {code}");
            let values = text.lines().filter(|l| l.starts_with('b') && l.ends_with(&end));
            values.map(|l| l[..l.len() - end.len()].to_owned()).collect::<Vec<_>>()
        };
        // The first value of the wider location has one known byte.
        assert_eq!(
            last_of("at_10"),
            ["bx", "bx10101011xxxxxxxxxxxxxxxx", "b0", "b1110000000000000000", "b101"]
        );
        assert_eq!(last_of("at_12"), ["bx", "b10101011", "b0", "b111", "b0"]);
        let wide = last_of("at_c");
        assert_eq!(wide.last().unwrap(), &format!("b{:b}", 0x5_0000_0009u64));
        assert_eq!(wide.len(), 5);
    }

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
