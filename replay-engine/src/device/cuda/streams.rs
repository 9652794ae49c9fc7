//! Streams and events of a recording, made anew.
#![allow(unsafe_code, reason = "calls of the driver; why each is sound stands at it")]

use super::error::CudaReplayError;
use cuda_driver::{CuEvent, CuStream, CudaError, Driver, EVENT_NO_TIMING, STREAM_NON_BLOCKING};
use std::collections::BTreeMap;
use trace_core::recording::{CallStream, OrderKind, OrderRow};

/// Maximum number of streams of a recording.
const MAX_STREAMS: usize = 4096;

/// Streams by their number, and events by theirs.
#[derive(Debug)]
pub(super) struct Streams {
    driver: Driver,
    streams: Vec<CuStream>,
    events: BTreeMap<u32, CuEvent>,
}

impl Streams {
    /// The streams of a recording. The first is the default stream. `graph`: none of them waits for another by itself,
    /// as it has to be where they are captured.
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
                // SAFETY: a place for the answer. A priority out of range is brought into it by the driver.
                unsafe {
                    all.driver
                        .cuStreamCreateWithPriority(&raw mut stream, flags, s.priority)?;
                }
            }
            all.streams.push(stream);
        }
        Ok(all)
    }

    /// The stream of this number; the default stream for one that the recording does not list.
    pub fn get(&self, n: u32) -> CuStream {
        self.streams.get(n as usize).copied().unwrap_or(std::ptr::null_mut())
    }

    /// The event of this number, made where there is none.
    pub fn event(&mut self, n: u32) -> Result<CuEvent, CudaError> {
        if let Some(event) = self.events.get(&n) {
            return Ok(*event);
        }
        let mut event = std::ptr::null_mut();
        // SAFETY: a place for the answer.
        unsafe { self.driver.cuEventCreate(&raw mut event, EVENT_NO_TIMING)? };
        self.events.insert(n, event);
        Ok(event)
    }

    /// Does an order. Waits of the host are left out where `waits` is not set.
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
                // An event that was never recorded stops nobody.
                None => Ok(()),
            },
            // SAFETY: as above.
            Some(OrderKind::StreamDone) if waits => unsafe { driver.cuStreamSynchronize(stream) },
            Some(OrderKind::EventDone) if waits => match self.events.get(&row.event) {
                // SAFETY: as above.
                Some(event) => unsafe { driver.cuEventSynchronize(*event) },
                None => Ok(()),
            },
            // SAFETY: waits for all.
            Some(OrderKind::ContextDone) if waits => unsafe { driver.cuCtxSynchronize() },
            _ => Ok(()),
        }
    }

    /// The event of this number, where one was made.
    pub fn find_event(&self, n: u32) -> Option<CuEvent> {
        self.events.get(&n).copied()
    }

    /// How many streams there are.
    pub fn len(&self) -> usize {
        self.streams.len()
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        // SAFETY: made by this value, and nothing runs any more.
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
