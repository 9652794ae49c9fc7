//! Measurements around a launch: its device time, and the device's clocks and temperature.
#![allow(unsafe_code, reason = "calls of the driver; why each is sound stands at it")]

use super::stage::Stage;
use cuda_driver::{CuEvent, CudaError, Driver, Nvml, NvmlDevice, Uuid};
use replay_engine::tune::Health;
use std::thread::JoinHandle;

/// A pair of driver events around a launch.
pub(super) struct EventTimer {
    driver: Driver,
    pub(super) from: CuEvent,
    pub(super) to: CuEvent,
}

impl EventTimer {
    pub(super) fn new(driver: Driver) -> Result<Self, CudaError> {
        let mut watch = Self {
            driver,
            from: std::ptr::null_mut(),
            to: std::ptr::null_mut(),
        };
        // SAFETY: valid output pointers.
        unsafe {
            driver.cuEventCreate(&raw mut watch.from, 0)?;
            driver.cuEventCreate(&raw mut watch.to, 0)?;
        }
        Ok(watch)
    }

    /// Returns the nanoseconds between the two events, which have both occurred.
    pub(super) fn elapsed_ns(&self) -> Result<u64, CudaError> {
        let mut ms = 0f32;
        // SAFETY: events of this value, and a valid output pointer.
        unsafe {
            match self.driver.cuEventElapsedTime_v2(&raw mut ms, self.from, self.to) {
                Err(CudaError::Missing { .. }) => self.driver.cuEventElapsedTime(&raw mut ms, self.from, self.to)?,
                answer => answer?,
            }
        }
        Ok((f64::from(ms) * 1e6).round().max(0.0) as u64)
    }
}

impl Drop for EventTimer {
    fn drop(&mut self) {
        for event in [self.from, self.to] {
            if !event.is_null() {
                // SAFETY: created by this value, and nothing waits for it any more.
                let _ = unsafe { self.driver.cuEventDestroy_v2(event) };
            }
        }
    }
}

/// The source of the device's clocks and temperature.
pub(super) struct Sensor(Result<NvmlDevice, String>);

impl Sensor {
    pub(super) fn open(stage: &Stage<'_>, nvml: JoinHandle<Result<Nvml, String>>) -> Self {
        let mut uuid = Uuid::default();
        // SAFETY: a valid output pointer.
        let result = unsafe { stage.driver().cuDeviceGetUuid_v2(&raw mut uuid, stage.device_number()) };
        Self(match result {
            Ok(()) => {
                let nvml = nvml.join().unwrap_or_else(|_| Err("NVML ended its thread".to_owned()));
                nvml.and_then(|nvml| nvml.device(&uuid))
            }
            Err(e) => Err(e.to_string()),
        })
    }

    pub(super) fn health(&self) -> Health {
        match &self.0 {
            Ok(device) => {
                let state = device.state();
                Health {
                    celsius: state.celsius,
                    clock_mhz: state.clock_mhz,
                    memory_mhz: state.memory_mhz,
                    watts: state.watts,
                    held_back: state.throttle_reasons.into_iter().map(str::to_owned).collect(),
                    unknown: None,
                }
            }
            Err(why) => Health {
                unknown: Some(why.clone()),
                ..Health::default()
            },
        }
    }
}
