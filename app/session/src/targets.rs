//! The replay targets that this program can reach: built-in simulators, QEMU devices, and devices of paired agents.

use device_mali::{Model, ModelData, SoftwareMali};
use replay_cuda::{CudaTargets, WorkerProcesses, program_command};
use replay_engine::client::fitting::{Fit, FittingTarget, RecordedDevice};
use replay_engine::client::targets::{self, Factories, ReplayTarget, TargetName};
use replay_engine::client::{Client, ClientError, Endpoint, Lease};
use replay_engine::device::{Containment, DeviceInfo, RegisterFactory};
use replay_engine::lease_options::LeaseOptions;
use replay_engine::target::ReplayPreparation;
use replay_engine::wire::KeyStore;
use replay_nvidia::{ChannelWorkers, NvidiaTargets};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use trace_core::filter::distance;
use trace_core::progress::Progress;
use trace_core::recording::Recording;

/// Interval at which a wait checks whether the user stopped it.
const TICK: Duration = Duration::from_millis(50);

/// Returns the factories of the built-in simulators.
#[must_use]
pub fn factories() -> Factories {
    let all = Model::ALL.into_iter().fold(Factories::new(), |all, model| {
        let made: RegisterFactory = Arc::new(move || Ok(Box::new(SoftwareMali::new(model))));
        all.with_gpu(model.data().name, model.data().gpu_id, made)
    });
    // The whole program shares one instance of each, so that a prestarted worker process is found.
    static WORKERS: OnceLock<Arc<WorkerProcesses>> = OnceLock::new();
    let workers = WORKERS.get_or_init(|| Arc::new(WorkerProcesses::new(|| worker_command(PLAY_CALLS))));
    static CHANNEL_WORKERS: OnceLock<Arc<ChannelWorkers>> = OnceLock::new();
    let channel_workers =
        CHANNEL_WORKERS.get_or_init(|| Arc::new(ChannelWorkers::new(|| worker_command(PLAY_CHANNEL))));
    all.with_cuda(Arc::new(CudaTargets::new(Arc::clone(workers))))
        .with_nvidia(Arc::new(NvidiaTargets::new(Arc::clone(channel_workers))))
}

/// The command word that starts this program as the worker process for CUDA devices.
pub const PLAY_CALLS: &str = "play-calls";
/// The command word that starts this program as the worker process for channels of NVIDIA GPUs.
pub const PLAY_CHANNEL: &str = "play-channel";
/// The environment variable that names another worker program. It is for an executable that is not this program, for
/// example a test.
pub const WORKER_VARIABLE: &str = "KINESCOPE_CALLS_PLAYER";

/// Returns the command of a worker process: this program, or the one that contains it, with a command word.
#[must_use]
pub fn worker_command(word: &str) -> Command {
    let named = std::env::var_os(WORKER_VARIABLE).filter(|v| !v.is_empty());
    let mut command = named.map_or_else(program_command, Command::new);
    command.arg(word);
    command
}

/// Lists the simulators without creating any: name, `software:MODEL`, and model.
pub fn list_simulators() -> impl Iterator<Item = (String, &'static ModelData)> {
    Model::ALL
        .into_iter()
        .map(|m| (format!("software:{}", m.data().name), m.data()))
}

/// Whether a target name alone says that it is a simulator: part of this program, or a QEMU process that this program
/// starts.
#[must_use]
pub fn is_simulator(name: &str) -> bool {
    name.starts_with("software:") || name.starts_with("qemu:")
}

/// The targets of one window. Clones share the simulators, so that pages sent once stay known to them.
#[derive(Clone, Debug)]
pub struct Targets {
    factories: Factories,
    keys: Option<PathBuf>,
}

impl Default for Targets {
    fn default() -> Self {
        Self::new(None)
    }
}

impl Targets {
    /// Creates the targets with the keys in a folder; `None` for the user's default folder.
    #[must_use]
    pub fn new(keys: Option<PathBuf>) -> Self {
        Self {
            factories: factories(),
            keys,
        }
    }

    /// Creates the targets with the keys in the folder `KINESCOPE_KEYS`, or else the user's default folder.
    #[must_use]
    pub fn with_default_keys() -> Self {
        Self::new(std::env::var_os("KINESCOPE_KEYS").map(PathBuf::from))
    }

    /// Returns the same targets, with CUDA devices that use another worker program.
    #[must_use]
    pub fn with_worker(mut self, worker_command: impl Fn() -> Command + Send + Sync + 'static) -> Self {
        let workers = Arc::new(WorkerProcesses::new(worker_command));
        self.factories = self.factories.with_cuda(Arc::new(CudaTargets::external(workers)));
        self
    }

    /// Returns the same targets; whether QEMU counts as installed does not depend on this machine. For tests.
    #[must_use]
    pub fn with_qemu_installed(mut self, installed: bool) -> Self {
        self.factories = self.factories.with_qemu_installed(installed);
        self
    }

    fn keys(&self) -> Result<KeyStore, ClientError> {
        let folder = match &self.keys {
            Some(f) => f.clone(),
            None => KeyStore::client_folder()?,
        };
        Ok(KeyStore::open(&folder)?)
    }

    /// Opens a target for exclusive use until the lease is dropped.
    ///
    /// # Errors
    /// Returns an error if the name has no known form, or the target cannot be reached or leased.
    pub fn open(&self, name: &str) -> Result<Lease, ClientError> {
        self.open_with(name, LeaseOptions::default(), &Progress::new())
    }

    /// Opens a target like [`Self::open`], with options of the lease, which are for devices of agents. Waits for a client
    /// whose lease is preempted.
    ///
    /// # Errors
    /// Like [`Self::open`], and if the agent is too old for the options, or the wait is cancelled.
    pub fn open_with(&self, name: &str, options: LeaseOptions, progress: &Progress) -> Result<Lease, ClientError> {
        // Targets in this process need no keys, and work even where keys cannot be stored.
        match targets::parse(name)? {
            TargetName::Software(model) => self.factories.open(&model),
            TargetName::Qemu(device) => self.factories.open_qemu(&device),
            TargetName::Cuda(number) => self.factories.open_cuda(number),
            TargetName::Nvidia(number) => self.factories.open_nvidia(number),
            _ => targets::open_with(name, &self.factories, &self.keys()?, options, progress),
        }
    }

    /// Connects to the agent in a target name. Returns the connection and the name of the device, which is not leased.
    ///
    /// # Errors
    /// Returns an error if the name names no agent, or the agent cannot be reached.
    pub fn connect(&self, name: &str) -> Result<(Client, String), ClientError> {
        targets::connect(name, &self.keys()?)
    }

    /// Starts slow initialization now, because a replay on this target will be requested soon.
    pub fn start_early(&self, name: &str) {
        self.factories.prestart_worker(name);
    }

    /// Returns what prepares a replay on a target while its plan is compiled, or `None` if the target has nothing of the
    /// kind.
    #[must_use]
    pub fn preparation(&self, name: &str) -> Option<Arc<dyn ReplayPreparation>> {
        self.factories.preparation(name)
    }

    /// Returns the device information of a target, without leasing it.
    ///
    /// # Errors
    /// Returns an error if the name has no known form, or the information is not available.
    pub fn query_device(&self, name: &str) -> Result<DeviceInfo, ClientError> {
        match targets::parse(name)? {
            TargetName::Software(_) | TargetName::Qemu(_) => Ok(self.open(name)?.info().clone()),
            _ => targets::query_device(name, &self.factories, &self.keys()?),
        }
    }

    /// Returns all known targets. Queries the paired agents, which takes about two seconds. The second value says why
    /// paired agents are missing if their keys cannot be read.
    #[must_use]
    pub fn list(&self) -> (Vec<ReplayTarget>, Option<ClientError>) {
        let mut all = targets::list_local(&self.factories);
        match self.keys().and_then(|keys| targets::list_paired(&keys)) {
            Ok(paired) => {
                all.extend(paired);
                (all, None)
            }
            Err(e) => (all, Some(e)),
        }
    }

    /// Returns the names of the paired agents, without a query. The list is empty if no key was ever stored or the
    /// keys cannot be read; [`Self::list`] reports that error.
    #[must_use]
    pub fn paired_agents(&self) -> Vec<String> {
        let folder = self.keys.clone().or_else(|| KeyStore::client_folder().ok());
        if !folder.is_some_and(|f| KeyStore::exists(&f)) {
            return Vec::new();
        }
        let peers = self.keys().ok().and_then(|keys| keys.peers().ok());
        let agents = peers.into_iter().flatten().filter(|p| !p.address.is_empty());
        agents.map(|p| p.name).collect()
    }

    /// Checks whether a recording can be replayed on a device, based on the recorded device.
    ///
    /// # Errors
    /// Returns an error with a fitting target if the recording was made on another device.
    pub fn check_fit(&self, recording: &Recording, target: &str, device: &DeviceInfo) -> Result<(), ClientError> {
        self.factories.check_fit(recording, target, device)
    }

    /// Returns the targets that fit a recording, the preferred one first. `known` are the targets of agents.
    #[must_use]
    pub fn fitting_targets(&self, recorded: &RecordedDevice, known: &[ReplayTarget]) -> Vec<FittingTarget> {
        self.factories.fitting_targets(recorded, known)
    }

    /// Returns whether the target of this name fits a recording, based on its name only. No target is contacted.
    #[must_use]
    pub fn fit_by_name(&self, recorded: &RecordedDevice, target: &str) -> Fit {
        self.factories.fit_by_name(recorded, target)
    }

    /// Returns a target name with its description, based on the name only.
    #[must_use]
    pub fn describe(&self, target: &str) -> String {
        self.factories.describe_by_name(target)
    }

    /// Returns what this machine lacks for a target, in a few words.
    #[must_use]
    pub fn describe_missing(&self, target: &str) -> Option<String> {
        self.factories.missing(target)
    }

    /// Pairs with an agent at `HOST:PORT`, `agent://HOST:PORT` or `agent:///PATH.sock`, and returns the name of the
    /// stored key. `confirm` gets the code and may take its time. Cancelling also ends the wait for the agent's
    /// operator. A key that arrives afterwards is deleted.
    ///
    /// # Errors
    /// Returns an error if the agent cannot be reached or is not in pairing mode, or the key cannot be stored. Also
    /// returns an error if somebody declined or the user cancelled.
    pub fn pair(
        &self,
        typed: &str,
        progress: &Progress,
        confirm: impl FnOnce(&str) -> bool + Send + 'static,
    ) -> Result<String, ClientError> {
        let endpoint = endpoint(typed);
        let keys = self.keys()?;
        let name = name_for(&endpoint, &keys)?;
        let known = keys.find_by_name(&name)?.is_some();
        let (to, from) = channel();
        let left = Arc::new(AtomicBool::new(false));
        let gone = Arc::clone(&left);
        let thread = std::thread::Builder::new().name("pairing".into());
        let started = thread.spawn(move || {
            let paired = replay_engine::client::pair(&endpoint, &name, &keys, confirm);
            if paired.is_ok() && gone.load(Ordering::SeqCst) && !known {
                // The user cancelled. An agent that accepts afterwards must not leave a key behind.
                let _ = keys.forget(&name);
            }
            // After a cancellation nobody receives the result.
            let _ = to.send(paired.map(|p| p.name));
        });
        started.map_err(|e| ClientError::Refused(format!("cannot start a thread: {e}")))?;
        loop {
            match from.recv_timeout(TICK) {
                Ok(Err(_)) if progress.check().is_err() => return Err(ClientError::Cancelled),
                Ok(paired) => return paired,
                Err(RecvTimeoutError::Timeout) if progress.check().is_err() => {
                    left.store(true, Ordering::SeqCst);
                    return Err(ClientError::Cancelled);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(ClientError::Refused("the pairing thread ended early".into()));
                }
            }
        }
    }
}

/// The forms of target names, for messages.
const TARGET_FORMS: &str = "software:MODEL, qemu:DEVICE[,PROPERTY=VALUE...], cuda:N, nvidia:N, agent:NAME/DEVICE, \
                            agent://HOST:PORT/DEVICE, agent:///PATH.sock/DEVICE";

/// Describes why a target cannot be opened. Suggests the intended target if the name is mistyped.
#[must_use]
pub fn describe_open_error(name: &str, error: &ClientError) -> String {
    let meant = suggest_target(name).filter(|n| n != name);
    let message = match (error, meant) {
        (ClientError::InvalidTargetName { .. } | ClientError::NoTarget { .. }, Some(meant)) => format!(
            "there is no target `{name}`; did you mean `{meant}`? There are {}",
            list_targets()
        ),
        (ClientError::InvalidTargetName { reason, .. }, None) => {
            format!("`{name}` is not a target's name ({reason}); the forms are {TARGET_FORMS}")
        }
        (ClientError::NoTarget { .. }, None) => format!("there is no target `{name}`; there are {}", list_targets()),
        (ClientError::Keys(e), _) => return format!("keys: {e}"),
        (e, _) => e.to_string(),
    };
    // Some errors contain the name of the target.
    if message.contains(name) {
        message
    } else {
        format!("target {name}: {message}")
    }
}

/// Returns the built-in targets, and the form of CUDA devices, as a list for users.
fn list_targets() -> String {
    let all = list_simulators().map(|(name, _)| name).chain(["cuda:N".to_owned()]);
    all.collect::<Vec<_>>().join(", ")
}

/// Suggests a target for a name that has no known form, or no known model.
fn suggest_target(name: &str) -> Option<String> {
    let typed = name.to_ascii_lowercase();
    let model = typed.strip_prefix("software:").unwrap_or(&typed);
    if let Some(number) = model
        .strip_prefix("cuda")
        .map(|n| n.trim_start_matches([':', '-', ' ']))
        && (number.is_empty() || number.parse::<u32>().is_ok())
    {
        return Some(format!("cuda:{}", if number.is_empty() { "0" } else { number }));
    }
    let far = |target: &String| distance(model, target.strip_prefix("software:").unwrap_or(target));
    let nearest = list_simulators().map(|(target, _)| target).min_by_key(far)?;
    (far(&nearest) <= 2).then_some(nearest)
}

/// Parses an agent address as typed by the user, with or without a device name.
fn endpoint(typed: &str) -> Endpoint {
    let rest = typed.trim();
    let rest = rest.strip_prefix("agent://").unwrap_or(rest);
    if rest.starts_with('/') {
        let end = rest.find(".sock").map_or(rest.len(), |i| i + 5);
        Endpoint::Unix(rest.get(..end).unwrap_or(rest).into())
    } else {
        Endpoint::parse(rest.split('/').next().unwrap_or(rest))
    }
}

/// Returns the name of an agent's key: its host, plus the port if another agent of that host has the name.
fn name_for(endpoint: &Endpoint, keys: &KeyStore) -> Result<String, ClientError> {
    let address = endpoint.address();
    let clean = |text: &str| -> String {
        let sound = |c: char| {
            if c.is_ascii_alphanumeric() || "-_.".contains(c) {
                c
            } else {
                '-'
            }
        };
        text.chars().map(sound).take(64).collect()
    };
    let whole = clean(address.trim_start_matches('/'));
    let host = match endpoint {
        Endpoint::Tcp(a) => clean(a.rsplit_once(':').map_or(a.as_str(), |(host, _)| host)),
        _ => whole.clone(),
    };
    match keys.find_by_name(&host)? {
        Some(other) if other.address != address => Ok(whole),
        _ if host.is_empty() => Ok("board".into()),
        _ => Ok(host),
    }
}

/// Describes what keeps a device from accessing foreign memory.
#[must_use]
pub fn describe_containment(c: Containment) -> &'static str {
    match c {
        Containment::Software => "a simulator, which reaches only its own memory",
        Containment::Iommu => "contained by an IOMMU",
        Containment::PageTables => "contained by the page tables of the plan",
        Containment::Driver => "contained by its driver, which keeps a process to its own memory",
        Containment::None => "not contained",
    }
}

/// Describes what keeps a device from accessing foreign memory, in two or three words.
#[must_use]
pub fn summarize_containment(c: Containment) -> &'static str {
    match c {
        Containment::Software => "simulator",
        Containment::Iommu => "behind an IOMMU",
        Containment::PageTables => "contained by page tables",
        Containment::Driver => "contained by its driver",
        Containment::None => "not contained",
    }
}

/// Describes what keeps a device from accessing foreign memory, in one or two words for a table.
#[must_use]
pub fn label_containment(c: Containment) -> &'static str {
    match c {
        Containment::Software => "software",
        Containment::Iommu => "IOMMU",
        Containment::PageTables => "page tables",
        Containment::Driver => "driver",
        Containment::None => "nothing",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_local_simulator_names_are_simulators() {
        assert!(is_simulator("software:mali-g71") && is_simulator("qemu:ati-vga,model=rv100"));
        assert!(!is_simulator("agent:lab/qemu:edu") && !is_simulator("agent://h:1/software:mali-g71"));
    }

    #[test]
    fn agent_addresses_parse_in_common_forms() {
        let tcp = |a: &str| Endpoint::Tcp(a.to_owned()).address();
        assert_eq!(endpoint("agent://lab:7/mali").address(), tcp("lab:7"));
        assert_eq!(endpoint(" lab ").address(), tcp("lab:7117"));
        assert_eq!(endpoint("agent:///run/a.sock/mali").address(), "/run/a.sock");
    }

    #[test]
    fn second_agent_on_a_host_gets_its_own_name() {
        let folder = tempfile::tempdir().unwrap();
        let keys = KeyStore::open(folder.path()).unwrap();
        let first = Endpoint::Tcp("lab:7".into());
        assert_eq!(name_for(&first, &keys).unwrap(), "lab");
        keys.pin("lab", keys.key_pair().public(), "lab:7").unwrap();
        assert_eq!(name_for(&first, &keys).unwrap(), "lab");
        assert_eq!(name_for(&Endpoint::Tcp("lab:8".into()), &keys).unwrap(), "lab-8");
        assert_eq!(
            name_for(&Endpoint::Unix("/run/a.sock".into()), &keys).unwrap(),
            "run-a.sock"
        );
    }

    #[test]
    fn mistyped_target_gets_a_suggestion() {
        for (typed, expected) in [
            ("mali-g71", Some("software:mali-g71")),
            ("Mali-G71", Some("software:mali-g71")),
            ("software:mali-g17", Some("software:mali-g71")),
            ("cuda", Some("cuda:0")),
            ("cuda-1", Some("cuda:1")),
            ("lab", None),
            ("", None),
        ] {
            assert_eq!(suggest_target(typed).as_deref(), expected, "{typed}");
        }
        assert!(list_targets().starts_with("software:") && list_targets().ends_with("cuda:N"));
    }
}
