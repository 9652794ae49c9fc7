//! What an action costs on a memory-backed device, against a loop that loads offset and value, checks and writes.

#![allow(clippy::unwrap_used, reason = "a benchmark that cannot start says so")]

use divan::{Bencher, black_box, counter::ItemsCount};
use replay_core::{
    Action, Actions, Budget, Device, DeviceError, Encoder, MAX_ACTION_BYTES, ReadClass, WaitResult, execute,
};

const ACTIONS: u32 = 100_000;
const WINDOW: usize = 0x4000;

fn main() {
    divan::main();
}

/// Registers that are memory.
struct Memory(Box<[u32; WINDOW / 4]>);

impl Device for Memory {
    #[inline]
    fn read(&mut self, space: u8, offset: u64, width: u8) -> Result<u64, DeviceError> {
        if space != 0 {
            return Err(DeviceError::NoSpace);
        }
        if width != 4 || offset & 3 != 0 {
            return Err(DeviceError::Misaligned);
        }
        self.0
            .get(offset as usize / 4)
            .map(|v| u64::from(*v))
            .ok_or(DeviceError::OutOfRange)
    }
    #[inline]
    fn write(&mut self, space: u8, offset: u64, width: u8, value: u64) -> Result<(), DeviceError> {
        if space != 0 {
            return Err(DeviceError::NoSpace);
        }
        if width != 4 || offset & 3 != 0 {
            return Err(DeviceError::Misaligned);
        }
        let r = self.0.get_mut(offset as usize / 4).ok_or(DeviceError::OutOfRange)?;
        *r = value as u32;
        Ok(())
    }
    fn wait_interrupt(&mut self, lines: u32, _: u64) -> Result<WaitResult, DeviceError> {
        Ok(WaitResult::Raised { lines })
    }
    fn pause(&mut self, _: u64) -> Result<(), DeviceError> {
        Ok(())
    }
    fn now_ns(&mut self) -> u64 {
        0
    }
}

fn memory() -> Memory {
    Memory(Box::new([0; WINDOW / 4]))
}

/// Offsets as a driver uses them: anywhere in the window, most of them of two bytes in the encoding.
fn offset(i: u32) -> u32 {
    (i.wrapping_mul(2_654_435_761) >> 16) % (WINDOW as u32 / 4) * 4
}

fn encode(actions: impl Iterator<Item = Action>) -> Vec<u8> {
    let mut room = vec![0; MAX_ACTION_BYTES * ACTIONS as usize];
    let mut e = Encoder::new(&mut room);
    for a in actions {
        e.push(&a).unwrap();
    }
    let used = e.len();
    room.truncate(used);
    room
}

/// The yardstick: a table of offsets and values in, checked writes out.
#[divan::bench]
fn plain_loop_of_writes(b: Bencher<'_, '_>) {
    let table: Vec<(u32, u32)> = (0..ACTIONS).map(|i| (offset(i), i)).collect();
    let mut m = memory();
    b.counter(ItemsCount::new(ACTIONS)).bench_local(|| {
        let mut bad = 0u32;
        for (offset, value) in black_box(&table) {
            match m.0.get_mut(*offset as usize / 4) {
                Some(r) => *r = *value,
                None => bad += 1,
            }
        }
        black_box(&m.0);
        bad
    });
}

#[divan::bench]
fn executor_of_writes(b: Bencher<'_, '_>) {
    let write = |i| Action::Write {
        event: i,
        space: 0,
        offset: u64::from(offset(i)),
        width: 4,
        value: u64::from(i),
    };
    let body = encode((0..ACTIONS).map(write));
    let mut m = memory();
    b.counter(ItemsCount::new(ACTIONS))
        .bench_local(|| execute(&mut m, Actions::new(black_box(&body)), &Budget::default(), &mut ()).unwrap());
}

/// Nine reads in ten, as in the recordings.
#[divan::bench]
fn executor_of_reads_and_writes(b: Bencher<'_, '_>) {
    let action = |i: u32| {
        let (event, offset) = (i, u64::from(offset(i)));
        match i % 10 {
            0 => Action::Write {
                event,
                space: 0,
                offset,
                width: 4,
                value: 0,
            },
            _ => Action::Read {
                event,
                space: 0,
                offset,
                width: 4,
                class: ReadClass::Equal,
                expected: 0,
            },
        }
    };
    let body = encode((0..ACTIONS).map(action));
    let mut m = memory();
    b.counter(ItemsCount::new(ACTIONS))
        .bench_local(|| execute(&mut m, Actions::new(black_box(&body)), &Budget::default(), &mut ()).unwrap());
}

/// Reading the actions alone.
#[divan::bench]
fn decode_alone(b: Bencher<'_, '_>) {
    let write = |i| Action::Write {
        event: i,
        space: 0,
        offset: u64::from(offset(i)),
        width: 4,
        value: u64::from(i),
    };
    let body = encode((0..ACTIONS).map(write));
    b.counter(ItemsCount::new(ACTIONS)).bench_local(|| {
        Actions::new(black_box(&body)).fold(0u64, |n, a| match a.unwrap() {
            Action::Write { offset, value, .. } => n.wrapping_add(offset ^ value),
            _ => n,
        })
    });
}
