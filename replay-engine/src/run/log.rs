//! The packed events of a run in progress, in blocks that never move. A target with little memory can hold many of
//! them, and sends them without assembling them.
//!
//! `docs/agent-protocol.md` specifies the bytes.

use trace_core::recording::{Access, EventsBuilder, HostWriteRow, InterruptRow};
use trace_core::{PhysAddr, RegOffset};

/// Size of a block, bytes. A row never crosses the end of one.
const BLOCK: usize = 256 << 10;
/// Maximum size of a row, bytes: tag, space, and three numbers or two and a value.
const MAX_ROW: usize = 2 + 3 * 10;
/// Maximum number of rows that are read: more than any verified plan produces.
const MAX_ROWS: u64 = 1 << 25;

const READ: u8 = 0;
const WRITE: u8 = 1;
const INTERRUPT: u8 = 2;
const HOST_WRITE: u8 = 3;
/// Bits 3 and 2 of a tag: the base-2 logarithm of the width.
const WIDTH_AT: u8 = 2;
/// A space byte follows. Without it, the space is that of the previous access.
const SPACE: u8 = 1 << 4;
/// There is no offset: the access starts where the previous one ended.
const GOES_ON: u8 = 1 << 5;

/// The error for bytes that are not the events of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// An unknown tag.
    #[error("row {row} of the run's events has the tag {tag:#04x}, which none has")]
    Tag {
        /// Index of the row.
        row: u64,
        /// The tag.
        tag: u8,
    },
    /// A number that is too long or too large for its field.
    #[error("row {row} of the run's events has a number that is too large")]
    Number {
        /// Index of the row.
        row: u64,
    },
    /// The bytes end inside a row.
    #[error("the run's events are cut off in row {row}")]
    Cut {
        /// Index of the row.
        row: u64,
    },
    /// There are more rows than any plan produces.
    #[error("the run has more than {MAX_ROWS} events")]
    TooMany,
}

/// The base of the next row's differences; writer and reader keep the same one.
#[derive(Clone, Copy, Debug, Default)]
struct DeltaBase {
    time: u64,
    space: u8,
    /// End of the last access.
    end: u32,
}

/// Events of a run, in order.
#[derive(Debug, Default)]
pub(crate) struct EventLog {
    /// Full blocks.
    full: Vec<Vec<u8>>,
    /// The block in use.
    last: Vec<u8>,
    before: DeltaBase,
}

fn number(to: &mut Vec<u8>, mut n: u64) {
    while n > 0x7f {
        to.push(n as u8 | 0x80);
        n >>= 7;
    }
    to.push(n as u8);
}

/// Encodes a signed difference so that small differences are small numbers.
fn zigzag(d: i64) -> u64 {
    (d << 1 ^ d >> 63) as u64
}

fn unzigzag(n: u64) -> i64 {
    (n >> 1) as i64 ^ -((n & 1) as i64)
}

impl EventLog {
    /// Returns a block with room for a row.
    fn room(&mut self) -> &mut Vec<u8> {
        if self.last.len() + MAX_ROW > self.last.capacity() {
            let full = std::mem::replace(&mut self.last, Vec::with_capacity(BLOCK));
            if !full.is_empty() {
                self.full.push(full);
            }
        }
        &mut self.last
    }

    fn since(&mut self, time: u64) -> u64 {
        let step = zigzag(time.wrapping_sub(self.before.time) as i64);
        self.before.time = time;
        step
    }

    /// Adds a read or a write. Its width is 1, 2, 4 or 8.
    pub fn access(&mut self, time: u64, access: &Access) {
        let step = self.since(time);
        let DeltaBase { space, end, .. } = self.before;
        let log2 = access.width.trailing_zeros().min(3) as u8;
        let moved = access.space != space;
        let goes_on = !moved && access.offset == RegOffset::new(end);
        let mut tag = if access.write { WRITE } else { READ } | log2 << WIDTH_AT;
        tag |= if moved { SPACE } else { 0 } | if goes_on { GOES_ON } else { 0 };
        self.before.space = access.space;
        self.before.end = access.offset.wrapping_add(1 << log2).get();
        let to = self.room();
        to.push(tag);
        if moved {
            to.push(access.space);
        }
        number(to, step);
        if !goes_on {
            number(to, access.offset.get().into());
        }
        to.extend(access.value.to_le_bytes().iter().take(1 << log2));
    }

    /// Adds an interrupt on a line. The handler's reads show its status.
    pub fn interrupt(&mut self, time: u64, line: u32) {
        let step = self.since(time);
        let to = self.room();
        to.push(INTERRUPT);
        number(to, step);
        number(to, line.into());
    }

    /// Adds a piece of a page that the CPU wrote. The resulting page is stored separately.
    pub fn host_write(&mut self, time: u64, at: PhysAddr, bytes: u32) {
        let step = self.since(time);
        let to = self.room();
        to.push(HOST_WRITE);
        number(to, step);
        number(to, at.get());
        number(to, bytes.into());
    }

    /// Returns the number of bytes.
    pub fn bytes(&self) -> u64 {
        self.blocks().map(|b| b.len() as u64).sum()
    }

    /// Returns the bytes in order, one block at a time.
    pub fn blocks(&self) -> impl Iterator<Item = &[u8]> {
        self.full.iter().map(Vec::as_slice).chain([self.last.as_slice()])
    }

    /// Returns the bytes, consuming each block.
    pub fn into_blocks(self) -> impl Iterator<Item = Vec<u8>> {
        self.full.into_iter().chain([self.last])
    }
}

/// A reader of rows.
struct Reader<'a> {
    rest: &'a [u8],
    row: u64,
    before: DeltaBase,
}

impl Reader<'_> {
    fn byte(&mut self) -> Result<u8, LogError> {
        let (first, rest) = self.rest.split_first().ok_or(LogError::Cut { row: self.row })?;
        self.rest = rest;
        Ok(*first)
    }

    fn number(&mut self) -> Result<u64, LogError> {
        let too_large = LogError::Number { row: self.row };
        let mut n = 0u64;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return Err(too_large);
            }
            n |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(n);
            }
        }
        Err(too_large)
    }

    fn small(&mut self) -> Result<u32, LogError> {
        let row = self.row;
        u32::try_from(self.number()?).map_err(|_| LogError::Number { row })
    }

    fn time(&mut self) -> Result<u64, LogError> {
        let step = unzigzag(self.number()?);
        self.before.time = self.before.time.wrapping_add(step as u64);
        Ok(self.before.time)
    }

    fn access(&mut self, tag: u8) -> Result<(u64, Access), LogError> {
        if tag & SPACE != 0 {
            self.before.space = self.byte()?;
        }
        let time = self.time()?;
        let width = 1u8 << (tag >> WIDTH_AT & 3);
        let offset = if tag & GOES_ON == 0 {
            self.small()?
        } else {
            self.before.end
        };
        self.before.end = offset.wrapping_add(width.into());
        let mut value = [0; 8];
        for byte in value.iter_mut().take(width.into()) {
            *byte = self.byte()?;
        }
        let access = Access {
            space: self.before.space,
            write: tag & 3 == WRITE,
            offset: RegOffset::new(offset),
            width,
            value: u64::from_le_bytes(value),
        };
        Ok((time, access))
    }
}

/// Decodes packed events. `pages` holds the pages after the host writes, in order; a missing entry is a page of zeros.
///
/// # Errors
/// If the bytes are not such events, or too many.
pub(crate) fn unpack(bytes: &[u8], pages: &[u32]) -> Result<EventsBuilder, LogError> {
    let mut events = EventsBuilder::new();
    let mut pages = pages.iter();
    let mut reader = Reader {
        rest: bytes,
        row: 0,
        before: DeltaBase::default(),
    };
    while !reader.rest.is_empty() {
        if reader.row >= MAX_ROWS {
            return Err(LogError::TooMany);
        }
        let tag = reader.byte()?;
        match (tag & 3, tag >> WIDTH_AT) {
            (READ | WRITE, flags) if flags < 1 << 4 => {
                let (time, access) = reader.access(tag)?;
                events.access(time, 0, access);
            }
            (INTERRUPT, 0) => {
                let time = reader.time()?;
                let line = reader.small()?;
                events.interrupt(time, InterruptRow { line, status: 0 });
            }
            (HOST_WRITE, 0) => {
                let (time, at, bytes) = (reader.time()?, reader.number()?, reader.small()?);
                let page = pages.next().copied().unwrap_or(0);
                events.host_write(
                    time,
                    0,
                    HostWriteRow {
                        at: PhysAddr::new(at),
                        bytes,
                        page,
                    },
                );
            }
            _ => return Err(LogError::Tag { row: reader.row, tag }),
        }
        reader.row += 1;
    }
    Ok(events)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(space: u8, write: bool, offset: u32, width: u8, value: u64) -> Access {
        Access {
            space,
            write,
            offset: RegOffset::new(offset),
            width,
            value,
        }
    }

    #[test]
    fn packed_event_log_round_trips_across_blocks() {
        let mut log = EventLog::default();
        let mut builder = EventsBuilder::new();
        let mut time = 1 << 60;
        for n in 0..200_000u32 {
            // The log has runs of stores with registers between them. The clock steps back at times.
            time = if n % 1000 == 7 {
                time - 5
            } else {
                time + u64::from(n % 300)
            };
            let a = match n % 50 {
                0 => access(0, false, n << 8, 4, 0xffff_ffff),
                1 => access(0, true, u32::MAX, 1, 0x80),
                _ => access(2, true, n * 8, 8, u64::MAX - u64::from(n)),
            };
            log.access(time, &a);
            builder.access(time, 0, a);
            if n % 5000 == 0 {
                log.interrupt(time, n % 32);
                let (line, status) = (n % 32, 0);
                builder.interrupt(time, InterruptRow { line, status });
                let at = u64::MAX - u64::from(n);
                log.host_write(time, PhysAddr::new(at), 4096);
                builder.host_write(
                    time,
                    0,
                    HostWriteRow {
                        at: PhysAddr::new(at),
                        bytes: 4096,
                        page: n,
                    },
                );
            }
        }
        let pages: Vec<u32> = (0..40).map(|n| n * 5000).collect();
        let bytes: Vec<u8> = log.blocks().flatten().copied().collect();
        assert_eq!(bytes.len() as u64, log.bytes());
        assert!(log.blocks().count() > 2 && log.blocks().all(|b| b.len() <= BLOCK));
        let read = unpack(&bytes, &pages).unwrap().finish();
        let events = builder.finish();
        assert_eq!(format!("{read:?}"), format!("{events:?}"));
        for event in 0..events.len() {
            assert_eq!(read.access(event), events.access(event));
            assert_eq!(read.host_write(event), events.host_write(event));
            assert_eq!(read.time.get(event), events.time.get(event));
        }
        // A store that starts at the end of the previous one needs a tag, a time and its value.
        assert!(bytes.len() < 200_000 * 12, "{}", bytes.len());
    }

    #[test]
    fn invalid_log_bytes_are_refused_with_their_row() {
        let good = [WRITE | 2 << WIDTH_AT, 0, 4, 1, 2, 3, 4];
        assert!(unpack(&good, &[]).is_ok());
        for cut in 1..good.len() {
            let result = unpack(&good[..cut], &[]).map(|e| e.len());
            assert_eq!(result, Err(LogError::Cut { row: 0 }), "{cut}");
        }
        let with = |more: &[u8]| unpack(&[&good[..], more].concat(), &[]).map(|e| e.len());
        assert_eq!(with(&[0x40]), Err(LogError::Tag { row: 1, tag: 0x40 }));
        assert_eq!(with(&[INTERRUPT | 4]), Err(LogError::Tag { row: 1, tag: 6 }));
        let large = [&[INTERRUPT][..], &[0xff; 9], &[2]].concat();
        assert_eq!(with(&large), Err(LogError::Number { row: 1 }));
        let offset = [READ, 0, 0xff, 0xff, 0xff, 0xff, 0x7f, 0];
        assert_eq!(with(&offset), Err(LogError::Number { row: 1 }));
    }
}
