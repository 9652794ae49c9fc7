//! The device time of each launch: two events around it in its stream, and the shortest time over all repeats.
#![allow(unsafe_code, reason = "calls of the driver; why each is sound stands at it")]

use cuda_driver::{CuEvent, CuStream, CudaError, Driver};
use std::collections::BTreeMap;

/// Maximum number of launches with pending events. Then the device is synchronized.
const MAX_PENDING: usize = 512;

/// Events around launches, and their times so far.
#[derive(Debug)]
pub(super) struct LaunchTimes {
    driver: Driver,
    /// Pairs of driver events. The first ones are in use, each for the launch of the event in `pending`.
    pairs: Vec<(CuEvent, CuEvent)>,
    pending: Vec<u64>,
    /// The shortest time of each launch, by event, nanoseconds.
    shortest: BTreeMap<u64, u64>,
}

impl LaunchTimes {
    pub fn new(driver: Driver) -> Result<Self, CudaError> {
        let mut all = Self {
            driver,
            pairs: Vec::new(),
            pending: Vec::new(),
            shortest: BTreeMap::new(),
        };
        all.grow()?;
        Ok(all)
    }

    fn grow(&mut self) -> Result<(), CudaError> {
        let (mut from, mut to): (CuEvent, CuEvent) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: valid output pointers.
        unsafe {
            self.driver.cuEventCreate(&raw mut from, 0)?;
            self.driver.cuEventCreate(&raw mut to, 0).inspect_err(|_| {
                let _ = self.driver.cuEventDestroy_v2(from);
            })?;
        }
        self.pairs.push((from, to));
        Ok(())
    }

    /// Starts a measurement: the launch of this event is about to be made in a stream.
    pub fn begin(&mut self, event: u64, stream: CuStream) -> Result<(), CudaError> {
        if self.pending.len() >= MAX_PENDING {
            // SAFETY: the call takes no pointers; it waits for all device work.
            unsafe { self.driver.cuCtxSynchronize()? };
            self.collect()?;
        }
        if self.pending.len() == self.pairs.len() {
            self.grow()?;
        }
        if let Some((from, _)) = self.pairs.get(self.pending.len()) {
            // SAFETY: an event of this value, and a stream of the stage.
            unsafe { self.driver.cuEventRecord(*from, stream)? };
        }
        self.pending.push(event);
        Ok(())
    }

    /// Ends the measurement after the launch.
    pub fn end(&mut self, stream: CuStream) -> Result<(), CudaError> {
        let last = self.pending.len().checked_sub(1).and_then(|n| self.pairs.get(n));
        match last {
            // SAFETY: as above.
            Some((_, to)) => unsafe { self.driver.cuEventRecord(*to, stream) },
            None => Ok(()),
        }
    }

    /// Reads the times of the events, after the device was synchronized.
    pub fn collect(&mut self) -> Result<(), CudaError> {
        for (event, (from, to)) in self.pending.drain(..).zip(&self.pairs) {
            let mut ms = 0f32;
            // SAFETY: events that were recorded, and a valid output pointer.
            unsafe {
                match self.driver.cuEventElapsedTime_v2(&raw mut ms, *from, *to) {
                    Err(CudaError::Missing { .. }) => self.driver.cuEventElapsedTime(&raw mut ms, *from, *to)?,
                    other => other?,
                }
            }
            let ns = (f64::from(ms.max(0.0)) * 1e6) as u64;
            self.shortest
                .entry(event)
                .and_modify(|known| *known = (*known).min(ns))
                .or_insert(ns);
        }
        Ok(())
    }

    /// Returns the event of each launch and its shortest time.
    pub fn shortest(&self) -> Vec<[u64; 2]> {
        self.shortest.iter().map(|(event, ns)| [*event, *ns]).collect()
    }
}

impl Drop for LaunchTimes {
    fn drop(&mut self) {
        for (from, to) in &self.pairs {
            // SAFETY: events of this value.
            unsafe {
                let _ = self.driver.cuEventDestroy_v2(*from);
                let _ = self.driver.cuEventDestroy_v2(*to);
            }
        }
    }
}
