//! Where the bytes of an address lie: what copies and fills read and write, checked against the table.

use super::arena::Bytes;
use super::process;
use super::table::{Kind, READ, READ_WRITE, Range, around, ranges};
use crate::Answer;
use crate::codes::INVALID_VALUE;
use std::sync::Arc;

/// Bytes that lie together.
pub enum Spot {
    /// The driver reaches them itself, and holds what keeps them.
    Direct {
        /// The first one.
        at: u64,
        /// How many.
        bytes: usize,
        /// What keeps them.
        memory: Option<Arc<Bytes>>,
    },
    /// They are the program's own.
    Program {
        /// The first one.
        at: u64,
        /// How many.
        bytes: usize,
    },
}

/// What is asked for.
#[derive(Clone, Copy)]
pub struct Want {
    /// It has to be memory that the device knows.
    pub device: bool,
    /// It is written.
    pub write: bool,
    /// The turn of what was begun earlier has come: memory that was freed since in a stream is still there for it.
    pub turn: bool,
}

impl Spot {
    fn bytes(&self) -> usize {
        match self {
            Self::Direct { bytes, .. } | Self::Program { bytes, .. } => *bytes,
        }
    }
}

fn allowed(range: &Range, want: Want) -> bool {
    let needed = if want.write { READ_WRITE } else { READ };
    range.access & needed == needed && (want.turn || !range.going)
}

/// Where these bytes lie. Only mappings of `cuMemMap` run on into the next one.
pub fn spots(at: u64, bytes: usize, want: Want) -> Answer<Vec<Spot>> {
    let ranges = ranges();
    let mut found = Vec::new();
    let (mut at, mut left) = (at, bytes);
    let mut before = None;
    while left > 0 {
        let Some(range) = around(&ranges, at) else {
            if want.device || before.is_some() || at.checked_add(left as u64).is_none() || at == 0 {
                return Err(INVALID_VALUE);
            }
            return Ok(vec![Spot::Program { at, bytes: left }]);
        };
        let runs_on = before.is_none_or(|kind| kind == Kind::Mapped && range.kind == Kind::Mapped);
        if !runs_on || !allowed(range, want) {
            return Err(INVALID_VALUE);
        }
        let here = left.min(usize::try_from(range.end() - at).unwrap_or(usize::MAX));
        found.push(match range.kind {
            Kind::Registered => Spot::Program { at, bytes: here },
            _ => Spot::Direct { at: range.host + (at - range.at), bytes: here, memory: range.memory.clone() },
        });
        before = Some(range.kind);
        left -= here;
        at += here as u64;
    }
    Ok(found)
}

/// Whether the driver knows the memory, so that it is read and written when its turn comes.
pub fn is_pinned(at: u64) -> bool {
    around(&ranges(), at).is_some_and(|range| !range.going)
}

fn pointer(at: u64) -> *mut u8 {
    std::ptr::with_exposed_provenance_mut(at as usize)
}

/// Copies what lies here to there; both are of as many bytes.
pub fn copy(from: &[Spot], to: &[Spot]) -> Answer {
    let (mut sources, mut places) = (from.iter(), to.iter());
    let (mut source, mut place) = (sources.next(), places.next());
    let (mut read, mut written) = (0, 0);
    while let (Some(a), Some(b)) = (source, place) {
        let count = (a.bytes() - read).min(b.bytes() - written);
        move_bytes(a, read, b, written, count)?;
        (read, written) = (read + count, written + count);
        if read == a.bytes() {
            (source, read) = (sources.next(), 0);
        }
        if written == b.bytes() {
            (place, written) = (places.next(), 0);
        }
    }
    Ok(())
}

fn move_bytes(from: &Spot, read: usize, to: &Spot, written: usize, count: usize) -> Answer {
    let done = match (from, to) {
        (Spot::Direct { at: a, .. }, Spot::Direct { at: b, .. }) => {
            let (a, b) = (pointer(*a).wrapping_add(read), pointer(*b).wrapping_add(written));
            // SAFETY: both lie in memory that the spots keep. What else may reach it at the same time is another
            // stream's work or the program itself, and then it is the program that has to put them in order.
            unsafe { std::ptr::copy(a, b, count) };
            true
        }
        (Spot::Direct { at: a, .. }, Spot::Program { at: b, .. }) => {
            // SAFETY: as above; the slice is looked at by the kernel alone.
            let bytes = unsafe { std::slice::from_raw_parts(pointer(*a).wrapping_add(read), count) };
            process::write(b + written as u64, bytes)
        }
        (Spot::Program { at: a, .. }, Spot::Direct { at: b, .. }) => {
            // SAFETY: as above; the slice is written by the kernel alone.
            let bytes = unsafe { std::slice::from_raw_parts_mut(pointer(*b).wrapping_add(written), count) };
            process::read(a + read as u64, bytes)
        }
        (Spot::Program { at: a, .. }, Spot::Program { at: b, .. }) => {
            let mut bytes = vec![0; count];
            process::read(a + read as u64, &mut bytes) && process::write(b + written as u64, &bytes)
        }
    };
    if done { Ok(()) } else { Err(INVALID_VALUE) }
}

/// Bytes that are copied at a time where a value is repeated.
const PIECE: usize = 64 << 10;

/// Repeats a value.
pub fn fill(to: &[Spot], value: &[u8]) -> Answer {
    let pattern: Vec<u8> = value.iter().copied().cycle().take(PIECE + value.len()).collect();
    let mut done = 0;
    for place in to {
        let mut here = 0;
        while here < place.bytes() {
            let count = PIECE.min(place.bytes() - here);
            let from = pattern.as_ptr().wrapping_add(done % value.len().max(1));
            let source = Spot::Direct { at: from.expose_provenance() as u64, bytes: count, memory: None };
            move_bytes(&source, 0, place, here, count)?;
            (here, done) = (here + count, done + count);
        }
    }
    Ok(())
}

/// Reads bytes of the program that are wanted at once.
pub fn read_now(from: &[Spot], bytes: usize) -> Answer<Vec<u8>> {
    let mut read = vec![0_u8; bytes];
    let to = Spot::Direct { at: read.as_mut_ptr().expose_provenance() as u64, bytes, memory: None };
    copy(from, &[to])?;
    Ok(read)
}

/// Bytes of the driver's own as a source.
pub fn of_driver(bytes: &[u8]) -> Spot {
    Spot::Direct { at: bytes.as_ptr().expose_provenance() as u64, bytes: bytes.len(), memory: None }
}
