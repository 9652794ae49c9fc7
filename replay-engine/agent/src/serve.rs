//! The `serve` and `pair` verbs: listeners, their messages and their shutdown.

use crate::cli::{Pair, Serve};
use crate::{devices, live, pairing_prompt, print_line, programs};
use anyhow::{Context as _, Result, bail};
use replay_engine::live::LiveBudgets;
use replay_engine::serve::{Options, Server};
use replay_engine::target::Factory;
use replay_engine::wasm::WasmBudgets;
use replay_engine::wire::{DEFAULT_PORT, KeyStore, NamedKey};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::net::TcpListener;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Maximum time for runs to stop and devices to be reset when the program exits.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(15);

/// Returns the memory of this machine in kibibytes, or `None` if the system does not say.
fn memory_kib() -> Option<usize> {
    let message = std::fs::read_to_string("/proc/meminfo").ok()?;
    let total = message.lines().find_map(|l| l.strip_prefix("MemTotal:"))?;
    total.split_whitespace().next()?.parse().ok()
}

/// Returns the budgets of runs of WebAssembly programs. `memory_mib` is the memory of a run in mebibytes, if given.
fn wasm_budgets(memory_mib: Option<u32>) -> WasmBudgets {
    const INPUT_SHARE: u64 = 4;
    let half = || memory_kib().map(|kib| (kib as u64).saturating_mul(1 << 10) / 2);
    let given = memory_mib.map(|mib| u64::from(mib) << 20);
    let default = WasmBudgets::default();
    let memory_bytes = given.or_else(half).unwrap_or(default.memory_bytes);
    WasmBudgets {
        memory_bytes,
        input_bytes: memory_bytes / INPUT_SHARE,
        ..default
    }
}

/// Returns the maximum host memory of a live program, bytes. `memory_mib` is it in mebibytes, if given.
fn live_memory(memory_mib: Option<u32>) -> u64 {
    const DEFAULT_BYTES: u64 = 4 << 30;
    const SHARE: u64 = 4;
    let given = memory_mib.map(|mib| u64::from(mib) << 20);
    let quarter = || memory_kib().map(|kib| (kib as u64).saturating_mul(1 << 10) / SHARE);
    given.or_else(quarter).unwrap_or(DEFAULT_BYTES)
}

/// Returns the budgets of live programs.
fn live_budgets(options: &Serve) -> LiveBudgets {
    LiveBudgets {
        host_bytes: Some(live_memory(options.live_memory)),
        device_bytes: options.live_device_memory.map(|mib| u64::from(mib) << 20),
        longest: options.live_time.map(|seconds| Duration::from_secs(seconds.into())),
        ..LiveBudgets::default()
    }
}

/// Returns the default size of the cache kept between replays, bytes. Small boards need their memory for runs.
fn default_cache_bytes() -> usize {
    const MAX_KEPT_BYTES: usize = 512 << 20;
    const SMALL_KIB: usize = 256 << 10;
    // A cached plan and an arriving plan are in memory together. On the smallest boards there is no room for both, and
    // sending a plan again costs less than a run that finds no memory.
    let part = |kib: usize| if kib < SMALL_KIB { 32 } else { 8 };
    memory_kib().map_or(MAX_KEPT_BYTES, |kib| {
        (kib.saturating_mul(1 << 10) / part(kib)).min(MAX_KEPT_BYTES)
    })
}

/// Serves devices until the process is terminated.
///
/// # Errors
/// When no device can be created, two devices have the same name, or an address cannot be listened on.
pub fn serve(options: &Serve, keys: &Arc<KeyStore>) -> Result<()> {
    let names: Vec<String> = if options.device.is_empty() {
        let cuda = devices::list_cuda_devices().into_iter().map(|(name, _)| name);
        let nvidia = devices::list_nvidia_devices().into_iter().map(|(name, _)| name);
        let programs = programs::TARGETS.map(|(name, _)| name.to_owned());
        devices::software_device_names()
            .chain(cuda)
            .chain(nvidia)
            .chain(programs)
            .collect()
    } else {
        options.device.clone()
    };
    let (program_targets, names): (Vec<String>, Vec<String>) = names.into_iter().partition(|n| programs::is_target(n));
    let of_calls = names
        .iter()
        .any(|n| ["cuda:", "nvidia:"].iter().any(|bus| n.starts_with(bus)));
    let memory = u64::from(options.memory) << 20;
    let hardware = devices::Hardware::new(options.take, memory, &options.address_bits, &names)?;
    let opened = |n: &String| devices::factory(n, &hardware).map_err(|e| format!("{e:#}"));
    let factories: Vec<(String, Result<Factory, String>)> = names.iter().map(|n| (n.clone(), opened(n))).collect();
    let cache_bytes = options
        .cache
        .map_or_else(default_cache_bytes, |mib| mib.saturating_mul(1 << 20));
    let budgets = wasm_budgets(options.program_memory);
    let server = Server::with_available_devices(
        factories,
        Some(Arc::clone(keys)),
        Options {
            cache_bytes,
            plan_pages: if of_calls {
                Options::for_api_traces().plan_pages
            } else {
                Options::default().plan_pages
            },
            wasm: budgets.clone(),
            live: live_budgets(options),
            ..Options::default()
        },
    )?;
    server.serve_wasm(programs::runner(program_targets, budgets.memory_bytes));
    if options.live {
        let budgets = live_budgets(options);
        let contents = live::content_bytes(budgets.host_bytes);
        server.serve_live(live::runner(contents, options.live_record.clone())?);
        print_line("live CUDA programs of paired clients are allowed")?;
    }
    let own = keys.key_pair().public().fingerprint();
    tracing::info!(key = own, keys = %keys.path().display(), "this agent's key");
    if let Some(address) = &options.metrics {
        let of = server.clone();
        let local = replay_engine::metrics::serve(address, move || of.render_metrics())
            .with_context(|| format!("--metrics {address}"))?;
        tracing::info!(address = %local, "metrics");
    }
    let (ended, end) = channel();
    end_on_signals(ended.clone())?;
    if options.listen.is_some() || options.unix.is_none() {
        let fallback = format!("127.0.0.1:{DEFAULT_PORT}");
        let listener = listen_tcp(options.listen.as_deref().unwrap_or(&fallback))?;
        spawn_listener(&server, ended.clone(), move |server| server.serve_tcp(&listener))?;
    }
    if let Some(path) = &options.unix {
        let listener = listen_unix(path)?;
        spawn_listener(&server, ended, move |server| server.serve_unix(&listener))?;
    }
    if options.pair {
        let (done, heard) = channel();
        server.open_pairing(pairing_prompt::pairing_window(None, options.accept.as_ref(), done));
        print_line(&describe_window(options.accept.as_ref()))?;
        thread::Builder::new().name("kinescope-pair".into()).spawn(move || {
            for result in heard {
                // If standard output is closed, nobody wants this message.
                let _ = print_line(&describe_pairing(&result));
            }
        })?;
    }
    let result = end.recv().context("no listener is left")?;
    server.stop();
    let by = Instant::now() + SHUTDOWN_TIMEOUT;
    while Instant::now() < by && server.is_busy() {
        thread::sleep(Duration::from_millis(20));
    }
    if let Some(path) = &options.unix {
        // A socket that is already gone needs no removal.
        let _ = std::fs::remove_file(path);
    }
    result.context("listening failed")
}

/// Ends `serve` on a termination signal. Runs are cancelled and devices are reset first.
fn end_on_signals(ended: Sender<std::io::Result<()>>) -> Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGINT]).context("cannot handle signals")?;
    thread::Builder::new().name("kinescope-signals".into()).spawn(move || {
        if signals.forever().next().is_some() {
            // If nobody receives this, the program is already ending.
            let _ = ended.send(Ok(()));
        }
    })?;
    Ok(())
}

fn spawn_listener(
    server: &Server,
    ended: Sender<std::io::Result<()>>,
    work: impl FnOnce(Server) -> std::io::Result<()> + Send + 'static,
) -> Result<()> {
    let server = server.clone();
    thread::Builder::new().name("kinescope-listen".into()).spawn(move || {
        // If nobody receives this, the program is already ending.
        let _ = ended.send(work(server));
    })?;
    Ok(())
}

/// Describes which clients the pairing window accepts.
fn describe_window(accept: Option<&NamedKey>) -> String {
    match accept {
        Some(key) => format!("pairing is open for the client with the key {key}"),
        None => "pairing is open for one client".to_owned(),
    }
}

fn describe_pairing(result: &Result<String, String>) -> String {
    match result {
        Ok(name) => format!("paired with {name}"),
        Err(why) => format!("not paired: {why}"),
    }
}

/// Lets one unknown client pair.
///
/// # Errors
/// When the address cannot be listened on, or pairing fails three times.
pub fn pair(options: &Pair, keys: &Arc<KeyStore>) -> Result<()> {
    let server = Server::new(&[], Some(Arc::clone(keys)), Options::default())?;
    let (done, heard) = channel();
    let (ended, _end) = channel();
    let accept = options.accept.as_ref();
    if let Some(path) = &options.unix {
        server.open_pairing(pairing_prompt::pairing_window(None, accept, done));
        let listener = listen_unix(path)?;
        spawn_listener(&server, ended, move |server| server.serve_unix(&listener))?;
    } else {
        server.open_pairing(pairing_prompt::pairing_window(Some(options.serve_port), accept, done));
        let listener = listen_tcp(&options.listen)?;
        spawn_listener(&server, ended, move |server| server.serve_tcp(&listener))?;
    }
    let mut last = String::new();
    for result in heard {
        print_line(&describe_pairing(&result))?;
        match result {
            Ok(_) => {
                if let Some(path) = &options.unix {
                    std::fs::remove_file(path).with_context(|| path.display().to_string())?;
                }
                return Ok(());
            }
            Err(why) => last = why,
        }
    }
    bail!("{last}")
}

fn listen_tcp(address: &str) -> Result<TcpListener> {
    let listener = TcpListener::bind(address).map_err(|e| {
        let hint = if e.kind() == std::io::ErrorKind::AddrInUse {
            "; is another agent running there? --listen selects another address, or port 0 a free port"
        } else {
            ""
        };
        anyhow::anyhow!("cannot listen on {address}: {e}{hint}")
    })?;
    let at = listener.local_addr()?;
    print_line(&format!("listening on {at}"))?;
    if at.ip().is_loopback() {
        let port = at.port();
        tracing::info!(
            "only this machine can reach {at}; --listen ADDRESS:PORT admits other machines (0.0.0.0:{port}: from every \
             network of this machine)"
        );
    } else if at.ip().is_unspecified() {
        tracing::info!(
            "{} accepts connections from every network of this machine and from ports that are forwarded to it; only \
             paired clients are served",
            at.ip()
        );
    } else {
        tracing::info!("every machine that reaches {at} can connect; only paired clients are served");
    }
    Ok(listener)
}

/// Listens on a socket that only this user can open. Replaces a socket that a dead agent left behind.
fn listen_unix(path: &Path) -> Result<UnixListener> {
    let place = || path.display().to_string();
    if let Ok(meta) = std::fs::symlink_metadata(path) {
        if !meta.file_type().is_socket() {
            bail!("{}: the file exists and is not a socket", place());
        }
        if UnixStream::connect(path).is_ok() {
            bail!("{}: another program listens on this socket", place());
        }
        std::fs::remove_file(path).with_context(place)?;
    }
    let listener = UnixListener::bind(path).with_context(|| format!("cannot listen on {}", place()))?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).with_context(place)?;
    print_line(&format!("listening on {}", place()))?;
    Ok(listener)
}
