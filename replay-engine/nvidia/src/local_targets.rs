//! The GPUs of this machine as targets of a client, `nvidia:N`.

use crate::driver::{DriverState, check_driver, list_gpus};
use crate::target::{NvidiaPreparation, NvidiaReplayDevice};
use crate::worker_process::ChannelWorkers;
use replay_engine::client::targets::LocalChannelTargets;
use replay_engine::device::{DeviceInfo, ReplayDeviceError, Target as _};
use replay_engine::target::{ChannelFactory, ChannelTarget, ReplayPreparation};
use std::sync::Arc;

/// The GPUs of this machine.
#[derive(Clone, Debug)]
pub struct NvidiaTargets {
    workers: Arc<ChannelWorkers>,
    /// Whether another program runs the replays. Then the files of this machine say nothing about it.
    elsewhere: bool,
}

impl NvidiaTargets {
    /// Returns the GPUs of this machine. `workers` starts the worker processes that replay on them.
    #[must_use]
    pub fn new(workers: Arc<ChannelWorkers>) -> Self {
        Self {
            workers,
            elsewhere: false,
        }
    }

    /// Returns the GPUs that worker processes of another program reach.
    #[must_use]
    pub fn external(workers: Arc<ChannelWorkers>) -> Self {
        Self {
            workers,
            elsewhere: true,
        }
    }
}

impl LocalChannelTargets for NvidiaTargets {
    fn factory(&self, number: u32) -> Result<ChannelFactory, ReplayDeviceError> {
        let mut name = String::new();
        if !self.elsewhere {
            let state = check_driver();
            if !matches!(state, DriverState::Supported { .. }) {
                return Err(ReplayDeviceError::Failed(state.to_string()));
            }
            let gpus = list_gpus();
            let missing = || {
                let why = format!("there is no NVIDIA GPU {number} here: the driver has {}", gpus.len());
                ReplayDeviceError::Failed(why)
            };
            name = gpus.get(number as usize).ok_or_else(missing)?.clone();
        }
        let workers = Arc::clone(&self.workers);
        Ok(Arc::new(move || {
            Ok(Box::new(NvidiaReplayDevice::new(number, &name, Arc::clone(&workers))) as Box<dyn ChannelTarget>)
        }))
    }

    fn list(&self) -> Vec<(u32, DeviceInfo)> {
        if !matches!(check_driver(), DriverState::Supported { .. }) {
            return Vec::new();
        }
        let describe = |(number, name): (u32, String)| {
            let device = NvidiaReplayDevice::new(number, &name, Arc::clone(&self.workers));
            (number, device.info())
        };
        (0..).zip(list_gpus()).map(describe).collect()
    }

    fn prestart(&self, number: u32) {
        if self.elsewhere || matches!(check_driver(), DriverState::Supported { .. }) {
            self.workers.prestart(number);
        }
    }

    fn preparation(&self, number: u32) -> Arc<dyn ReplayPreparation> {
        Arc::new(NvidiaPreparation {
            number,
            workers: Arc::clone(&self.workers),
        })
    }

    fn missing(&self) -> Option<String> {
        if self.elsewhere {
            return None;
        }
        match check_driver() {
            DriverState::Supported { .. } => None,
            DriverState::Unsupported { version } => Some(format!("driver {version} is not supported")),
            DriverState::Missing => Some("no driver here".to_owned()),
        }
    }
}
