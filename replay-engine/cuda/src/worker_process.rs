//! Worker processes for API-trace replays, seen from the parent: starting (also in advance of a request), monitoring
//! and ending them.

use super::worker_protocol::{AHEAD_VARIABLE, Answer, DeviceEntry, MAX_TEXT, ReplayReport, Request};
use crate::tune::ProgressLog;
use replay_engine::memory_trace::MemoryTraceReport;
use replay_engine::tune::TuneReport;
use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use trace_core::progress::Progress;

/// Interval at which cancellation is checked.
const TICK: Duration = Duration::from_millis(5);
/// Maximum time that a worker that was started in advance waits for its request.
const AHEAD_LIMIT: Duration = Duration::from_secs(120);
/// Remaining lifetime below which a waiting worker gets no request.
const AHEAD_MARGIN: Duration = Duration::from_secs(10);
/// Maximum time for a worker that was asked to stop to report its results.
const STOP_LIMIT: Duration = Duration::from_secs(5);
/// Maximum time for a worker that has answered to release the device.
const END_LIMIT: Duration = Duration::from_secs(20);

/// Maximum number of processes that are started for a request whose addresses are in use in the worker.
const MAX_PLACEMENTS: u32 = 4;

/// Returns the path of this program, to start it as a worker. If the file was replaced meanwhile, the path refers to
/// the running version in `/proc`.
#[must_use]
pub fn current_program() -> PathBuf {
    let kept = || PathBuf::from("/proc/self/exe");
    std::env::current_exe()
        .ok()
        .filter(|path| path.exists())
        .unwrap_or_else(kept)
}

/// The words that start this program, if they are not those of [`current_program`].
static PROGRAM_WORDS: OnceLock<Vec<OsString>> = OnceLock::new();

/// Sets the words that start this program as a worker, for a library in another program: that program and its first
/// arguments. Returns `false` if they were set before; then the earlier words stay.
pub fn set_program_words(words: Vec<OsString>) -> bool {
    PROGRAM_WORDS.set(words).is_ok()
}

/// Returns the command that starts this program, to add arguments to: [`current_program`], or the words of
/// [`set_program_words`].
#[must_use]
pub fn program_command() -> Command {
    match PROGRAM_WORDS.get().and_then(|words| words.split_first()) {
        Some((program, first)) => {
            let mut command = Command::new(program);
            command.args(first);
            command
        }
        None => Command::new(current_program()),
    }
}

/// Starts worker processes: a program that calls [`super::worker::serve_request`] on its standard input and output.
pub struct WorkerProcesses {
    command: Box<dyn Fn() -> Command + Send + Sync>,
    /// A worker that already waits for its request, and its device.
    ahead: Mutex<Option<WaitingWorker>>,
    /// Workers that have answered and release the device.
    ending: Mutex<Vec<JoinHandle<()>>>,
}

/// A worker that waits for its request.
struct WaitingWorker {
    device: u32,
    since: Instant,
    kept: ChildGuard,
}

impl WaitingWorker {
    /// Returns whether the worker is for this device and lives long enough to read a request.
    fn serves(&mut self, device: u32) -> bool {
        self.device == device
            && self.since.elapsed() + AHEAD_MARGIN < AHEAD_LIMIT
            && matches!(self.kept.ended(), Ok(None))
    }
}

impl std::fmt::Debug for WorkerProcesses {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "WorkerProcesses({:?})", (self.command)())
    }
}

impl WorkerProcesses {
    /// Creates the set of workers. `command` starts the program.
    #[must_use]
    pub fn new(command: impl Fn() -> Command + Send + Sync + 'static) -> Self {
        Self {
            command: Box::new(command),
            ahead: Mutex::new(None),
            ending: Mutex::default(),
        }
    }

    /// Starts the next worker now. It initializes the driver and a device's context while the request is still
    /// prepared. It ends by itself if no request comes within two minutes. Errors are reported when the worker is
    /// needed.
    pub fn prestart(&self, device: u32) {
        let mut ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
        if !ahead.as_mut().is_some_and(|a| a.serves(device)) {
            let since = Instant::now();
            *ahead = self
                .start(Some(device))
                .ok()
                .map(|kept| WaitingWorker { device, since, kept });
        }
    }

    fn start(&self, ahead: Option<u32>) -> std::io::Result<ChildGuard> {
        let mut command = (self.command)();
        if let Some(device) = ahead {
            command.env(AHEAD_VARIABLE, format!("{device},{}", AHEAD_LIMIT.as_secs()));
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        // A terminal interrupt is for the parent, which then decides about this worker.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        Ok(ChildGuard(Some(command.spawn()?)))
    }

    /// Returns a worker for a request: the waiting one, if it is for this device and still alive.
    fn next(&self, request: &Request) -> std::io::Result<ChildGuard> {
        let ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner).take();
        match ahead.and_then(|mut a| a.serves(request.device).then_some(a.kept)) {
            Some(kept) => Ok(kept),
            None => self.start(None),
        }
    }

    /// Waits until earlier workers have released the device: their memory may be needed.
    fn settle(&self) {
        let all = std::mem::take(&mut *self.ending.lock().unwrap_or_else(PoisonError::into_inner));
        for one in all {
            // The thread does not panic.
            let _ = one.join();
        }
    }

    /// Takes a worker that has answered. Only the next worker waits for its end.
    fn ends(&self, mut kept: ChildGuard) {
        let watch = move || {
            let begun = Instant::now();
            // If the state cannot be read, the worker has ended.
            while matches!(kept.ended(), Ok(None)) && begun.elapsed() < END_LIMIT {
                std::thread::sleep(TICK);
            }
        };
        // If no thread can be started, the worker is ended here.
        if let Ok(watch) = std::thread::Builder::new().name("kinescope-ending".into()).spawn(watch) {
            self.ending.lock().unwrap_or_else(PoisonError::into_inner).push(watch);
        }
    }
}

/// The outcome of a replay in a worker process.
#[derive(Clone, Debug, PartialEq)]
pub enum WorkerOutcome {
    /// The available devices.
    Devices(Vec<DeviceEntry>),
    /// The result of a tuning.
    Tuned(Box<TuneReport>),
    /// The result of a memory trace, and the device's name. The trace itself is in the folder for outputs.
    Watched(MemoryTraceReport, String),
    /// The replay ran to its end.
    Played(ReplayReport),
    /// The device or the driver stopped it.
    Stopped {
        /// The event that caused it, found by waiting after each launch. If that run did not fail, the event at which
        /// the driver reported the error.
        event: Option<u64>,
        /// Whether that event is known to be the cause. Otherwise it was this event or an earlier one.
        sure: bool,
        /// What happened, as a message.
        why: String,
    },
    /// It could not be started.
    Failed(String),
    /// It was cancelled.
    Cancelled,
}

/// Replays in a worker process. A worker that takes longer than `limit` is ended. A replay that stopped is repeated
/// with a wait after each launch, to find the launch that caused it. A cancelled tuning returns its results so far, if
/// the request names a stop file.
///
/// # Errors
/// If the process cannot be started.
pub fn run_worker(
    workers: &WorkerProcesses,
    request: &Request,
    limit: Duration,
    progress: &Progress,
) -> std::io::Result<WorkerOutcome> {
    let first = run_where_addresses_are_free(workers, request, limit, progress)?;
    let why = match first.ended {
        WorkerEnd::Answered(Answer::Played(report)) => return Ok(WorkerOutcome::Played(report)),
        WorkerEnd::Answered(Answer::Failed(why) | Answer::AddressesTaken(why)) => {
            return Ok(WorkerOutcome::Failed(why));
        }
        WorkerEnd::Answered(Answer::Devices(all)) => return Ok(WorkerOutcome::Devices(all)),
        WorkerEnd::Answered(Answer::Tuned(tuned)) => return Ok(WorkerOutcome::Tuned(tuned)),
        WorkerEnd::Answered(Answer::Watched(memory_trace_report, device)) => {
            return Ok(WorkerOutcome::Watched(memory_trace_report, device));
        }
        WorkerEnd::Answered(Answer::Stopped { ref why, .. }) => why.clone(),
        WorkerEnd::Answered(Answer::At(_) | Answer::Part(_) | Answer::Sofar(_)) => {
            "the worker process ended before the replay was complete".to_owned()
        }
        WorkerEnd::Cancelled => return Ok(WorkerOutcome::Cancelled),
        WorkerEnd::TooLong => format!("it ran longer than {} s and was stopped", limit.as_secs()),
        WorkerEnd::Died(ref how) => format!("the worker process ended: {how}"),
    };
    let told_at = first.event();
    if request.tune.is_some() {
        // The worker could not report it any more, so its earlier messages count.
        return Ok(match first.heard.into_broken_report(&why) {
            Some(tuned) => WorkerOutcome::Tuned(Box::new(tuned)),
            None => WorkerOutcome::Stopped {
                event: told_at,
                sure: false,
                why,
            },
        });
    }
    // A memory trace also waits after each launch.
    if request.step || request.watch.is_some() {
        let sure = first.is_sure(limit);
        return Ok(WorkerOutcome::Stopped {
            event: told_at,
            sure,
            why,
        });
    }
    // The same run again, with a wait after each launch: the launch that stops now is the cause. A graph has no waits
    // inside.
    let again = Request {
        step: true,
        graph: false,
        ..request.clone()
    };
    let second = run_where_addresses_are_free(workers, &again, limit, progress)?;
    Ok(match second.ended {
        WorkerEnd::Cancelled => WorkerOutcome::Cancelled,
        // It did not fail again.
        WorkerEnd::Answered(
            Answer::Played(_)
            | Answer::Failed(_)
            | Answer::AddressesTaken(_)
            | Answer::Devices(_)
            | Answer::Tuned(_)
            | Answer::Watched(..),
        ) => WorkerOutcome::Stopped {
            event: told_at,
            sure: false,
            why,
        },
        _ => WorkerOutcome::Stopped {
            event: second.event().or(told_at),
            sure: second.is_sure(limit),
            why,
        },
    })
}

#[allow(
    clippy::large_enum_variant,
    reason = "there is one at a time, and it is taken apart at once"
)]
enum WorkerEnd {
    Answered(Answer),
    TooLong,
    Cancelled,
    Died(String),
}

/// The result of one worker.
struct WorkerRun {
    ended: WorkerEnd,
    /// The launch that it was about to make at its last message.
    at: Option<u64>,
    /// Time without messages at its end.
    silent: Duration,
    /// Its messages about a tuning.
    heard: ProgressLog,
}

impl WorkerRun {
    /// Returns the event that it stopped at, if known.
    fn event(&self) -> Option<u64> {
        match self.ended {
            WorkerEnd::Answered(Answer::Stopped { event, .. }) => Some(event),
            _ => self.at,
        }
    }

    /// Returns whether a worker that waited after each launch stopped at the launch that caused it. For a worker that
    /// exceeded `limit`, this holds only if it spent most of its time at that launch.
    fn is_sure(&self, limit: Duration) -> bool {
        match self.ended {
            WorkerEnd::TooLong => self.at.is_some() && self.silent >= limit / 2,
            _ => self.event().is_some(),
        }
    }
}

/// A child process that is ended on drop.
struct ChildGuard(Option<Child>);

impl ChildGuard {
    /// Returns the exit status, if the process has ended.
    fn ended(&mut self) -> std::io::Result<Option<ExitStatus>> {
        self.0.as_mut().map_or(Ok(None), Child::try_wait)
    }
}

impl Drop for ChildGuard {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            // The process may have ended by itself; then both calls do nothing.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Runs a request, and again in a new process while recorded addresses are in use in the worker.
fn run_where_addresses_are_free(
    workers: &WorkerProcesses,
    request: &Request,
    limit: Duration,
    progress: &Progress,
) -> std::io::Result<WorkerRun> {
    let mut run = once(workers, request, limit, progress)?;
    for _ in 1..MAX_PLACEMENTS {
        if !matches!(run.ended, WorkerEnd::Answered(Answer::AddressesTaken(_))) {
            break;
        }
        run = once(workers, request, limit, progress)?;
    }
    Ok(run)
}

fn once(
    workers: &WorkerProcesses,
    request: &Request,
    limit: Duration,
    progress: &Progress,
) -> std::io::Result<WorkerRun> {
    let begun = Instant::now();
    let text = serde_json::to_vec(request)?;
    let mut kept = workers.next(request)?;
    workers.settle();
    // Taken, so that the input ends after the request. A process that does not read it is noticed when it ends.
    if let Some(mut to) = kept.0.as_mut().and_then(|c| c.stdin.take()) {
        let _ = to.write_all(&text);
    }
    let (sender, receiver) = channel();
    if let Some(from) = kept.0.as_mut().and_then(|c| c.stdout.take()) {
        let read = move || {
            let lines = BufReader::new(from.take(MAX_TEXT)).lines();
            // Output that cannot be read is not an answer.
            let answers = lines
                .map_while(Result::ok)
                .filter_map(|l| serde_json::from_str::<Answer>(&l).ok());
            for answer in answers {
                if sender.send(answer).is_err() {
                    break;
                }
            }
        };
        std::thread::Builder::new()
            .name("kinescope-answers".into())
            .spawn(read)?;
    }
    let (mut at, mut parts) = (None, 0);
    let mut told_last = begun;
    let mut stop_by: Option<Instant> = None;
    let mut heard = ProgressLog::default();
    let ended = loop {
        match receiver.recv_timeout(TICK) {
            Ok(Answer::At(event)) => (at, told_last) = (Some(event), Instant::now()),
            Ok(Answer::Sofar(so_far)) => heard.record(so_far),
            Ok(Answer::Part(millionths)) => {
                if parts == 0 {
                    progress.set_total(1_000_000);
                }
                // Cancellation is checked below.
                let _ = progress.advance(u64::from(millionths.saturating_sub(parts)));
                parts = parts.max(millionths);
            }
            Ok(answer) => {
                workers.ends(kept);
                break WorkerEnd::Answered(answer);
            }
            // The output has ended, so the process ends too.
            Err(RecvTimeoutError::Disconnected) => match kept.ended()? {
                Some(status) => break WorkerEnd::Died(status.to_string()),
                None => std::thread::sleep(TICK),
            },
            Err(RecvTimeoutError::Timeout) => {}
        }
        if progress.check().is_err() {
            let asked = || request.stop.as_ref().filter(|path| std::fs::File::create(path).is_ok());
            match stop_by {
                Some(by) if Instant::now() < by => {}
                None if asked().is_some() => stop_by = Some(Instant::now() + STOP_LIMIT),
                _ => break WorkerEnd::Cancelled,
            }
        }
        if begun.elapsed() > limit {
            break WorkerEnd::TooLong;
        }
    };
    let silent = told_last.elapsed();
    Ok(WorkerRun {
        ended,
        at,
        silent,
        heard,
    })
}
