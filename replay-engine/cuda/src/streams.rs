//! Streams and events of a recording, created for a replay.
#![allow(unsafe_code, reason = "calls of the driver; why each is sound stands at it")]

use super::error::CudaReplayError;
use cuda_driver::{CuEvent, CuStream, CudaError, Driver, EVENT_NO_TIMING, STREAM_NON_BLOCKING};
use std::collections::BTreeMap;
use trace_core::recording::{CallStream, OrderKind, OrderRow};

/// Maximum number of streams of a recording.
const MAX_STREAMS: usize = 4096;

/// Streams by number, and events by number.
#[derive(Debug)]
pub(super) struct Streams {
    driver: Driver,
    streams: Vec<CuStream>,
    events: BTreeMap<u32, CuEvent>,
}

impl Streams {
    /// Creates the streams of a recording. The first is the default stream. With `graph`, no stream waits implicitly
    /// for another, as stream capture requires.
    pub fn new(driver: Driver, call_streams: &[CallStream], graph: bool) -> Result<Self, CudaReplayError> {
        let mut all = Self {
            driver,
            streams: Vec::new(),
            events: BTreeMap::new(),
        };
        for (n, s) in call_streams.iter().take(MAX_STREAMS).enumerate() {
            let mut stream = std::ptr::null_mut();
            if n > 0 || graph {
                let flags = if graph {
                    STREAM_NON_BLOCKING
                } else {
                    s.flags & STREAM_NON_BLOCKING
                };
                // SAFETY: a valid output pointer. The driver clamps a priority that is out of range.
                unsafe {
                    all.driver
                        .cuStreamCreateWithPriority(&raw mut stream, flags, s.priority)?;
                }
            }
            all.streams.push(stream);
        }
        Ok(all)
    }

    /// Returns the stream of this number, or the default stream if the recording does not list it.
    pub fn get(&self, n: u32) -> CuStream {
        self.streams.get(n as usize).copied().unwrap_or(std::ptr::null_mut())
    }

    /// Returns the event of this number. Creates it if it does not exist.
    pub fn event(&mut self, n: u32) -> Result<CuEvent, CudaError> {
        if let Some(event) = self.events.get(&n) {
            return Ok(*event);
        }
        let mut event = std::ptr::null_mut();
        // SAFETY: a valid output pointer.
        unsafe { self.driver.cuEventCreate(&raw mut event, EVENT_NO_TIMING)? };
        self.events.insert(n, event);
        Ok(event)
    }

    /// Performs a stream or event operation. Host waits are skipped unless `waits` is set.
    pub fn apply_order(&mut self, row: &OrderRow, waits: bool) -> Result<(), CudaError> {
        let stream = self.get(row.stream);
        let driver = self.driver;
        match OrderKind::from_raw(row.kind) {
            Some(OrderKind::Record) => {
                let event = self.event(row.event)?;
                // SAFETY: a stream and an event of this value.
                unsafe { driver.cuEventRecord(event, stream) }
            }
            Some(OrderKind::StreamWaits) => match self.events.get(&row.event) {
                // SAFETY: as above.
                Some(event) => unsafe { driver.cuStreamWaitEvent(stream, *event, 0) },
                // A wait for an event that was never recorded returns at once.
                None => Ok(()),
            },
            // SAFETY: as above.
            Some(OrderKind::StreamDone) if waits => unsafe { driver.cuStreamSynchronize(stream) },
            Some(OrderKind::EventDone) if waits => match self.events.get(&row.event) {
                // SAFETY: as above.
                Some(event) => unsafe { driver.cuEventSynchronize(*event) },
                None => Ok(()),
            },
            // SAFETY: the call takes no pointers; it waits for all device work.
            Some(OrderKind::ContextDone) if waits => unsafe { driver.cuCtxSynchronize() },
            _ => Ok(()),
        }
    }

    /// Returns the event of this number, if it was created.
    pub fn find_event(&self, n: u32) -> Option<CuEvent> {
        self.events.get(&n).copied()
    }

    /// Returns the number of streams.
    pub fn len(&self) -> usize {
        self.streams.len()
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        // SAFETY: created by this value, and no device work is pending.
        unsafe {
            for event in self.events.values() {
                let _ = self.driver.cuEventDestroy_v2(*event);
            }
            for stream in self.streams.iter().filter(|s| !s.is_null()) {
                let _ = self.driver.cuStreamDestroy_v2(*stream);
            }
        }
    }
}
