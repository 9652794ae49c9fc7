//! The worker: connects to the broker, and runs the runs of its targets until it is stopped.

use crate::connection::{QueueOptions, stopped};
use crate::counters::Counters;
use crate::file_cache::FileCache;
use crate::held_list::HeldList;
use crate::held_message::give_back_earlier;
use crate::run_source::{BrokerSource, WorkerParts};
use crate::selectors::SelectorList;
use crate::storage::Storage;
use crate::worker_list::{MAX_TARGETS, OfferedTarget, REPORT_INTERVAL, WorkerReport};
use anyhow::{Context as _, Result, bail};
use kinescope_campaign::{CampaignOptions, Labels, RunNotice, parse_label, run_worker};
use kinescope_session::targets::Targets;
use kinescope_session::wasm_program::WasmTarget;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use trace_core::progress::Progress;

/// Threads that do the requests to the broker.
const THREADS: usize = 2;
/// Time that requests have after the worker was stopped.
const STOP_LIMIT: Duration = Duration::from_secs(5);

/// Options of the worker.
#[derive(Clone, Debug, clap::Args)]
pub struct WorkerOptions {
    /// The broker.
    #[command(flatten)]
    pub queue: QueueOptions,
    /// Target whose runs this worker does, as `kinescope replay --on` takes it, or cpu or interpreter for WebAssembly programs;
    /// may be given more than once
    #[arg(long = "on", value_name = "TARGET", required = true)]
    pub targets: Vec<String>,
    /// Label of all targets of this worker, besides gpu, device, interface, memory and kind; may be given more than once
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = label)]
    pub labels: Vec<(String, String)>,
    /// Name of this worker in results [default: host name and process]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Folder of recordings and inputs, for one worker [default: in the user's cache folder]
    #[arg(long, value_name = "FOLDER")]
    pub cache: Option<PathBuf>,
    /// Maximum size of that folder, MiB
    #[arg(long, value_name = "MIB", default_value_t = 16 << 10, value_parser = clap::value_parser!(u64).range(1..=1 << 24))]
    pub cache_size: u64,
    /// Seconds without a sign of life after which a run goes to another worker
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub lease: u64,
    /// Run on devices that can access foreign memory without containment, if the description of the campaign accepts that
    /// too; without this option, such a device is refused
    #[arg(long)]
    pub without_containment: bool,
    /// Folder of the keys and paired agents [default: that of kinescope]
    #[arg(long, value_name = "FOLDER", env = "KINESCOPE_KEYS", hide_env_values = true)]
    pub keys: Option<PathBuf>,
    /// Address for metrics in Prometheus' format, over HTTP without encryption: use a local one
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub metrics: Option<String>,
    /// Servers of a cluster that hold each message, when the storage is created
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=5))]
    pub replicas: u8,
}

/// Parses a label of the command line.
fn label(text: &str) -> Result<(String, String), String> {
    parse_label(text).ok_or_else(|| "expected NAME=VALUE of letters, digits, `-`, `_`, `.` and `/`".to_owned())
}

/// Returns the default name of this worker.
fn default_name() -> String {
    let host = rustix::system::uname();
    format!("{}/{}", host.nodename().to_string_lossy(), std::process::id())
}

/// Returns the default folder of files.
fn default_cache() -> Result<PathBuf> {
    let folders = directories::ProjectDirs::from("", "", "kinescope-worker");
    let folders = folders.context("this user has no cache folder; use --cache")?;
    Ok(folders.cache_dir().to_owned())
}

/// Runs runs from the broker until `stop` is cancelled.
///
/// # Errors
/// If the options are wrong, or the broker cannot be reached at the start.
pub fn serve(options: &WorkerOptions, stop: &Progress) -> Result<()> {
    let targets: BTreeSet<String> = options.targets.iter().cloned().collect();
    if targets.len() > MAX_TARGETS {
        bail!("a worker has at most {MAX_TARGETS} targets; start more workers");
    }
    for target in &targets {
        // This machine itself, for WebAssembly programs, or a device.
        if WasmTarget::parse(target).is_err() {
            replay_engine::client::targets::parse(target)?;
        }
    }
    let targets: Vec<String> = targets.into_iter().collect();
    let folder = options.cache.clone().map_or_else(default_cache, Ok)?;
    let max_bytes = options.cache_size.saturating_mul(1 << 20);
    let cache = FileCache::open(&folder, max_bytes).with_context(|| folder.display().to_string())?;
    let lease = Duration::from_secs(options.lease);
    let counters = Arc::new(Counters::default());
    if let Some(address) = &options.metrics {
        let counters = Arc::clone(&counters);
        let local = replay_engine::metrics::serve(address, move || counters.render());
        let local = local.with_context(|| format!("--metrics {address}"))?;
        tracing::info!("metrics at http://{local}/metrics");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .thread_name("broker")
        .enable_all()
        .build()
        .context("no threads for the broker")?;
    let name = options.name.clone().unwrap_or_else(default_name);
    let started = runtime.block_on(async {
        let start = async {
            let client = options.queue.connect(&name, Arc::clone(&counters.connection)).await?;
            // Not before: without the broker, the next process returns them.
            let (held, earlier) =
                HeldList::open(&folder, &options.queue.queue, lease).with_context(|| folder.display().to_string())?;
            if !earlier.is_empty() {
                tracing::info!(runs = earlier.len(), "runs of an earlier process return to the queue");
                give_back_earlier(&client, earlier).await;
            }
            let open = || Storage::open(client.clone(), &options.queue.queue, options.replicas.into());
            let storage = counters.connection.repeat_until_connected(open).await?;
            anyhow::Ok(Some((storage, held)))
        };
        tokio::select! {
            started = start => started,
            () = stopped(stop, Duration::ZERO) => Ok(None),
        }
    })?;
    let Some((storage, held)) = started else {
        tracing::info!("stopped before the broker was there");
        return Ok(());
    };
    let outcomes = folder.join("incomplete").join("outcomes");
    let selectors = Arc::new(SelectorList::default());
    let labels: Labels = options.labels.iter().cloned().collect();
    let parts = WorkerParts {
        runtime: runtime.handle().clone(),
        storage: storage.clone(),
        cache: Arc::new(cache),
        outcomes: outcomes.clone(),
        held: Arc::new(held),
        worker: name.clone(),
        lease,
        labels,
        accepts_no_containment: options.without_containment,
        stop: stop.clone(),
        counters: Arc::clone(&counters),
    };
    let source = Arc::new(BrokerSource::new(parts, &targets, Arc::clone(&selectors)));
    let client = storage.jetstream.client();
    runtime.spawn(selectors.follow(storage.clone()));
    runtime.spawn(report_presence(
        name.clone(),
        Arc::clone(&source),
        storage,
        Arc::clone(&counters),
    ));
    tracing::info!(worker = name, targets = targets.len(), "ready");
    let campaign = CampaignOptions {
        worker: name,
        max_workers: 0,
        target_wait: Duration::MAX,
        outcomes,
        targets: Targets::new(options.keys.clone()),
    };
    let ended = run_worker(&*source, &targets, &campaign, stop, &|notice| match notice {
        RunNotice::Unavailable(target, reason) => tracing::warn!(target, "target cannot be used now: {reason}"),
        RunNotice::Done(..) | RunNotice::Repeated(..) => {}
    });
    runtime.block_on(async {
        source.close().await;
        // Acknowledgements are on their way.
        let flushed = tokio::time::timeout(STOP_LIMIT, client.flush()).await;
        tracing::debug!("requests are sent: {flushed:?}");
    });
    runtime.shutdown_timeout(STOP_LIMIT);
    let end = ended?;
    for (target, reason) in &end.given_up {
        tracing::error!(target, "target is not used: {reason}");
    }
    tracing::info!(results = end.done, "stopped");
    Ok(())
}

/// Reports the worker and its targets to the broker, for ever.
async fn report_presence(worker: String, source: Arc<BrokerSource>, storage: Storage, counters: Arc<Counters>) {
    // Two workers may have the same name.
    let since = std::time::UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos();
    let key = crate::storage::target_word(&format!("{worker} {} {since}", std::process::id()));
    let mut ticks = tokio::time::interval(REPORT_INTERVAL);
    loop {
        ticks.tick().await;
        let offered = source
            .labels()
            .into_iter()
            .filter(|(name, _)| !counters.is_declined(name));
        let report = WorkerReport {
            worker: worker.clone(),
            targets: offered
                .map(|(name, labels)| OfferedTarget {
                    name,
                    labels: labels.unwrap_or_default(),
                })
                .collect(),
        };
        if let Err(e) = report.publish(&storage, &key).await {
            tracing::debug!("this worker is not listed: {e}");
        }
    }
}
