//! Semaphores: releases, reductions and waits.

use super::address_space::AddressSpace;
use super::faults::{ChannelError, ErrorCode};
use crate::system;
use nvidia_channel::GpuVa;
use nvidia_channel::command::{Semaphore, SemaphoreOperation, SemaphoreSource};
use nvidia_channel::qmd::Release;
use std::sync::atomic::{Ordering, fence};

/// An operation that combines a value in memory with a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reduction {
    Add,
    Min,
    Max,
    Increment,
    Decrement,
    And,
    Or,
    Xor,
}

impl Reduction {
    /// Returns the operation of a number in methods. Each engine has its own order.
    fn from_method(source: SemaphoreSource, operation: u8) -> Option<Self> {
        let order = match source {
            SemaphoreSource::Host | SemaphoreSource::Copy => [
                Self::Min,
                Self::Max,
                Self::Xor,
                Self::And,
                Self::Or,
                Self::Add,
                Self::Increment,
                Self::Decrement,
            ],
            SemaphoreSource::Report | SemaphoreSource::Upload => REPORT_ORDER,
        };
        order.get(usize::from(operation)).copied()
    }

    /// Returns the operation of a name in launch descriptors.
    fn from_name(name: &str) -> Option<Self> {
        let names = [
            "RED_ADD", "RED_MIN", "RED_MAX", "RED_INC", "RED_DEC", "RED_AND", "RED_OR", "RED_XOR",
        ];
        let order = names.iter().position(|n| *n == name)?;
        REPORT_ORDER.get(order).copied()
    }

    fn apply(self, value: u64, payload: u64, mask: u64) -> u64 {
        let result = match self {
            Self::Add => value.wrapping_add(payload),
            Self::Min => value.min(payload),
            Self::Max => value.max(payload),
            Self::Increment if value >= payload => 0,
            Self::Increment => value.wrapping_add(1),
            Self::Decrement if value == 0 || value > payload => payload,
            Self::Decrement => value.wrapping_sub(1),
            Self::And => value & payload,
            Self::Or => value | payload,
            Self::Xor => value ^ payload,
        };
        result & mask
    }
}

/// Order of the operations in the report unit and in launch descriptors.
const REPORT_ORDER: [Reduction; 8] = [
    Reduction::Add,
    Reduction::Min,
    Reduction::Max,
    Reduction::Increment,
    Reduction::Decrement,
    Reduction::And,
    Reduction::Or,
    Reduction::Xor,
];

/// Reads the value of a semaphore.
fn read_value(space: &AddressSpace, address: GpuVa, wide: bool) -> Result<u64, ChannelError> {
    Ok(match wide {
        true => u64::from_le_bytes(space.read_array(address)?),
        false => u64::from(u32::from_le_bytes(space.read_array(address)?)),
    })
}

/// Writes a value, and a time stamp before it if `timestamp` is set: programs poll the value.
fn write_value(
    space: &AddressSpace,
    address: GpuVa,
    value: u64,
    wide: bool,
    timestamp: bool,
) -> Result<(), ChannelError> {
    fence(Ordering::SeqCst);
    let at = |offset| {
        address
            .checked_add(offset)
            .ok_or(ChannelError::new(ErrorCode::MmuFault))
    };
    if timestamp {
        space.write(at(8)?, &system::wall_clock_ns().to_le_bytes())?;
    }
    if wide || timestamp {
        space.write(at(4)?, &((value >> 32) as u32).to_le_bytes())?;
    }
    space.write(address, &(value as u32).to_le_bytes())?;
    Ok(())
}

/// Executes a semaphore operation that does not wait.
pub fn release(space: &AddressSpace, semaphore: &Semaphore) -> Result<(), ChannelError> {
    let Semaphore {
        address,
        payload,
        wide,
        timestamp,
        ..
    } = *semaphore;
    match semaphore.operation {
        SemaphoreOperation::Release => write_value(space, address, payload, wide, timestamp),
        SemaphoreOperation::Reduce(operation) => {
            let reduction = Reduction::from_method(semaphore.source, operation);
            let reduction = reduction.ok_or(ChannelError::new(ErrorCode::PushBuffer))?;
            reduce(space, address, reduction, payload, wide)
        }
        SemaphoreOperation::Report => write_value(space, address, 0, false, timestamp),
        // An interrupt: no program waits for one here.
        SemaphoreOperation::Trap => Ok(()),
        _ => Err(ChannelError::new(ErrorCode::PushBuffer)),
    }
}

fn reduce(
    space: &AddressSpace,
    address: GpuVa,
    reduction: Reduction,
    payload: u64,
    wide: bool,
) -> Result<(), ChannelError> {
    let mask = if wide { u64::MAX } else { u64::from(u32::MAX) };
    let value = read_value(space, address, wide)?;
    let value = reduction.apply(value, payload & mask, mask);
    write_value(space, address, value, wide, false)
}

/// Writes a semaphore of a launch descriptor.
pub fn release_of_launch(space: &AddressSpace, release: &Release) -> Result<(), ChannelError> {
    let wide = release.words == 2;
    match release.reduction.and_then(Reduction::from_name) {
        Some(reduction) => reduce(space, release.address, reduction, release.payload, wide),
        None => write_value(space, release.address, release.payload, wide, release.words == 4),
    }
}

/// Returns whether a semaphore has the value that an acquire waits for.
pub fn is_acquired(space: &AddressSpace, semaphore: &Semaphore) -> Result<bool, ChannelError> {
    let value = read_value(space, semaphore.address, semaphore.wide)?;
    let payload = semaphore.payload;
    Ok(match semaphore.operation {
        SemaphoreOperation::Acquire => value == payload,
        SemaphoreOperation::AcquireGreaterEqual => value >= payload,
        SemaphoreOperation::AcquireCircularGreaterEqual if semaphore.wide => {
            value.wrapping_sub(payload).cast_signed() >= 0
        }
        SemaphoreOperation::AcquireCircularGreaterEqual => {
            (value as u32).wrapping_sub(payload as u32).cast_signed() >= 0
        }
        SemaphoreOperation::AcquireAnd => value & payload != 0,
        SemaphoreOperation::AcquireNor => !(value | payload) != 0,
        _ => true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reductions_wrap_at_their_size() {
        let mask = u64::from(u32::MAX);
        for (reduction, value, payload, result) in [
            (Reduction::Add, mask, 2, 1),
            (Reduction::Min, 5, 3, 3),
            (Reduction::Max, 5, 3, 5),
            (Reduction::Increment, 7, 7, 0),
            (Reduction::Increment, 6, 7, 7),
            (Reduction::Decrement, 0, 7, 7),
            (Reduction::Decrement, 6, 7, 5),
            (Reduction::And, 6, 3, 2),
            (Reduction::Or, 6, 3, 7),
            (Reduction::Xor, 6, 3, 5),
        ] {
            assert_eq!(reduction.apply(value, payload, mask), result, "{reduction:?}");
        }
        let host = Reduction::from_method(SemaphoreSource::Host, 5);
        assert_eq!(host, Some(Reduction::Add));
        assert_eq!(Reduction::from_method(SemaphoreSource::Report, 0), Some(Reduction::Add));
        assert_eq!(Reduction::from_name("RED_XOR"), Some(Reduction::Xor));
        assert_eq!(Reduction::from_method(SemaphoreSource::Copy, 8), None);
    }
}
