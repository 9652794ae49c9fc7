//! The agent side: owns devices, leases each to one client, verifies and runs plans.

mod accept;
mod cache;
mod counters;
mod keeper;
mod live;
mod live_end;
mod live_service;
mod pairing;
mod preemption;
mod push;
mod replay;
mod runner;
mod session;
mod sessions;
mod shared;
mod slot;
mod unknown_client_log;
mod unknown_clients;
mod wasm;
mod wasm_budgets;
mod wasm_targets;

pub(crate) use pairing::ANSWER_MARGIN;
pub use pairing::{ANSWER_LIMIT, PairingRequest, PairingWindow};
pub(crate) use push::MAX_BODY;
pub use shared::{MAX_REPEATS, Options};

use crate::device::{DeviceInfo, ReplayDeviceError};
use crate::live::LiveRunner;
use crate::plan::{PageImages, PageSource};
use crate::target::Factory;
use crate::wasm::WasmRunner;
use crate::wire::message::DeviceState;
use crate::wire::{KeyError, KeyPair, KeyStore, Preamble, PreambleWord, PublicKey, Stream};
use cache::{Cache, PartKind};
use live_service::LiveService;
use pairing::Pairing;
use sessions::Sessions;
use shared::Shared;
use slot::Slot;
use std::fmt;
use std::io;
use std::net::TcpListener;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;
use trace_core::recording::Digest;
use unknown_client_log::{LogTopic, UnknownClientLog};
use unknown_clients::UnknownClients;
use wasm_targets::WasmService;

/// Minimum number of page images for a separate checking thread.
const SHARE: usize = 1024;

/// The reason why a server could not start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A device could not be created.
    #[error("device {number}: {source}")]
    Device {
        /// Its position in the list, starting at 1.
        number: usize,
        /// The reason.
        source: ReplayDeviceError,
    },
    /// None of the devices could be created.
    #[error("no device could be opened: {0}")]
    NoDevice(String),
    /// Two devices have the same name.
    #[error("two devices are called `{0}`")]
    SameName(String),
    /// No key pair could be generated.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The operating system refused.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// A server that owns devices. A clone is another handle to the same server.
#[derive(Clone)]
pub struct Server {
    shared: Arc<Shared>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.shared.slots.iter().map(|s| s.info().name.as_str()).collect();
        write!(f, "Server({})", names.join(", "))
    }
}

/// Adds a device with a unique name.
fn add(slots: &mut Vec<Arc<Slot>>, slot: Slot) -> Result<(), ServeError> {
    if slots.iter().any(|s| s.info().name == slot.info().name) {
        return Err(ServeError::SameName(slot.info().name.clone()));
    }
    slots.push(Arc::new(slot));
    Ok(())
}

impl Server {
    /// Creates the devices. Clients are admitted if the store pins their keys. Without a store, only
    /// [`Server::connect_in_process`] reaches the server.
    ///
    /// # Errors
    /// If a device cannot be created or two have the same name.
    pub fn new(devices: &[Factory], keys: Option<Arc<KeyStore>>, options: Options) -> Result<Self, ServeError> {
        let mut slots: Vec<Arc<Slot>> = Vec::new();
        for (at, factory) in devices.iter().enumerate() {
            let made = Slot::new(factory.clone());
            let slot = made.map_err(|source| ServeError::Device { number: at + 1, source })?;
            add(&mut slots, slot)?;
        }
        Self::with(slots, keys, options)
    }

    /// Creates the devices that can be created, and lists the others as out of order, under the given names, with the
    /// reason. So one broken device does not block the others.
    ///
    /// # Errors
    /// [`ServeError::NoDevice`] if none of them can be created; and an error if two created devices have the same name.
    pub fn with_available_devices(
        devices: Vec<(String, Result<Factory, String>)>,
        keys: Option<Arc<KeyStore>>,
        options: Options,
    ) -> Result<Self, ServeError> {
        let (mut slots, mut missing) = (Vec::new(), Vec::new());
        for (name, factory) in devices {
            match factory.and_then(|f| Slot::new(f).map_err(|e| e.to_string())) {
                Ok(slot) => add(&mut slots, slot)?,
                Err(reason) => missing.push((name, reason)),
            }
        }
        if slots.is_empty() && !missing.is_empty() {
            let reasons = missing.iter().map(|(name, why)| format!("{name}: {why}"));
            return Err(ServeError::NoDevice(reasons.collect::<Vec<_>>().join("; ")));
        }
        for (name, reason) in missing {
            tracing::warn!("{name} is not served: {reason}");
            if !slots.iter().any(|s| s.info().name == name) {
                slots.push(Arc::new(Slot::missing(name, reason)));
            }
        }
        Self::with(slots, keys, options)
    }

    fn with(slots: Vec<Arc<Slot>>, keys: Option<Arc<KeyStore>>, options: Options) -> Result<Self, ServeError> {
        let own = match &keys {
            Some(store) => store.key_pair().clone(),
            None => KeyPair::generate()?,
        };
        let serving = keys.as_ref().and_then(|store| {
            let serving = store.serve();
            serving
                .inspect_err(|e| tracing::warn!("the agent cannot announce that it serves these keys: {e}"))
                .ok()
        });
        let shared = Arc::new(Shared {
            own,
            local: KeyPair::generate()?,
            keys,
            slots,
            cache: Mutex::new(Cache::new(options.cache_bytes)),
            lent: Mutex::default(),
            pairing: Mutex::default(),
            sessions: Sessions::new(options.connections, options.share),
            strangers: UnknownClients::new(options.strangers),
            options,
            counters: counters::ServeCounters::default(),
            stranger_log: UnknownClientLog::default(),
            stopping: AtomicBool::new(false),
            wasm: OnceLock::new(),
            live: OnceLock::new(),
            _serving: serving,
        });
        if let Some(store) = &shared.keys {
            keeper::start(&shared, store)?;
        }
        Ok(Self { shared })
    }

    /// Lets clients run WebAssembly programs. Only the first call has an effect.
    pub fn serve_wasm(&self, runner: Arc<dyn WasmRunner>) {
        // A second runner is refused: the first one may be at work.
        let _ = self.shared.wasm.set(WasmService::new(runner));
    }

    /// Lets clients run live programs on the devices that `runner` serves. Only the first call has an effect.
    pub fn serve_live(&self, runner: Arc<dyn LiveRunner>) {
        // A second runner is refused: the first one may be at work.
        let _ = self.shared.live.set(Arc::new(LiveService::new(runner)));
    }

    /// Returns whether a client holds a device, or runs a live or a WebAssembly program.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.shared.slots.iter().any(|slot| slot.is_held())
            || self.shared.wasm.get().is_some_and(WasmService::is_busy)
            || self.shared.live.get().is_some_and(|live| live.is_busy())
    }

    /// Returns the server's public key.
    #[must_use]
    pub fn public_key(&self) -> PublicKey {
        self.shared.own.public()
    }

    /// Returns its devices.
    #[must_use]
    pub fn devices(&self) -> Vec<DeviceInfo> {
        self.shared.slots.iter().map(|s| s.info().clone()).collect()
    }

    /// Stores page images for clients in this process, as if they had sent them. An offer of a plan then finds them
    /// here. An image with a wrong digest is skipped, and later requested as usual.
    pub(crate) fn keep_pages(&self, digests: &[Digest], pages: &(impl PageSource + Sync)) {
        let client = self.shared.local.public();
        let sound = |digest: &Digest| {
            let page = pages.shared_page(digest)?;
            (blake3::hash(&*page).as_bytes() == digest).then_some((*digest, page))
        };
        let workers = thread::available_parallelism().map_or(1, usize::from);
        let share = digests.len().div_ceil(workers).max(SHARE);
        thread::scope(|scope| {
            for some in digests.chunks(share) {
                scope.spawn(move || {
                    let all: Vec<_> = some.iter().filter_map(sound).collect();
                    let mut cache = self.shared.cache.lock().unwrap_or_else(PoisonError::into_inner);
                    for (digest, page) in &all {
                        cache.keep_page(client, *digest, page);
                    }
                });
            }
        });
    }

    /// Lends the images of the next plan of a client in this process, which has computed their digests or compared them.
    pub(crate) fn lend_pages(&self, pages: &PageImages) {
        *self.shared.lent.lock().unwrap_or_else(PoisonError::into_inner) = pages.clone();
    }

    /// Stores the head and the body of a plan, with their digests, for clients in this process, as if they had sent them.
    pub(crate) fn keep_parts(&self, head: &[u8], head_digest: Digest, body: &Arc<Vec<u8>>, body_digest: Digest) {
        let client = self.shared.local.public();
        let head = Arc::new(head.to_vec());
        let mut cache = self.shared.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.keep_part(client, PartKind::Body, body_digest, body_digest, body);
        cache.keep_part(client, PartKind::Head, head_digest, body_digest, &head);
    }

    /// Opens pairing for one unknown client: see [`PairingWindow`].
    pub fn open_pairing(&self, window: PairingWindow) {
        *self.shared.pairing.lock().unwrap_or_else(PoisonError::into_inner) = Pairing::Open(window);
    }

    /// Serves a TCP listener in this thread until [`Server::stop`].
    ///
    /// # Errors
    /// If the listener fails.
    pub fn serve_tcp(&self, listener: &TcpListener) -> io::Result<()> {
        self.accept_from(|| listener.accept().map(|(s, _)| Stream::Tcp(s)))
    }

    /// Serves a Unix socket in this thread until [`Server::stop`].
    ///
    /// # Errors
    /// If the listener fails.
    pub fn serve_unix(&self, listener: &UnixListener) -> io::Result<()> {
        self.accept_from(|| listener.accept().map(|(s, _)| Stream::Unix(s)))
    }

    fn accept_from(&self, next: impl Fn() -> io::Result<Stream>) -> io::Result<()> {
        while !self.shared.stopping.load(Ordering::SeqCst) {
            match next() {
                Ok(stream) => self.spawn(stream, accept::Admission::Pinned),
                // A connection that failed before it was accepted says nothing about the next one. If the process has
                // no handles left, other connections must end first.
                Err(e) => {
                    let line = format!("a connection could not be accepted: {e}");
                    self.shared.stranger_log.note(LogTopic::NotTaken, &line);
                    thread::sleep(Duration::from_millis(50));
                }
            }
        }
        Ok(())
    }

    fn spawn(&self, mut stream: Stream, admit: accept::Admission) {
        // Counted here, before its thread is started.
        let stranger = match admit {
            accept::Admission::Only(_) => None,
            accept::Admission::Pinned => match self.shared.strangers.admit(&stream) {
                Some(stranger) => Some(stranger),
                None => {
                    let line = format!(
                        "a connection from {} was dropped: too many unknown clients",
                        stream.peer()
                    );
                    self.shared.stranger_log.note(LogTopic::Dropped, &line);
                    stream.send_at_once(&Preamble::new(PreambleWord::Full).to_bytes());
                    return;
                }
            },
        };
        let shared = Arc::clone(&self.shared);
        let work = move || accept::accept_connection(&shared, stream, &admit, stranger);
        if let Err(e) = thread::Builder::new().name("kinescope-session".into()).spawn(work) {
            let line = format!("a thread for a connection could not be started: {e}");
            self.shared.stranger_log.note(LogTopic::NotTaken, &line);
        }
    }

    /// Connects a client in this process: returns its end of a socket pair, its keys, and the server's key.
    ///
    /// # Errors
    /// If the socket pair or random numbers are not available.
    pub fn connect_in_process(&self) -> Result<(Stream, KeyPair, PublicKey), ServeError> {
        let (here, there) = UnixStream::pair()?;
        let keys = self.shared.local.clone();
        self.spawn(Stream::Unix(there), accept::Admission::Only(keys.public()));
        Ok((Stream::Unix(here), keys, self.public_key()))
    }

    /// Stops accepting connections and stops running plans. Listeners notice it at their next connection.
    pub fn stop(&self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
    }

    /// Returns the metrics in Prometheus' text format.
    #[must_use]
    pub fn render_metrics(&self) -> String {
        self.shared.counters.render(&self.shared.slots)
    }

    /// Returns the devices with their holders.
    #[must_use]
    pub fn states(&self) -> Vec<DeviceState> {
        self.shared.slots.iter().map(|s| s.describe()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{ANSWER_LIMIT, ANSWER_MARGIN, MAX_REPEATS, Options};
    use crate::live::{
        MAX_DEVICES, MAX_PREFACE_BYTES, MAX_PROGRAM_BYTES, MAX_RECORDING_BYTES, MAX_RECORDING_NAME_BYTES,
        MAX_RECORDINGS, MAX_REPORT_BYTES,
    };
    use crate::wire::{HANDSHAKE_LIMIT, HEARTBEAT, HIGHEST, PREAMBLE_BYTES, SILENCE, WRITE_LIMIT};

    #[test]
    fn the_protocol_page_states_the_limits_of_the_program() {
        let page = include_str!("../../docs/agent-protocol.md");
        let limits = Options::default();
        let [handshake, heartbeat, silence, write, answer, margin] = [
            HANDSHAKE_LIMIT,
            HEARTBEAT,
            SILENCE,
            WRITE_LIMIT,
            ANSWER_LIMIT,
            ANSWER_MARGIN,
        ]
        .map(|limit| limit.as_secs());
        for stated in [
            format!("must be over within {handshake} seconds on both ends"),
            format!("each has {handshake} s for its handshake"),
            format!("A client has {handshake} seconds from its handshake to commit and to reveal"),
            format!("asks every {heartbeat} seconds"),
            format!("receives nothing for {silence} seconds, or cannot write for {write} seconds"),
            format!("connection lost within {silence} s"),
            format!("each has {answer} seconds; a person who does not answer has declined"),
            format!("the question has a limit of {answer} s"),
            format!("waits {margin} seconds longer for the other's answer"),
            format!(
                "{} connections of known clients, and apart from them {}",
                limits.connections, limits.strangers
            ),
            format!("{} of the {} for one key", limits.share, limits.connections),
            format!(
                "runs {} programs at the same time, and {} of one client",
                limits.live.sessions, limits.live.sessions_per_client
            ),
            format!("A program has at most {} lanes", limits.live.lanes),
            format!("a byte string of at most {} KiB", MAX_PREFACE_BYTES >> 10),
            format!("a byte string of at most {} MiB", MAX_REPORT_BYTES >> 20),
            format!(
                "There are at most {MAX_RECORDINGS}, together at most {} GiB",
                MAX_RECORDING_BYTES >> 30
            ),
            format!("A name has 1 to {MAX_RECORDING_NAME_BYTES} bytes"),
            format!("devices, 1 to {MAX_DEVICES}, each once"),
            format!("name, at most {MAX_PROGRAM_BYTES} bytes"),
            format!("This is protocol version {HIGHEST}."),
        ] {
            assert!(
                page.contains(&stated),
                "docs/agent-protocol.md does not state: {stated}"
            );
        }
        assert_eq!((PREAMBLE_BYTES, MAX_REPEATS), (64, 10_000), "the page states both");
    }
}
