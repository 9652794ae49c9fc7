//! The qtest socket: accesses as lines of text, sent in batches, each answer checked; and changes of interrupt lines.
//!
//! QEMU executes commands in order and answers each with a line. The answer to a write only says that it was done. So
//! writes are held back and sent with the next read. Consecutive stores to plain memory are merged, as a
//! write-combining bus does. At most [`IN_FLIGHT`] bytes are unanswered: they fit into the socket's kernel buffer. So
//! this side never waits for QEMU to read while QEMU waits for this side.

use super::answer::{Answer, number};
use super::error::QemuError;
use super::lines::{LineResult, Lines};
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use trace_core::PhysAddr;

/// Maximum size of held-back commands, bytes.
const BATCH: usize = 16 << 10;
/// Maximum size of unanswered commands, bytes.
const IN_FLIGHT: usize = 96 << 10;
/// Maximum size of merged stores, bytes.
const RUN: usize = 8 << 10;
/// Maximum length of an answer line, bytes: a page in hexadecimal, and some reserve.
const LONGEST: usize = 64 << 10;
/// Bytes per read command.
const PIECE: usize = 16 << 10;

/// The location of an access, for error messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AccessLocation {
    /// Name of the window, `bar2`; `memory`, `ports`.
    pub window: &'static str,
    /// Offset in it.
    pub offset: u64,
}

/// A pending answer.
struct PendingReply {
    place: AccessLocation,
    /// Length of its command, bytes.
    bytes: usize,
}

/// A qtest connection.
pub(super) struct Qtest {
    lines: Lines,
    /// Commands that were not sent yet.
    batch: String,
    /// Pending answers, including those for the batch.
    due: VecDeque<PendingReply>,
    /// Bytes that were sent and not answered.
    in_flight: usize,
    /// Bytes of consecutive stores that are not a command yet.
    run: Vec<u8>,
    /// Address and location of the first one.
    run_at: PhysAddr,
    run_place: AccessLocation,
    /// Bit `n`: interrupt line `n` is raised.
    raised: u64,
}

impl Qtest {
    /// Takes over the socket.
    pub fn new(stream: UnixStream) -> Result<Self, QemuError> {
        Ok(Self {
            lines: Lines::new(stream, LONGEST)?,
            batch: String::with_capacity(BATCH + 2 * RUN + 64),
            due: VecDeque::new(),
            in_flight: 0,
            run: Vec::with_capacity(RUN),
            run_at: PhysAddr::ZERO,
            run_place: AccessLocation { window: "", offset: 0 },
            raised: 0,
        })
    }

    /// Sets the maximum wait for an answer.
    pub fn set_answer_limit(&mut self, limit: Duration) {
        self.lines.answer_limit = limit;
    }

    /// Writes to an address. The answer is checked with those of later commands.
    pub fn write(&mut self, at: PhysAddr, width: u8, value: u64, place: AccessLocation) -> Result<(), QemuError> {
        self.end_run()?;
        self.put(place, |line| {
            writeln!(line, "write{} {at:#x} {value:#x}", letter(width))
        })
    }

    /// Stores bytes in plain memory, in any number of steps.
    pub fn store(&mut self, at: PhysAddr, bytes: &[u8], place: AccessLocation) -> Result<(), QemuError> {
        for (n, piece) in bytes.chunks(RUN).enumerate() {
            let at = at.saturating_add((n * RUN) as u64);
            let follows = at == self.run_at.saturating_add(self.run.len() as u64);
            if !follows || self.run.len().saturating_add(piece.len()) > RUN {
                self.end_run()?;
                (self.run_at, self.run_place) = (at, place);
            }
            self.run.extend_from_slice(piece);
        }
        Ok(())
    }

    /// Reads from an address.
    pub fn read(&mut self, at: PhysAddr, width: u8, place: AccessLocation) -> Result<u64, QemuError> {
        self.end_run()?;
        self.put(place, |line| writeln!(line, "read{} {at:#x}", letter(width)))?;
        self.value(place)
    }

    /// Reads bytes of memory.
    pub fn load(&mut self, at: PhysAddr, bytes: &mut [u8], place: AccessLocation) -> Result<(), QemuError> {
        self.end_run()?;
        for (n, piece) in bytes.chunks_mut(PIECE).enumerate() {
            let at = at.saturating_add((n * PIECE) as u64);
            let length = piece.len();
            self.put(place, |line| writeln!(line, "read {at:#x} {length:#x}"))?;
            self.answered(|value| decode(value, piece))?
                .ok_or_else(|| self.odd(place))?;
        }
        Ok(())
    }

    /// Writes to an x86 port.
    pub fn port_out(&mut self, port: u64, width: u8, value: u64, place: AccessLocation) -> Result<(), QemuError> {
        self.end_run()?;
        self.put(place, |line| {
            writeln!(line, "out{} {port:#x} {value:#x}", letter(width))
        })
    }

    /// Reads from an x86 port.
    pub fn port_in(&mut self, port: u64, width: u8, place: AccessLocation) -> Result<u64, QemuError> {
        self.end_run()?;
        self.put(place, |line| writeln!(line, "in{} {port:#x}", letter(width)))?;
        self.value(place)
    }

    /// Enables reports of I/O APIC interrupt line changes.
    pub fn intercept(&mut self) -> Result<(), QemuError> {
        let place = AccessLocation {
            window: "interrupt lines",
            offset: 0,
        };
        self.put(place, |line| writeln!(line, "irq_intercept_in ioapic"))?;
        self.settle()
    }

    /// Waits until all commands are done.
    pub fn settle(&mut self) -> Result<(), QemuError> {
        self.end_run()?;
        self.send()?;
        while !self.due.is_empty() {
            self.answer(|_| ())?;
        }
        Ok(())
    }

    /// Returns whether an interrupt line is raised, according to QEMU's last report.
    pub fn is_raised(&self, line: u32) -> bool {
        self.raised.checked_shr(line).unwrap_or(0) & 1 != 0
    }

    /// Reads QEMU's interrupt reports until the line is raised or the limit is over. With a limit of 0 it reads only
    /// the reports that have arrived. No answer may be pending.
    pub fn wait(&mut self, line: u32, limit: Duration) -> Result<bool, QemuError> {
        let started = Instant::now();
        loop {
            // Reports that have arrived are read to the end, so that a line that fell again does not count.
            let left = match self.is_raised(line) {
                true => Duration::ZERO,
                false => limit.saturating_sub(started.elapsed()),
            };
            match self.lines.next(left)? {
                LineResult::Line => self.interrupt()?,
                LineResult::Nothing if self.is_raised(line) || left.is_zero() || started.elapsed() >= limit => {
                    return Ok(self.is_raised(line));
                }
                LineResult::Nothing => {}
                LineResult::Closed => return Err(QemuError::closed()),
            }
        }
    }

    /// Turns the held-back stores into a command.
    fn end_run(&mut self) -> Result<(), QemuError> {
        if self.run.is_empty() {
            return Ok(());
        }
        let run = std::mem::take(&mut self.run);
        let (at, place) = (self.run_at, self.run_place);
        let result = self.put(place, |line| match *run.as_slice() {
            [a] => writeln!(line, "writeb {at:#x} {a:#x}"),
            [a, b] => writeln!(line, "writew {at:#x} {:#x}", u16::from_le_bytes([a, b])),
            [a, b, c, d] => writeln!(line, "writel {at:#x} {:#x}", u32::from_le_bytes([a, b, c, d])),
            ref bytes if bytes.iter().all(|b| Some(b) == bytes.first()) => {
                let value = bytes.first().copied().unwrap_or(0);
                writeln!(line, "memset {at:#x} {:#x} {value:#x}", bytes.len())
            }
            ref bytes => {
                write!(line, "write {at:#x} {:#x} 0x", bytes.len())?;
                encode(bytes, line);
                line.push('\n');
                Ok(())
            }
        });
        // The buffer is reused.
        self.run = run;
        self.run.clear();
        result
    }

    /// Adds a command to the batch, and sends the batch if it is full.
    fn put(
        &mut self,
        place: AccessLocation,
        say: impl FnOnce(&mut String) -> std::fmt::Result,
    ) -> Result<(), QemuError> {
        let before = self.batch.len();
        if say(&mut self.batch).is_err() {
            return Err(self.odd(place));
        }
        let bytes = self.batch.len().saturating_sub(before);
        self.due.push_back(PendingReply { place, bytes });
        if self.batch.len() >= BATCH { self.send() } else { Ok(()) }
    }

    /// Sends the batch, once QEMU has answered enough earlier commands.
    fn send(&mut self) -> Result<(), QemuError> {
        if self.batch.is_empty() {
            return Ok(());
        }
        while self.in_flight > 0 && self.in_flight.saturating_add(self.batch.len()) > IN_FLIGHT {
            self.answer(|_| ())?;
        }
        self.lines.send(self.batch.as_bytes())?;
        self.in_flight = self.in_flight.saturating_add(self.batch.len());
        self.batch.clear();
        Ok(())
    }

    /// Reads the answer to the last command, and the answers before it.
    fn answered<T>(&mut self, mut read: impl FnMut(&str) -> T) -> Result<T, QemuError> {
        self.send()?;
        while self.due.len() > 1 {
            self.answer(|_| ())?;
        }
        self.answer(&mut read)
    }

    /// Returns the number in the answer to the last command.
    fn value(&mut self, place: AccessLocation) -> Result<u64, QemuError> {
        self.answered(number)?.ok_or_else(|| self.odd(place))
    }

    /// Reads the next answer, and the interrupt reports before it.
    fn answer<T>(&mut self, read: impl FnOnce(&str) -> T) -> Result<T, QemuError> {
        loop {
            self.lines.answer()?;
            let answer = Answer::parse(self.lines.line());
            if let Answer::Interrupt { .. } = answer {
                self.interrupt()?;
                continue;
            }
            let due = self.due.pop_front();
            let place = due.as_ref().map_or(self.run_place, |d| d.place);
            self.in_flight = self.in_flight.saturating_sub(due.map_or(0, |d| d.bytes));
            return match answer {
                Answer::Done { value } => Ok(read(value)),
                Answer::Refused { line } => Err(QemuError::Refused {
                    what: describe_location(place),
                    answer: line.chars().take(200).collect(),
                }),
                _ => Err(self.odd(place)),
            };
        }
    }

    /// Processes the last line as an interrupt report.
    fn interrupt(&mut self) -> Result<(), QemuError> {
        let Answer::Interrupt { number, raised } = Answer::parse(self.lines.line()) else {
            return Err(self.odd(AccessLocation {
                window: "interrupt lines",
                offset: 0,
            }));
        };
        let bit = 1u64.checked_shl(number).unwrap_or(0);
        self.raised = if raised { self.raised | bit } else { self.raised & !bit };
        Ok(())
    }

    fn odd(&self, place: AccessLocation) -> QemuError {
        QemuError::Odd {
            what: describe_location(place),
            line: String::from_utf8_lossy(self.lines.line()).chars().take(80).collect(),
        }
    }
}

fn describe_location(place: AccessLocation) -> String {
    format!("access at {:#x} of {}", place.offset, place.window)
}

/// Returns the protocol's letter for a width.
fn letter(width: u8) -> char {
    match width {
        1 => 'b',
        2 => 'w',
        4 => 'l',
        _ => 'q',
    }
}

const DIGITS: [char; 16] = [
    '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f',
];

fn encode(bytes: &[u8], line: &mut String) {
    let digit = |n: u8| DIGITS.get(usize::from(n & 15)).copied().unwrap_or('0');
    line.extend(bytes.iter().flat_map(|b| [digit(b >> 4), digit(*b)]));
}

/// Parses `0x` and two digits for each byte. Returns `None` for other digits or another length.
fn decode(text: &str, bytes: &mut [u8]) -> Option<()> {
    let digits = text.strip_prefix("0x")?.as_bytes();
    if digits.len() != bytes.len().checked_mul(2)? {
        return None;
    }
    let digit = |d: u8| char::from(d).to_digit(16);
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let &[high, low] = pair else { return None };
        *byte = u8::try_from(digit(high)? << 4 | digit(low)?).ok()?;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::thread::JoinHandle;

    const HERE: AccessLocation = AccessLocation {
        window: "bar2",
        offset: 0x14,
    };

    /// Creates the peer. It answers each line with `reply` and returns all lines at its end.
    fn peer(mut reply: impl FnMut(&str) -> String + Send + 'static) -> (Qtest, JoinHandle<Vec<String>>) {
        let (here, far_end) = UnixStream::pair().unwrap();
        let thread = std::thread::spawn(move || {
            let mut received = Vec::new();
            let mut to = far_end.try_clone().unwrap();
            for line in BufReader::new(far_end).lines().map_while(Result::ok) {
                let answer = reply(&line);
                received.push(line);
                if to.write_all(answer.as_bytes()).is_err() {
                    break;
                }
            }
            received
        });
        (Qtest::new(here).unwrap(), thread)
    }

    #[test]
    fn writes_are_sent_with_the_next_read_and_stores_are_merged() {
        let (mut q, received) = peer(|line| match line.starts_with("read") {
            true => "IRQ raise 11\nOK 0x0000000000000012\n".to_owned(),
            false => "OK\n".to_owned(),
        });
        q.write(PhysAddr::new(0x10), 4, 5, HERE).unwrap();
        q.store(PhysAddr::new(0x100), &[1, 2], HERE).unwrap();
        q.store(PhysAddr::new(0x102), &[3], HERE).unwrap();
        q.store(PhysAddr::new(0x103), &[4, 5], HERE).unwrap();
        q.store(PhysAddr::new(0x110), &[6, 0, 0, 0], HERE).unwrap();
        q.store(PhysAddr::new(0x114), &[7; 8], HERE).unwrap();
        q.store(PhysAddr::new(0x200), &[9; 100], HERE).unwrap();
        assert!(!q.is_raised(11));
        assert_eq!(q.read(PhysAddr::new(0x20), 2, HERE).unwrap(), 0x12);
        assert!(q.is_raised(11));
        q.store(PhysAddr::new(0x300), &vec![1; RUN + 1], HERE).unwrap();
        q.settle().unwrap();
        drop(q);
        let long = format!("memset 0x300 {RUN:#x} 0x1");
        assert_eq!(
            received.join().unwrap(),
            [
                "writel 0x10 0x5",
                "write 0x100 0x5 0x0102030405",
                "write 0x110 0xc 0x060000000707070707070707",
                "memset 0x200 0x64 0x9",
                "readw 0x20",
                &long,
                &format!("writeb {:#x} 0x1", 0x300 + RUN),
            ]
        );
    }

    #[test]
    fn refused_qtest_write_is_reported_with_its_address() {
        let (mut q, _) = peer(|line| match line.starts_with("writel") {
            true => "FAIL no\n".to_owned(),
            false => "OK 0x0\n".to_owned(),
        });
        q.write(PhysAddr::new(0x10), 4, 5, HERE).unwrap();
        let e = q.read(PhysAddr::new(0x20), 4, HERE).unwrap_err().to_string();
        assert_eq!(e, "QEMU refused the access at 0x14 of bar2: FAIL no");
    }

    #[test]
    fn malformed_qtest_replies_and_eof_are_errors() {
        for (answer, what) in [
            ("OK\n", "not a valid answer"),
            ("OK 0xx\n", "not a valid answer"),
            ("what\n", "not a valid answer"),
        ] {
            let (mut q, _) = peer(move |_| answer.to_owned());
            let e = q.read(PhysAddr::ZERO, 4, HERE).unwrap_err().to_string();
            assert!(e.contains(what), "{e}");
        }
        let (here, far_end) = UnixStream::pair().unwrap();
        drop(far_end);
        let mut q = Qtest::new(here).unwrap();
        assert!(matches!(q.read(PhysAddr::ZERO, 4, HERE), Err(QemuError::Ended { .. })));
        assert!(matches!(
            q.wait(0, Duration::from_secs(1)),
            Err(QemuError::Ended { .. })
        ));
    }

    #[test]
    fn qtest_command_flood_does_not_deadlock() {
        let (mut q, received) = peer(|_| "OK\n".to_owned());
        for n in 0..100_000 {
            q.write(PhysAddr::new(n), 4, n, HERE).unwrap();
        }
        q.settle().unwrap();
        drop(q);
        assert_eq!(received.join().unwrap().len(), 100_000);
    }

    #[test]
    fn memory_is_read_in_pieces() {
        let (mut q, received) = peer(|line| {
            let length = line.split(' ').nth(2).and_then(number).unwrap();
            format!("OK 0x{}\n", "a5".repeat(length as usize))
        });
        let mut bytes = vec![0; PIECE + 3];
        q.load(PhysAddr::new(0x1000), &mut bytes, HERE).unwrap();
        assert!(bytes.iter().all(|b| *b == 0xa5));
        drop(q);
        assert_eq!(received.join().unwrap(), ["read 0x1000 0x4000", "read 0x5000 0x3"]);
    }

    #[test]
    fn lowered_irq_line_is_not_raised() {
        let (here, mut far_end) = UnixStream::pair().unwrap();
        let mut q = Qtest::new(here).unwrap();
        far_end.write_all(b"IRQ raise 0\nIRQ raise 11\nIRQ lower 11\n").unwrap();
        assert!(!q.wait(11, Duration::ZERO).unwrap());
        assert!(q.is_raised(0));
        assert!(!q.wait(11, Duration::from_millis(20)).unwrap());
        far_end.write_all(b"IRQ raise 11\n").unwrap();
        assert!(q.wait(11, Duration::from_secs(20)).unwrap());
    }
}
