//! The targets that this program provides in its own process: simulators, QEMU devices, GPUs of this machine.

use crate::client::error::ClientError;
use crate::client::lease::Lease;
use crate::client::session::Client;
use crate::device::qemu::{self, QemuReplayDevice};
use crate::device::{DeviceInfo, RegisterFactory, ReplayDeviceError};
use crate::serve::{Options, Server};
use crate::target::{ApiFactory, ApiSupport, ChannelFactory, Factory, ReplayPreparation};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// The API targets of this machine, `cuda:N`. A program hands them in.
pub trait LocalApiTargets: fmt::Debug + Send + Sync {
    /// Returns the API of their traces.
    fn api(&self) -> Arc<dyn ApiSupport>;

    /// Returns the factory of the device of this number. Queries the driver whether the device exists, unless that is
    /// known.
    ///
    /// # Errors
    /// If there is no such device.
    fn factory(&self, number: u32) -> Result<ApiFactory, ReplayDeviceError>;

    /// Lists the devices by number. The list is empty if this machine has no driver.
    ///
    /// # Errors
    /// If the driver does not answer.
    fn list(&self) -> Result<Vec<(u32, DeviceInfo)>, ReplayDeviceError>;

    /// Returns what this machine lacks for them, in a few words, or `None`. The check only looks for files and is fast.
    fn missing(&self) -> Option<String>;

    /// Starts the slow preparations for a replay that will soon be requested.
    fn prestart(&self, number: u32);
}

/// The GPUs of this machine whose channels take submissions, `nvidia:N`. A program hands them in.
pub trait LocalChannelTargets: fmt::Debug + Send + Sync {
    /// Returns the factory of the GPU of this number, in the order of the kernel driver.
    ///
    /// # Errors
    /// If there is no such GPU, or its driver is not supported.
    fn factory(&self, number: u32) -> Result<ChannelFactory, ReplayDeviceError>;

    /// Lists the GPUs by number. The list is empty if this machine has no driver.
    fn list(&self) -> Vec<(u32, DeviceInfo)>;

    /// Returns what this machine lacks for them, in a few words, or `None`. The check only looks for files and is fast.
    fn missing(&self) -> Option<String>;

    /// Starts the slow preparations for a replay that will soon be requested.
    fn prestart(&self, number: u32);

    /// Returns what prepares a replay on the GPU of this number while its plan is compiled.
    fn preparation(&self, number: u32) -> Arc<dyn ReplayPreparation>;
}

/// Returns the number in the name of a target of this machine with this prefix.
fn parse_number(target: &str, prefix: &str) -> Option<u32> {
    target.strip_prefix(prefix)?.parse().ok()
}

/// The simulators that this program provides, by the part of their name after `software:`. Clones share the servers, so
/// pages that were pushed once stay known.
#[derive(Clone, Default)]
pub struct Factories {
    pub(super) made: Vec<SimulatorFactory>,
    pub(super) cuda: Option<Arc<dyn LocalApiTargets>>,
    pub(super) nvidia: Option<Arc<dyn LocalChannelTargets>>,
    /// Whether QEMU counts as installed; `None` looks for it in this process's PATH.
    qemu_installed: Option<bool>,
    servers: Arc<Mutex<BTreeMap<String, Server>>>,
}

/// A simulator that can be created.
#[derive(Clone)]
pub(super) struct SimulatorFactory {
    pub(super) model: String,
    /// Raw GPU id register of the simulated GPU, if it is known before the simulator is created.
    gpu_id: Option<u32>,
    factory: RegisterFactory,
}

impl fmt::Debug for Factories {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Factories({})", self.names().join(", "))
    }
}

impl Factories {
    /// Returns an empty set of factories.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the simulator `software:MODEL`.
    #[must_use]
    pub fn with_simulator(self, model: &str, factory: RegisterFactory) -> Self {
        self.with_model(model, None, factory)
    }

    /// Adds the simulator `software:MODEL` of the GPU with this id register.
    #[must_use]
    pub fn with_gpu(self, model: &str, gpu_id: u32, factory: RegisterFactory) -> Self {
        self.with_model(model, Some(gpu_id), factory)
    }

    fn with_model(mut self, model: &str, gpu_id: Option<u32>, factory: RegisterFactory) -> Self {
        self.made.retain(|m| m.model != model);
        self.made.push(SimulatorFactory {
            model: model.to_owned(),
            gpu_id,
            factory,
        });
        self
    }

    /// Returns the raw GPU id of the GPU that `software:MODEL` simulates, if it is known.
    pub(in crate::client) fn find_gpu_id(&self, model: &str) -> Option<u32> {
        self.made.iter().find(|m| m.model == model)?.gpu_id
    }

    /// Adds the CUDA devices of this machine, `cuda:N`.
    #[must_use]
    pub fn with_cuda(mut self, targets: Arc<dyn LocalApiTargets>) -> Self {
        self.cuda = Some(targets);
        self
    }

    /// Adds the GPUs of this machine whose channels take submissions, `nvidia:N`.
    #[must_use]
    pub fn with_nvidia(mut self, targets: Arc<dyn LocalChannelTargets>) -> Self {
        self.nvidia = Some(targets);
        self
    }

    /// Returns what this machine lacks for submissions to channels, in a few words, or `None`.
    pub(in crate::client) fn missing_nvidia(&self) -> Option<String> {
        match &self.nvidia {
            Some(targets) => targets.missing(),
            None => Some("no driver here".to_owned()),
        }
    }

    /// Returns what this machine lacks for its CUDA devices, in a few words, or `None`.
    pub(in crate::client) fn missing_cuda(&self) -> Option<String> {
        match &self.cuda {
            Some(targets) => targets.missing(),
            None => Some("no driver here".to_owned()),
        }
    }

    /// Returns the lease of a device, with what API traces need.
    pub(super) fn equip(&self, lease: Lease) -> Lease {
        lease.with_api(self.cuda.as_ref().map(|targets| targets.api()))
    }

    /// Sets whether QEMU counts as installed when targets are listed, instead of a search of this process's PATH.
    #[must_use]
    pub fn with_qemu_installed(mut self, installed: bool) -> Self {
        self.qemu_installed = Some(installed);
        self
    }

    pub(in crate::client) fn has_qemu(&self) -> bool {
        self.qemu_installed.unwrap_or_else(|| qemu::check_installed().is_ok())
    }

    /// Starts the slow preparations for a replay on this target that will soon be requested. Does nothing for targets
    /// that need no preparation and for targets of agents.
    pub fn prestart_worker(&self, target: &str) {
        if let (Some(targets), Some(number)) = (&self.cuda, parse_number(target, "cuda:")) {
            targets.prestart(number);
        }
        if let (Some(targets), Some(number)) = (&self.nvidia, parse_number(target, "nvidia:")) {
            targets.prestart(number);
        }
    }

    /// Returns what prepares a replay on this target while its plan is compiled, or `None` if the target has nothing of
    /// the kind.
    #[must_use]
    pub fn preparation(&self, target: &str) -> Option<Arc<dyn ReplayPreparation>> {
        let number = parse_number(target, "nvidia:")?;
        Some(self.nvidia.as_ref()?.preparation(number))
    }

    /// Returns the names of the simulators, `software:…`, in the order in which they were added.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.made.iter().map(|m| format!("software:{}", m.model)).collect()
    }

    /// Returns the server in this process that owns the target.
    pub(super) fn server(&self, model: &str) -> Result<Server, ClientError> {
        let name = format!("software:{model}");
        self.server_with(&name, || {
            let made = self.made.iter().find(|m| m.model == model);
            let made = made.map(|m| Arc::clone(&m.factory));
            made.ok_or_else(|| ClientError::NoTarget {
                name: name.clone(),
                known: self.names().join(", "),
            })
        })
    }

    /// Returns the server of this name. Calls its factory if there is no server yet.
    fn server_with(
        &self,
        name: &str,
        factory: impl FnOnce() -> Result<RegisterFactory, ClientError>,
    ) -> Result<Server, ClientError> {
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(server) = servers.get(name) {
            return Ok(server.clone());
        }
        let server = Server::new(&[factory()?.into()], None, Options::default());
        let server = server.map_err(|e| ClientError::OutOfOrder {
            device: name.split_once(':').map_or(name, |(_, device)| device).to_owned(),
            reason: e.to_string(),
        })?;
        servers.insert(name.to_owned(), server.clone());
        Ok(server)
    }

    /// Opens `software:MODEL` (given with or without `software:`), which needs no key store.
    ///
    /// # Errors
    /// If there is no such target or this process holds it already.
    pub fn open(&self, name: &str) -> Result<Lease, ClientError> {
        self.lease(&self.server(name.strip_prefix("software:").unwrap_or(name))?)
    }

    /// Opens a QEMU device in this process; it needs no key store. QEMU starts at the first call with a name.
    ///
    /// # Errors
    /// If QEMU is not installed or cannot create the device, or this process holds it already.
    pub fn open_qemu(&self, name: &qemu::Name) -> Result<Lease, ClientError> {
        let factory = || Ok(QemuReplayDevice::factory(name)?);
        self.lease(&self.server_with(&format!("qemu:{}", name.text()), factory)?)
    }

    /// Opens a CUDA device of this machine in this process; it needs no key store. Queries the driver whether the
    /// device exists, unless device files show it.
    ///
    /// # Errors
    /// If this program has no CUDA workers, the driver has no device of this number, or this process holds it already.
    pub fn open_cuda(&self, number: u32) -> Result<Lease, ClientError> {
        let name = format!("cuda:{number}");
        let missing = || ClientError::NoTarget {
            name: name.clone(),
            known: self.names().join(", "),
        };
        let targets = self.cuda.as_ref().ok_or_else(missing)?;
        self.open_driver_device(&name, || targets.factory(number).map(Factory::Api))
    }

    /// Opens a GPU of this machine whose channels take submissions; it needs no key store.
    ///
    /// # Errors
    /// If this program has no such targets, the driver has no GPU of this number, or this process holds it already.
    pub fn open_nvidia(&self, number: u32) -> Result<Lease, ClientError> {
        let name = format!("nvidia:{number}");
        let missing = || ClientError::NoTarget {
            name: name.clone(),
            known: self.names().join(", "),
        };
        let targets = self.nvidia.as_ref().ok_or_else(missing)?;
        self.open_driver_device(&name, || targets.factory(number).map(Factory::Channel))
    }

    /// Opens the server of a device that a driver of this machine isolates, and leases the device.
    fn open_driver_device(
        &self,
        name: &str,
        factory: impl FnOnce() -> Result<Factory, ReplayDeviceError>,
    ) -> Result<Lease, ClientError> {
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(server) = servers.get(name) {
            return self.lease(&server.clone());
        }
        let out_of_order = |reason: String| ClientError::OutOfOrder {
            device: name.to_owned(),
            reason,
        };
        let factory = factory().map_err(|e| out_of_order(e.to_string()))?;
        let server =
            Server::new(&[factory], None, Options::for_api_traces()).map_err(|e| out_of_order(e.to_string()))?;
        servers.insert(name.to_owned(), server.clone());
        drop(servers);
        self.lease(&server)
    }

    fn lease(&self, server: &Server) -> Result<Lease, ClientError> {
        let client = Client::in_process(server)?;
        let device = client.devices().first().map(|d| d.name.clone()).unwrap_or_default();
        Ok(self.equip(client.lease(&device)?.with_server(server)))
    }
}
