//! Targets by name: simulators and QEMU devices in this process, devices of paired agents, and agents by address.

use super::error::ClientError;
use super::lease::Lease;
use super::session::{Client, Endpoint};
use crate::device::qemu::{self, QemuReplayDevice};
use crate::device::{DeviceInfo, RegisterFactory, ReplayDeviceError};
use crate::lease_options::LeaseOptions;
use crate::live::LiveLimits;
use crate::serve::{Options, Server};
use crate::target::{ApiFactory, ApiSupport, ChannelFactory, Factory, ReplayPreparation};
use crate::wire::{KeyStore, Peer};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use trace_core::progress::Progress;

/// Maximum time that [`list_paired`] waits for an agent.
const ASK_LIMIT: Duration = Duration::from_secs(2);

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
    made: Vec<SimulatorFactory>,
    cuda: Option<Arc<dyn LocalApiTargets>>,
    nvidia: Option<Arc<dyn LocalChannelTargets>>,
    /// Whether QEMU counts as installed; `None` looks for it in this process's PATH.
    qemu_installed: Option<bool>,
    servers: Arc<Mutex<BTreeMap<String, Server>>>,
}

/// A simulator that can be created.
#[derive(Clone)]
struct SimulatorFactory {
    model: String,
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
    pub(super) fn find_gpu_id(&self, model: &str) -> Option<u32> {
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
    pub(super) fn missing_nvidia(&self) -> Option<String> {
        match &self.nvidia {
            Some(targets) => targets.missing(),
            None => Some("no driver here".to_owned()),
        }
    }

    /// Returns what this machine lacks for its CUDA devices, in a few words, or `None`.
    pub(super) fn missing_cuda(&self) -> Option<String> {
        match &self.cuda {
            Some(targets) => targets.missing(),
            None => Some("no driver here".to_owned()),
        }
    }

    /// Returns the lease of a device, with what API traces need.
    fn equip(&self, lease: Lease) -> Lease {
        lease.with_api(self.cuda.as_ref().map(|targets| targets.api()))
    }

    /// Sets whether QEMU counts as installed when targets are listed, instead of a search of this process's PATH.
    #[must_use]
    pub fn with_qemu_installed(mut self, installed: bool) -> Self {
        self.qemu_installed = Some(installed);
        self
    }

    pub(super) fn has_qemu(&self) -> bool {
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
    fn server(&self, model: &str) -> Result<Server, ClientError> {
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

    /// Returns the GPUs of this machine whose channels take submissions.
    fn nvidia(&self) -> Vec<ReplayTarget> {
        let all = self.nvidia.iter().flat_map(|targets| targets.list());
        let target = |(number, info): (u32, DeviceInfo)| ReplayTarget {
            name: format!("nvidia:{number}"),
            description: info.description.clone(),
            info: Some(info),
            reach: Availability::Here,
            live: None,
        };
        all.map(target).collect()
    }

    /// Returns the CUDA devices that this machine's driver lists, or none if there is no driver.
    fn cuda(&self) -> Vec<ReplayTarget> {
        let Some(targets) = &self.cuda else {
            return Vec::new();
        };
        match targets.list() {
            Ok(all) => all
                .into_iter()
                .map(|(number, info)| ReplayTarget {
                    name: format!("cuda:{number}"),
                    description: info.description.clone(),
                    info: Some(info),
                    reach: Availability::Here,
                    live: None,
                })
                .collect(),
            Err(e) => vec![ReplayTarget {
                name: "cuda:0".to_owned(),
                description: "CUDA device 0 of this machine".to_owned(),
                info: None,
                reach: Availability::Away(e.to_string()),
                live: None,
            }],
        }
    }

    fn lease(&self, server: &Server) -> Result<Lease, ClientError> {
        let client = Client::in_process(server)?;
        let device = client.devices().first().map(|d| d.name.clone()).unwrap_or_default();
        Ok(self.equip(client.lease(&device)?.with_server(server)))
    }
}

/// Whether and how a target can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Availability {
    /// The target is in this process.
    Here,
    /// The agent answers and no client holds the target.
    Free,
    /// The agent answers; the client of this name holds the target.
    Busy(String),
    /// The target cannot be used now, with the reason.
    Away(String),
}

/// A target that the user can choose.
#[derive(Clone, Debug)]
pub struct ReplayTarget {
    /// The name that [`open`] accepts, or `agent:NAME` for an agent that does not answer.
    pub name: String,
    /// A description for the user.
    pub description: String,
    /// The device's own description, if the device was reached.
    pub info: Option<DeviceInfo>,
    /// Whether and how it can be used.
    pub reach: Availability,
    /// Limits of each program that computes on it, if its agent runs programs of clients on it.
    pub live: Option<LiveLimits>,
}

/// A parsed target name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetName {
    /// `software:MODEL`.
    Software(String),
    /// `qemu:DEVICE[,PROPERTY=VALUE…]`.
    Qemu(qemu::Name),
    /// `cuda:N`.
    Cuda(u32),
    /// `nvidia:N`.
    Nvidia(u32),
    /// `agent:NAME/DEVICE`.
    Paired {
        /// Name of the agent in the key store.
        agent: String,
        /// Name of the device.
        device: String,
    },
    /// `agent://HOST:PORT/DEVICE`.
    Tcp {
        /// Host and port.
        address: String,
        /// Name of the device.
        device: String,
    },
    /// `agent:///PATH.sock/DEVICE`.
    Unix {
        /// Path of the socket.
        path: PathBuf,
        /// Name of the device.
        device: String,
    },
}

/// Parses a target name.
///
/// # Errors
/// If the name has no known form.
pub fn parse(name: &str) -> Result<TargetName, ClientError> {
    let bad = |reason: &str| ClientError::InvalidTargetName {
        name: name.to_owned(),
        reason: reason.to_owned(),
    };
    if let Some(model) = name.strip_prefix("software:") {
        return if model.is_empty() {
            Err(bad("the model is missing"))
        } else {
            Ok(TargetName::Software(model.to_owned()))
        };
    }
    if let Some(device) = name.strip_prefix("qemu:") {
        return match qemu::Name::parse(device) {
            Ok(name) => Ok(TargetName::Qemu(name)),
            Err(qemu::QemuError::Name { reason, .. }) => Err(bad(&reason)),
            Err(e) => Err(e.into()),
        };
    }
    if let Some(number) = name.strip_prefix("cuda:") {
        let number = number
            .parse()
            .map_err(|_| bad("the device's number is missing: `cuda:0`"))?;
        return Ok(TargetName::Cuda(number));
    }
    if let Some(number) = name.strip_prefix("nvidia:") {
        let number = number
            .parse()
            .map_err(|_| bad("the GPU's number is missing: `nvidia:0`"))?;
        return Ok(TargetName::Nvidia(number));
    }
    let rest = name
        .strip_prefix("agent:")
        .ok_or_else(|| bad("it must begin with `software:`, `qemu:`, `cuda:`, `nvidia:` or `agent:`"))?;
    let (place, device) = rest.rsplit_once('/').ok_or_else(|| bad("the device is missing"))?;
    let device = device.to_owned();
    if device.is_empty() {
        return Err(bad("the device is missing"));
    }
    match place.strip_prefix("//") {
        Some(path) if path.starts_with('/') => Ok(TargetName::Unix {
            path: PathBuf::from(path),
            device,
        }),
        Some("") | None if place.is_empty() || place == "//" || place == "/" => Err(bad("the agent is missing")),
        Some(address) => match Endpoint::parse(address) {
            Endpoint::Tcp(address) => Ok(TargetName::Tcp { address, device }),
            _ => Err(bad("the address contains a `/`")),
        },
        None if place.contains('/') => Err(bad("an agent's name cannot contain a `/`")),
        None => Ok(TargetName::Paired {
            agent: place.to_owned(),
            device,
        }),
    }
}

/// Opens a target: `software:MODEL`, `qemu:DEVICE[,PROPERTY=VALUE…]`, `agent:NAME/DEVICE`, `agent://HOST:PORT/DEVICE`,
/// `agent:///PATH.sock/DEVICE`.
///
/// # Errors
/// If the name has no known form, or the target cannot be reached or leased.
pub fn open(name: &str, factories: &Factories, keys: &KeyStore) -> Result<Lease, ClientError> {
    open_with(name, factories, keys, LeaseOptions::default(), &Progress::new())
}

/// Opens a target like [`open`], with options of the lease. They are for agents: no other client can hold a target of this
/// process.
///
/// # Errors
/// Like [`open`], and if the agent is too old for the options, or the wait for another client is cancelled.
pub fn open_with(
    name: &str,
    factories: &Factories,
    keys: &KeyStore,
    options: LeaseOptions,
    progress: &Progress,
) -> Result<Lease, ClientError> {
    let (client, device) = match parse(name)? {
        TargetName::Software(model) => return factories.open(&model),
        TargetName::Qemu(name) => return factories.open_qemu(&name),
        TargetName::Cuda(number) => return factories.open_cuda(number),
        TargetName::Nvidia(number) => return factories.open_nvidia(number),
        agent => connect_to(name, agent, keys)?,
    };
    Ok(factories.equip(client.lease_with(&device, options, progress)?))
}

/// Connects to the agent in a target name. Returns the connection and the name of the device, which is not leased.
///
/// # Errors
/// If the name has no known form or names no agent, or the agent cannot be reached.
pub fn connect(name: &str, keys: &KeyStore) -> Result<(Client, String), ClientError> {
    connect_to(name, parse(name)?, keys)
}

fn connect_to(name: &str, target: TargetName, keys: &KeyStore) -> Result<(Client, String), ClientError> {
    match target {
        TargetName::Paired { agent, device } => Ok((paired_with(&agent, keys)?, device)),
        TargetName::Tcp { address, device } => Ok((Client::connect(&Endpoint::Tcp(address), keys, None)?, device)),
        TargetName::Unix { path, device } => Ok((Client::connect(&Endpoint::Unix(path), keys, None)?, device)),
        TargetName::Software(_) | TargetName::Qemu(_) | TargetName::Cuda(_) | TargetName::Nvidia(_) => {
            Err(ClientError::InvalidTargetName {
                name: name.to_owned(),
                reason: "it names no agent".to_owned(),
            })
        }
    }
}

/// Returns the description of a target's device. An agent's device is not leased for this and may be held by another
/// client. A target in this process is leased briefly.
///
/// # Errors
/// If the name has no known form, its agent cannot be reached or has no such device, or the device cannot work.
pub fn query_device(name: &str, factories: &Factories, keys: &KeyStore) -> Result<DeviceInfo, ClientError> {
    match parse(name)? {
        TargetName::Software(model) => Ok(factories.open(&model)?.info().clone()),
        TargetName::Qemu(name) => Ok(factories.open_qemu(&name)?.info().clone()),
        TargetName::Cuda(number) => Ok(factories.open_cuda(number)?.info().clone()),
        TargetName::Nvidia(number) => Ok(factories.open_nvidia(number)?.info().clone()),
        TargetName::Paired { agent, device } => query_agent_device(&paired_with(&agent, keys)?, device),
        TargetName::Tcp { address, device } => {
            query_agent_device(&Client::connect(&Endpoint::Tcp(address), keys, None)?, device)
        }
        TargetName::Unix { path, device } => {
            query_agent_device(&Client::connect(&Endpoint::Unix(path), keys, None)?, device)
        }
    }
}

/// Connects to the agent that was paired under a name.
fn paired_with(agent: &str, keys: &KeyStore) -> Result<Client, ClientError> {
    let Some(peer) = keys.find_by_name(agent)?.filter(|p| !p.address.is_empty()) else {
        let known: Vec<String> = keys.peers()?.into_iter().map(|p| p.name).collect();
        return Err(ClientError::UnknownAgent {
            name: agent.to_owned(),
            known: if known.is_empty() {
                "none".to_owned()
            } else {
                known.join(", ")
            },
        });
    };
    Client::connect(&Endpoint::parse(&peer.address), keys, Some(agent))
}

/// Returns what a connected agent reports about one of its devices.
fn query_agent_device(client: &Client, device: String) -> Result<DeviceInfo, ClientError> {
    let states = client.states();
    match states.iter().find(|s| s.info.name == device) {
        Some(s) => match &s.out_of_order {
            Some(reason) => Err(ClientError::OutOfOrder {
                device,
                reason: reason.clone(),
            }),
            None => Ok(s.info.clone()),
        },
        None => Err(ClientError::NoDevice {
            device,
            known: states
                .iter()
                .map(|s| s.info.name.as_str())
                .collect::<Vec<_>>()
                .join(", "),
        }),
    }
}

/// Lists the simulators, and the CUDA devices and NVIDIA GPUs of this machine. They need no keys.
#[must_use]
pub fn list_local(factories: &Factories) -> Vec<ReplayTarget> {
    factories
        .made
        .iter()
        .map(|made| software(factories, &made.model))
        .chain(factories.cuda())
        .chain(factories.nvidia())
        .collect()
}

/// Lists the name forms that stand for more targets than can be listed, each with a description. Only forms that can be
/// used here are listed.
#[must_use]
pub fn list_name_forms() -> Vec<(&'static str, &'static str)> {
    let message = "a PCI device that QEMU emulates, such as qemu:ati-vga,model=rv100 or qemu:edu";
    qemu::check_installed().map_or_else(|_| Vec::new(), |()| vec![(qemu::FORM, message)])
}

/// Lists the targets of paired agents. Queries all agents at the same time and takes about two seconds.
///
/// # Errors
/// If the key store cannot be read.
pub fn list_paired(keys: &KeyStore) -> Result<Vec<ReplayTarget>, ClientError> {
    let peers: Vec<Peer> = keys.peers()?.into_iter().filter(|p| !p.address.is_empty()).collect();
    let found: Vec<Vec<ReplayTarget>> = std::thread::scope(|scope| {
        let asked: Vec<_> = peers.iter().map(|p| scope.spawn(move || of_agent(p, keys))).collect();
        asked.into_iter().map(|a| a.join().unwrap_or_default()).collect()
    });
    Ok(found.into_iter().flatten().collect())
}

fn software(factories: &Factories, model: &str) -> ReplayTarget {
    let name = format!("software:{model}");
    match factories.server(model) {
        Ok(server) => {
            let info = server.devices().into_iter().next();
            let description = info.as_ref().map(|i| i.description.clone()).unwrap_or_default();
            ReplayTarget {
                name,
                description,
                info,
                reach: Availability::Here,
                live: None,
            }
        }
        Err(e) => ReplayTarget {
            name,
            description: String::new(),
            info: None,
            reach: Availability::Away(e.to_string()),
            live: None,
        },
    }
}

fn of_agent(peer: &Peer, keys: &KeyStore) -> Vec<ReplayTarget> {
    match Client::connect_within(&Endpoint::parse(&peer.address), keys, Some(&peer.name), ASK_LIMIT) {
        Ok(client) => {
            // An agent that does not answer has no offer; its devices are known.
            let offer = client.describe_live(ASK_LIMIT).ok().flatten();
            let live = |device: &str| {
                let offer = offer.as_ref()?;
                offer.devices.iter().any(|name| name == device).then_some(offer.limits)
            };
            let target = |d: &crate::wire::message::DeviceState| ReplayTarget {
                name: format!("agent:{}/{}", peer.name, d.info.name),
                description: d.info.description.clone(),
                // A device that its agent could not open has no description.
                info: (d.out_of_order.is_none() || !d.info.windows.is_empty()).then(|| d.info.clone()),
                reach: match (&d.out_of_order, &d.holder) {
                    (Some(why), _) => Availability::Away(why.clone()),
                    (None, Some(who)) => Availability::Busy(who.clone()),
                    (None, None) => Availability::Free,
                },
                live: live(&d.info.name),
            };
            client.states().iter().map(target).collect()
        }
        Err(e) => vec![ReplayTarget {
            name: format!("agent:{}", peer.name),
            description: format!("agent at {}", peer.address),
            info: None,
            reach: Availability::Away(e.to_string()),
            live: None,
        }],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn target_names_of_every_form_are_parsed() {
        let device = || "d".to_owned();
        assert_eq!(
            parse("software:mali-g71").unwrap(),
            TargetName::Software("mali-g71".into())
        );
        assert_eq!(
            parse("agent:b/d").unwrap(),
            TargetName::Paired {
                agent: "b".into(),
                device: device()
            }
        );
        assert_eq!(
            parse("agent://h:1/d").unwrap(),
            TargetName::Tcp {
                address: "h:1".into(),
                device: device()
            }
        );
        assert_eq!(
            parse("agent://h/d").unwrap(),
            TargetName::Tcp {
                address: "h:7117".into(),
                device: device()
            }
        );
        assert_eq!(parse("cuda:3").unwrap(), TargetName::Cuda(3));
        assert_eq!(parse("nvidia:1").unwrap(), TargetName::Nvidia(1));
        let edu = qemu::Name::parse("edu,dma_mask=1").unwrap();
        assert_eq!(parse("qemu:edu,dma_mask=1").unwrap(), TargetName::Qemu(edu));
        let path = PathBuf::from("/run/a.sock");
        assert_eq!(
            parse("agent:///run/a.sock/d").unwrap(),
            TargetName::Unix { path, device: device() }
        );
        for bad in [
            "",
            "x",
            "software:",
            "qemu:",
            "qemu:edu,addr=4",
            "qemu:edu;id",
            "cuda:",
            "cuda:x",
            "nvidia:",
            "agent:",
            "agent:b",
            "agent:b/",
            "agent://",
            "agent:///",
            "agent:/d",
            "agent:a/b/d",
        ] {
            assert!(
                matches!(parse(bad), Err(ClientError::InvalidTargetName { .. })),
                "{bad}: {:?}",
                parse(bad)
            );
        }
        assert!(
            matches!(parse("agent:///d"), Err(ClientError::InvalidTargetName { .. })),
            "{:?}",
            parse("agent:///d")
        );
    }
}
