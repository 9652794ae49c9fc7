//! State that all connections of a server share, and its limits.

use super::cache::{Cache, PinnedPages};
use super::counters::ServeCounters;
use super::live_service::LiveService;
use super::pairing::Pairing;
use super::sessions::Sessions;
use super::slot::Slot;
use super::unknown_client_log::UnknownClientLog;
use super::unknown_clients::UnknownClients;
use super::wasm_targets::WasmService;
use crate::live::LiveBudgets;
use crate::plan::PageImages;
use crate::wasm::WasmBudgets;
use crate::wire::{HANDSHAKE_LIMIT, KeyPair, KeyStore, PublicKey, ServeLock};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use trace_core::recording::Digest;

/// Limits of a server.
#[derive(Clone, Debug)]
pub struct Options {
    /// Maximum size of page images and plans kept for later replays, bytes.
    pub cache_bytes: usize,
    /// Maximum number of page images of one plan.
    pub plan_pages: u64,
    /// Maximum number of repetitions of one run.
    pub repeat: u32,
    /// Maximum wall time of one run with all its repetitions.
    pub longest_run: Duration,
    /// Maximum time for a cancelled run to stop before its target counts as hanging.
    pub grace: Duration,
    /// Maximum number of simultaneous connections of known clients.
    pub connections: usize,
    /// Maximum number of simultaneous connections with one client key: no client takes all places.
    pub share: usize,
    /// Maximum number of simultaneous unauthenticated connections. The oldest are dropped for new ones.
    pub strangers: usize,
    /// Maximum time for a connection to authenticate, and for a pairing client to send the inputs of the code.
    pub introduction: Duration,
    /// Budgets of runs of WebAssembly programs.
    pub wasm: WasmBudgets,
    /// Budgets of live programs.
    pub live: LiveBudgets,
}

/// Default maximum number of repetitions of one run.
pub const MAX_REPEATS: u32 = 10_000;

impl Default for Options {
    fn default() -> Self {
        Self {
            cache_bytes: 512 << 20,
            plan_pages: 1 << 18,
            repeat: MAX_REPEATS,
            longest_run: Duration::from_secs(3600),
            grace: Duration::from_secs(10),
            connections: 128,
            share: 32,
            strangers: 16,
            introduction: HANDSHAKE_LIMIT,
            wasm: WasmBudgets::default(),
            live: LiveBudgets::default(),
        }
    }
}

impl Options {
    /// Returns limits for devices that take API traces: a program copies more data to them than registers need.
    #[must_use]
    pub fn for_api_traces() -> Self {
        Self {
            cache_bytes: 4 << 30,
            plan_pages: 1 << 23,
            ..Self::default()
        }
    }
}

/// State shared by all connections.
pub(crate) struct Shared {
    /// Counters for metrics.
    pub counters: ServeCounters,
    pub own: KeyPair,
    /// The key pair of clients in this process, the same for all: they share their cached pages.
    pub local: KeyPair,
    /// Pinned clients. `None` admits only those in this process.
    pub keys: Option<Arc<KeyStore>>,
    pub slots: Vec<Arc<Slot>>,
    pub cache: Mutex<Cache>,
    /// Images of the next plan of a client in this process.
    pub lent: Mutex<PageImages>,
    pub pairing: Mutex<Pairing>,
    pub options: Options,
    pub sessions: Arc<Sessions>,
    pub strangers: Arc<UnknownClients>,
    pub stranger_log: UnknownClientLog,
    pub stopping: AtomicBool,
    /// What runs WebAssembly programs, if the server offers that.
    pub wasm: OnceLock<WasmService>,
    /// What runs live programs, if the server offers that.
    pub live: OnceLock<Arc<LiveService>>,
    /// The lock that shows other programs that these keys are served.
    pub _serving: Option<ServeLock>,
}

impl Shared {
    /// Takes the images that a client in this process lent, if they are all of these.
    pub fn take_lent(&self, client: PublicKey, digests: &[Digest]) -> Option<PinnedPages> {
        if client != self.local.public() {
            return None;
        }
        let mut lent = self.lent.lock().unwrap_or_else(PoisonError::into_inner);
        let lent = std::mem::take(&mut *lent);
        let has_all = digests.iter().all(|digest| lent.contains_key(digest));
        (has_all && !lent.is_empty()).then(|| PinnedPages(lent.into_iter().collect()))
    }
}
