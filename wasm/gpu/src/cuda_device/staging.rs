//! Pinned host memory through which all copies go: one half is filled or emptied while the other one is copied.

use crate::device::DeviceError;
use cuda_driver::{CuEvent, CuStream, Driver};
use std::ffi::c_void;

/// Bytes of a half: long copies go in parts of this size.
pub(super) const CAPACITY: usize = 16 << 20;
/// Number of halves.
const HALVES: usize = 2;

/// A half, and the copies that use it.
#[derive(Debug)]
struct Half {
    at: *mut c_void,
    /// One event for each queue: the end of its last copy through this half.
    events: Vec<CuEvent>,
    /// Queues with copies that may be pending.
    pending: Vec<bool>,
}

/// Pinned memory of a device, allocated at its first use and freed on drop.
#[derive(Debug)]
pub(super) struct Staging {
    driver: Driver,
    halves: Vec<Half>,
    queues: usize,
    current: usize,
}

impl Staging {
    /// Creates staging memory for a number of queues. It has no bytes yet.
    pub fn new(driver: Driver, queues: usize) -> Self {
        Self {
            driver,
            halves: Vec::new(),
            queues,
            current: 0,
        }
    }

    fn allocate(&mut self) -> Result<(), DeviceError> {
        while self.halves.len() < HALVES {
            let mut half = Half {
                at: std::ptr::null_mut(),
                events: Vec::new(),
                pending: vec![false; self.queues],
            };
            // SAFETY: the output pointer is valid. The allocation has the requested length, and is initialized here.
            unsafe {
                self.driver.cuMemHostAlloc(&raw mut half.at, CAPACITY, 0)?;
                std::ptr::write_bytes(half.at.cast::<u8>(), 0, CAPACITY);
            }
            let mut failure = None;
            for _ in 0..self.queues {
                let mut event = std::ptr::null_mut();
                // SAFETY: the output pointer is valid; the context is current.
                match unsafe { self.driver.cuEventCreate(&raw mut event, 0) } {
                    Ok(()) => half.events.push(event),
                    Err(e) => failure = Some(e),
                }
            }
            // The half is freed on drop, with the events that it has.
            self.halves.push(half);
            if let Some(e) = failure {
                return Err(e.into());
            }
        }
        Ok(())
    }

    /// Returns the number of a half that no copy uses.
    ///
    /// # Errors
    /// When the memory cannot be allocated, or a copy failed.
    pub fn next(&mut self) -> Result<usize, DeviceError> {
        self.allocate()?;
        self.current = (self.current + 1) % HALVES;
        self.wait(self.current)?;
        Ok(self.current)
    }

    /// Waits until no copy uses a half.
    ///
    /// # Errors
    /// When a copy failed.
    pub fn wait(&mut self, number: usize) -> Result<(), DeviceError> {
        let Some(half) = self.halves.get_mut(number) else {
            return Ok(());
        };
        for (event, pending) in half.events.iter().zip(&mut half.pending) {
            if std::mem::take(pending) {
                // SAFETY: an event of this value that was recorded.
                unsafe { self.driver.cuEventSynchronize(*event)? };
            }
        }
        Ok(())
    }

    /// Notes that copies of a queue use a half, up to the last one in its stream.
    ///
    /// # Errors
    /// When the driver fails.
    pub fn record(&mut self, number: usize, queue: usize, stream: CuStream) -> Result<(), DeviceError> {
        let Some(half) = self.halves.get_mut(number) else {
            return Ok(());
        };
        if let (Some(event), Some(pending)) = (half.events.get(queue), half.pending.get_mut(queue)) {
            *pending = true;
            // SAFETY: handles of the device, whose context is current.
            unsafe { self.driver.cuEventRecord(*event, stream)? };
        }
        Ok(())
    }

    /// Returns the address of a byte of a half.
    pub fn address(&self, number: usize, offset: usize) -> *mut c_void {
        let at = self.halves.get(number).map_or(std::ptr::null_mut(), |half| half.at);
        at.wrapping_byte_add(offset.min(CAPACITY))
    }

    /// Returns the bytes of a half. No copy uses it.
    pub fn bytes(&mut self, number: usize) -> &mut [u8] {
        match self.halves.get(number) {
            // SAFETY: the half is allocated and initialized, and has this length. The borrow of this value excludes
            // other borrows; the caller has waited for the copies of the half.
            Some(half) => unsafe { std::slice::from_raw_parts_mut(half.at.cast(), CAPACITY) },
            None => &mut [],
        }
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        for half in &self.halves {
            // SAFETY: allocated by this value, and no copy is pending: the device has waited for its streams.
            unsafe {
                for event in &half.events {
                    let _ = self.driver.cuEventDestroy_v2(*event);
                }
                let _ = self.driver.cuMemFreeHost(half.at);
            }
        }
    }
}
