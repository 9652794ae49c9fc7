//! The boards that this program can reach: the software ones that it brings along, QEMU's, and those of paired agents.

use device_mali::{Model, ModelData, SoftwareMali};
use replay_engine::client::boards::{self, Board, Factories, TargetName};
use replay_engine::client::fitting::{Fit, FittingTarget, RecordedDevice};
use replay_engine::client::{ClientError, Endpoint, Lease};
use replay_engine::device::cuda::{Players, current_program};
use replay_engine::device::{self, Containment, DeviceInfo};
use replay_engine::wire::KeyStore;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use trace_core::progress::Progress;
use trace_core::recording::Recording;

/// How often a wait looks whether the person stopped it.
const TICK: Duration = Duration::from_millis(50);

/// The software boards that this program brings along.
#[must_use]
pub fn factories() -> Factories {
    let all = Model::ALL.into_iter().fold(Factories::new(), |all, model| {
        let made = move || Ok(Box::new(SoftwareMali::new(model)) as Box<dyn device::Board>);
        all.with_gpu(model.data().name, model.data().gpu_id, Arc::new(made))
    });
    // One for the whole program, so that what was started ahead is found.
    static PLAYERS: OnceLock<Arc<Players>> = OnceLock::new();
    all.with_cuda(Arc::clone(PLAYERS.get_or_init(|| Arc::new(Players::new(player)))))
}

/// The word by which this program is started as the process that plays on a CUDA device.
pub const PLAY_CALLS: &str = "play-calls";
/// Names another program for that: one whose own executable is not this program, a test for one.
pub const PLAYER_VARIABLE: &str = "KINESCOPE_CALLS_PLAYER";

/// The process that plays on a CUDA device: this program again.
fn player() -> Command {
    let named = std::env::var_os(PLAYER_VARIABLE).filter(|v| !v.is_empty());
    let program = named.map_or_else(current_program, PathBuf::from);
    let mut command = Command::new(program);
    command.arg(PLAY_CALLS);
    command
}

/// The same boards without making any: name, `software:MODEL`, and model.
pub fn list_simulators() -> impl Iterator<Item = (String, &'static ModelData)> {
    Model::ALL
        .into_iter()
        .map(|m| (format!("software:{}", m.data().name), m.data()))
}

/// Whether a board's name alone says that nothing real is behind it: it is in this program, or a process of QEMU's that
/// this program starts.
#[must_use]
pub fn is_simulator(name: &str) -> bool {
    name.starts_with("software:") || name.starts_with("qemu:")
}

/// The boards of one window. Clones share the software boards, so that pages pushed once stay known to them.
#[derive(Clone, Debug)]
pub struct Boards {
    factories: Factories,
    keys: Option<PathBuf>,
}

impl Default for Boards {
    fn default() -> Self {
        Self::new(None)
    }
}

impl Boards {
    /// Boards with the keys in a folder; `None`: where the person's lie.
    #[must_use]
    pub fn new(keys: Option<PathBuf>) -> Self {
        Self {
            factories: factories(),
            keys,
        }
    }

    /// Boards with the keys where `KINESCOPE_KEYS` says, or else where the person's lie.
    #[must_use]
    pub fn with_default_keys() -> Self {
        Self::new(std::env::var_os("KINESCOPE_KEYS").map(PathBuf::from))
    }

    /// The same boards, with CUDA devices that another program plays on.
    #[must_use]
    pub fn with_player(mut self, player: impl Fn() -> Command + Send + Sync + 'static) -> Self {
        self.factories = self.factories.with_external_cuda(Arc::new(Players::new(player)));
        self
    }

    fn keys(&self) -> Result<KeyStore, ClientError> {
        let folder = match &self.keys {
            Some(f) => f.clone(),
            None => KeyStore::client_folder()?,
        };
        Ok(KeyStore::open(&folder)?)
    }

    /// Gets a board to use alone until the lease is dropped.
    ///
    /// # Errors
    /// When the name has no known form, or the board cannot be reached or had.
    pub fn open(&self, name: &str) -> Result<Lease, ClientError> {
        // Boards in this process need no keys, and are there even where none can be kept.
        match boards::parse(name)? {
            TargetName::Software(model) => self.factories.open(&model),
            TargetName::Qemu(device) => self.factories.open_qemu(&device),
            TargetName::Cuda(number) => self.factories.open_cuda(number),
            _ => boards::open(name, &self.factories, &self.keys()?),
        }
    }

    /// A replay on this board will be asked for: what takes a while to begin there begins now.
    pub fn start_early(&self, name: &str) {
        self.factories.prestart_worker(name);
    }

    /// What a board says of itself, without holding it.
    ///
    /// # Errors
    /// When the name has no known form, or nobody tells what it is.
    pub fn query_device(&self, name: &str) -> Result<DeviceInfo, ClientError> {
        match boards::parse(name)? {
            TargetName::Software(_) | TargetName::Qemu(_) => Ok(self.open(name)?.info().clone()),
            _ => boards::query_device(name, &self.factories, &self.keys()?),
        }
    }

    /// All boards that are known; asks the paired agents, for about two seconds. The second is why the paired agents
    /// are not among them, when their keys cannot be read.
    #[must_use]
    pub fn list(&self) -> (Vec<Board>, Option<ClientError>) {
        let mut all = boards::list_local(&self.factories);
        match self.keys().and_then(|keys| boards::list_paired(&keys)) {
            Ok(paired) => {
                all.extend(paired);
                (all, None)
            }
            Err(e) => (all, Some(e)),
        }
    }

    /// Returns the names of the paired agents, without asking them. None where no key was ever kept, or the keys cannot
    /// be read, which [`Self::list`] tells.
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

    /// Whether a recording can be replayed on a device, as far as the recorded device goes.
    ///
    /// # Errors
    /// When it was made of another device, with the target that would fit.
    pub fn check_fit(&self, recording: &Recording, board: &str, device: &DeviceInfo) -> Result<(), ClientError> {
        self.factories.check_fit(recording, board, device)
    }

    /// Returns the targets that fit a recording, the one to offer first at the beginning; `known` are those of agents.
    #[must_use]
    pub fn fitting_targets(&self, recorded: &RecordedDevice, known: &[Board]) -> Vec<FittingTarget> {
        self.factories.fitting_targets(recorded, known)
    }

    /// Returns whether the target of this name fits a recording, as far as the name tells. Nobody is asked.
    #[must_use]
    pub fn fit_by_name(&self, recorded: &RecordedDevice, target: &str) -> Fit {
        self.factories.fit_by_name(recorded, target)
    }

    /// Returns a target with what it is, as far as its name tells.
    #[must_use]
    pub fn describe(&self, target: &str) -> String {
        self.factories.describe_by_name(target)
    }

    /// Returns what this machine lacks for a target, in a few words.
    #[must_use]
    pub fn describe_missing(&self, target: &str) -> Option<String> {
        self.factories.missing(target)
    }

    /// Pairs with an agent at `HOST:PORT`, `agent://HOST:PORT` or `agent:///PATH.sock`, and gives the name that its
    /// key is kept under. `confirm` gets the code and may take its time. Cancelling ends the wait for the agent's
    /// person, too; a key that it would still have brought is forgotten.
    ///
    /// # Errors
    /// When the agent cannot be reached, is not in pairing mode, somebody declined, the key cannot be kept, or the
    /// person cancelled.
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
                // The person stopped it: that the agent said yes afterwards must not leave a key behind.
                let _ = keys.forget(&name);
            }
            // Nobody listens any more after a stop.
            let _ = to.send(paired.map(|p| p.name));
        });
        started.map_err(|e| ClientError::Refused(format!("no thread could be started: {e}")))?;
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
                    return Err(ClientError::Refused("the thread that paired ended early".into()));
                }
            }
        }
    }
}

/// An agent's address as a person writes it, with or without the device behind it.
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

/// The name that an agent's key is kept under: its host, with the port where another agent of that host has it.
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

/// What keeps a device from foreign memory, in words.
#[must_use]
pub fn describe_containment(c: Containment) -> &'static str {
    match c {
        Containment::Software => "a software device, which has no memory but its own",
        Containment::Iommu => "contained by an IOMMU",
        Containment::PageTables => "contained by the page tables of the plan",
        Containment::Driver => "contained by its driver, which keeps a process to its own memory",
        Containment::None => "contained by nothing",
    }
}

/// What keeps a device from foreign memory, in two or three words.
#[must_use]
pub fn summarize_containment(c: Containment) -> &'static str {
    match c {
        Containment::Software => "software device",
        Containment::Iommu => "behind an IOMMU",
        Containment::PageTables => "contained by page tables",
        Containment::Driver => "contained by its driver",
        Containment::None => "not contained",
    }
}

/// What keeps a device from foreign memory, in a word or two for a table.
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
    fn what_is_software_by_its_name_is_not_taken_for_hardware() {
        assert!(is_simulator("software:mali-g71") && is_simulator("qemu:ati-vga,model=rv100"));
        assert!(!is_simulator("agent:lab/qemu:edu") && !is_simulator("agent://h:1/software:mali-g71"));
    }

    #[test]
    fn addresses_are_taken_as_people_write_them() {
        let tcp = |a: &str| Endpoint::Tcp(a.to_owned()).address();
        assert_eq!(endpoint("agent://lab:7/mali").address(), tcp("lab:7"));
        assert_eq!(endpoint(" lab ").address(), tcp("lab:7117"));
        assert_eq!(endpoint("agent:///run/a.sock/mali").address(), "/run/a.sock");
    }

    #[test]
    fn a_second_agent_of_a_host_gets_a_name_of_its_own() {
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
}
