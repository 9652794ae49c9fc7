//! The CUDA devices of this machine as targets of a client, `cuda:N`.

use super::driver_devices::{has_device_files, is_likely};
use super::support::CudaSupport;
use super::target::{CudaReplayDevice, list_devices_in_worker};
use super::worker_process::WorkerProcesses;
use replay_engine::client::targets::LocalApiTargets;
use replay_engine::device::{DeviceInfo, ReplayDeviceError, Target as _};
use replay_engine::target::{ApiFactory, ApiSupport};
use std::sync::Arc;

/// The CUDA devices of this machine.
#[derive(Clone, Debug)]
pub struct CudaTargets {
    workers: Arc<WorkerProcesses>,
    /// Whether another program runs the replays. Then the files and the driver of this machine say nothing about it.
    elsewhere: bool,
}

impl CudaTargets {
    /// Returns the devices of this machine. `workers` starts the worker processes that replay on them.
    #[must_use]
    pub fn new(workers: Arc<WorkerProcesses>) -> Self {
        Self {
            workers,
            elsewhere: false,
        }
    }

    /// Returns the devices that worker processes of another program reach. The driver of this machine is not checked:
    /// it does not decide whether that program reaches one.
    #[must_use]
    pub fn external(workers: Arc<WorkerProcesses>) -> Self {
        Self {
            workers,
            elsewhere: true,
        }
    }
}

impl LocalApiTargets for CudaTargets {
    fn api(&self) -> Arc<dyn ApiSupport> {
        Arc::new(CudaSupport)
    }

    fn factory(&self, number: u32) -> Result<ApiFactory, ReplayDeviceError> {
        let check = !self.elsewhere && !has_device_files(number);
        CudaReplayDevice::factory(number, check, Arc::clone(&self.workers))
    }

    fn list(&self) -> Result<Vec<(u32, DeviceInfo)>, ReplayDeviceError> {
        if !is_likely() {
            return Ok(Vec::new());
        }
        let all = list_devices_in_worker(&self.workers)?;
        let describe = |number, name: &str| CudaReplayDevice::new(number, name, Arc::clone(&self.workers)).info();
        Ok(all.iter().map(|d| (d.number, describe(d.number, &d.name))).collect())
    }

    fn missing(&self) -> Option<String> {
        (!self.elsewhere && !is_likely()).then(|| "no driver here".to_owned())
    }

    fn prestart(&self, number: u32) {
        self.workers.prestart(number);
    }
}
