//! Processes that play calls, from the side that asks: started, also ahead of their request; watched, and ended.

use super::worker::{AHEAD_VARIABLE, Answer, DeviceEntry, MAX_TEXT, ReplayReport, Request};
use crate::memory_trace::MemoryTraceReport;
use crate::tune::{ProgressLog, TuneReport};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use trace_core::progress::Progress;

/// Time between two looks whether somebody still waits.
const TICK: Duration = Duration::from_millis(5);
/// How long a process that was started ahead waits for its request.
const AHEAD_LIMIT: Duration = Duration::from_secs(120);
/// A process that ends by itself sooner than this is not given a request any more.
const AHEAD_MARGIN: Duration = Duration::from_secs(10);
/// How long a process that was asked to stop may take to tell what it has.
const STOP_LIMIT: Duration = Duration::from_secs(5);
/// How long a process that has answered may take to give the device back.
const END_LIMIT: Duration = Duration::from_secs(20);

/// This program, to be started again as a process that plays. One that was replaced by a newer one meanwhile is started
/// as it runs, by what the kernel keeps of it.
#[must_use]
pub fn current_program() -> PathBuf {
    let kept = || PathBuf::from("/proc/self/exe");
    std::env::current_exe()
        .ok()
        .filter(|path| path.exists())
        .unwrap_or_else(kept)
}

/// Starts processes that play: a program that calls [`super::worker::answer`] on its standard input and output.
pub struct Players {
    command: Box<dyn Fn() -> Command + Send + Sync>,
    /// One that waits for its request already, and the device that it has begun.
    ahead: Mutex<Option<WaitingWorker>>,
    /// Those that have answered and give the device back.
    ending: Mutex<Vec<JoinHandle<()>>>,
}

/// A process that waits for its request.
struct WaitingWorker {
    device: u32,
    since: Instant,
    kept: ChildGuard,
}

impl WaitingWorker {
    /// Whether it is there for this device, and will be for long enough to read a request.
    fn serves(&mut self, device: u32) -> bool {
        self.device == device
            && self.since.elapsed() + AHEAD_MARGIN < AHEAD_LIMIT
            && matches!(self.kept.ended(), Ok(None))
    }
}

impl std::fmt::Debug for Players {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Players({:?})", (self.command)())
    }
}

impl Players {
    /// `command` starts the program.
    #[must_use]
    pub fn new(command: impl Fn() -> Command + Send + Sync + 'static) -> Self {
        Self {
            command: Box::new(command),
            ahead: Mutex::new(None),
            ending: Mutex::default(),
        }
    }

    /// Starts the next process now: it begins the driver and a device's context while its request is still being made,
    /// and ends by itself when none comes within two minutes. What goes wrong is told where the process is needed.
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
        // An interrupt from a terminal is for who asked, who then says what becomes of this one.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        Ok(ChildGuard(Some(command.spawn()?)))
    }

    /// A process for a request: the one that was started ahead, where it is for this device and still there.
    fn next(&self, request: &Request) -> std::io::Result<ChildGuard> {
        let ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner).take();
        match ahead.and_then(|mut a| a.serves(request.device).then_some(a.kept)) {
            Some(kept) => Ok(kept),
            None => self.start(None),
        }
    }

    /// Waits until what played before has given the device back: its memory may be needed.
    fn settle(&self) {
        let all = std::mem::take(&mut *self.ending.lock().unwrap_or_else(PoisonError::into_inner));
        for one in all {
            // It panics nowhere.
            let _ = one.join();
        }
    }

    /// A process that has answered: nobody waits for its end but the next one.
    fn ends(&self, mut kept: ChildGuard) {
        let watch = move || {
            let begun = Instant::now();
            // What cannot be asked is ended.
            while matches!(kept.ended(), Ok(None)) && begun.elapsed() < END_LIMIT {
                std::thread::sleep(TICK);
            }
        };
        // Where there is no thread to be had, the process is ended here.
        if let Ok(watch) = std::thread::Builder::new().name("kinescope-ending".into()).spawn(watch) {
            self.ending.lock().unwrap_or_else(PoisonError::into_inner).push(watch);
        }
    }
}

/// What a replay in a process of its own came to.
#[derive(Clone, Debug, PartialEq)]
pub enum WorkerOutcome {
    /// The devices that there are.
    Devices(Vec<DeviceEntry>),
    /// What a tuning came to.
    Tuned(Box<TuneReport>),
    /// What watching memory came to, and the device's name; what was seen is in the folder for outputs.
    Watched(MemoryTraceReport, String),
    /// It was played to its end.
    Played(ReplayReport),
    /// The device or the driver stopped it.
    Stopped {
        /// The event that caused it, found by waiting behind each launch; where that did not fail again, the event at
        /// which the driver told.
        event: Option<u64>,
        /// Whether that event is known to be the cause. Otherwise it was this one or an earlier one.
        sure: bool,
        /// What happened, in words.
        why: String,
    },
    /// It could not be begun.
    Failed(String),
    /// Nobody wants it any more.
    Cancelled,
}

/// Plays in a process of its own. A process that takes longer than `limit` is ended. What stopped is played once more,
/// waiting behind each launch, to find which one it was. A tuning that nobody wants any more tells what it has, where
/// the request says how it is asked to stop.
///
/// # Errors
/// When the process cannot be started.
pub fn run_worker(
    players: &Players,
    request: &Request,
    limit: Duration,
    progress: &Progress,
) -> std::io::Result<WorkerOutcome> {
    let first = once(players, request, limit, progress)?;
    let why = match first.ended {
        WorkerEnd::Answered(Answer::Played(report)) => return Ok(WorkerOutcome::Played(report)),
        WorkerEnd::Answered(Answer::Failed(why)) => return Ok(WorkerOutcome::Failed(why)),
        WorkerEnd::Answered(Answer::Devices(all)) => return Ok(WorkerOutcome::Devices(all)),
        WorkerEnd::Answered(Answer::Tuned(tuned)) => return Ok(WorkerOutcome::Tuned(tuned)),
        WorkerEnd::Answered(Answer::Watched(memory_trace_report, device)) => {
            return Ok(WorkerOutcome::Watched(memory_trace_report, device));
        }
        WorkerEnd::Answered(Answer::Stopped { ref why, .. }) => why.clone(),
        WorkerEnd::Answered(Answer::At(_) | Answer::Part(_) | Answer::Sofar(_)) => {
            "the process that played it ended in the middle of it".to_owned()
        }
        WorkerEnd::Cancelled => return Ok(WorkerOutcome::Cancelled),
        WorkerEnd::TooLong => format!("it ran for longer than {} s and was ended", limit.as_secs()),
        WorkerEnd::Died(ref how) => format!("the process that played it ended: {how}"),
    };
    let told_at = first.event();
    if request.tune.is_some() {
        // The process could not tell it any more: what it had told before stands.
        return Ok(match first.heard.into_broken_report(&why) {
            Some(tuned) => WorkerOutcome::Tuned(Box::new(tuned)),
            None => WorkerOutcome::Stopped {
                event: told_at,
                sure: false,
                why,
            },
        });
    }
    // Who watches waits behind each launch, too.
    if request.step || request.watch.is_some() {
        let sure = first.is_sure(limit);
        return Ok(WorkerOutcome::Stopped {
            event: told_at,
            sure,
            why,
        });
    }
    // Once more, as often as before, with a wait behind each launch: the one that stops then is the one that caused it.
    // A graph has no waits within.
    let again = Request {
        step: true,
        graph: false,
        ..request.clone()
    };
    let second = once(players, &again, limit, progress)?;
    Ok(match second.ended {
        WorkerEnd::Cancelled => WorkerOutcome::Cancelled,
        // It did not fail again.
        WorkerEnd::Answered(
            Answer::Played(_) | Answer::Failed(_) | Answer::Devices(_) | Answer::Tuned(_) | Answer::Watched(..),
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

/// What one process did.
struct WorkerRun {
    ended: WorkerEnd,
    /// The launch that it was about to make when it told last.
    at: Option<u64>,
    /// How long it was silent at its end.
    silent: Duration,
    /// What it told of a tuning.
    heard: ProgressLog,
}

impl WorkerRun {
    /// The event that it stopped at, as far as it is known.
    fn event(&self) -> Option<u64> {
        match self.ended {
            WorkerEnd::Answered(Answer::Stopped { event, .. }) => Some(event),
            _ => self.at,
        }
    }

    /// Whether a process that waited behind each launch stopped at the one that caused it. One that was ended because
    /// all of it took too long did so only where it stood there for most of its time.
    fn is_sure(&self, limit: Duration) -> bool {
        match self.ended {
            WorkerEnd::TooLong => self.at.is_some() && self.silent >= limit / 2,
            _ => self.event().is_some(),
        }
    }
}

/// A process that is ended when nobody waits for it any more.
struct ChildGuard(Option<Child>);

impl ChildGuard {
    /// How it ended, when it has.
    fn ended(&mut self) -> std::io::Result<Option<ExitStatus>> {
        self.0.as_mut().map_or(Ok(None), Child::try_wait)
    }
}

impl Drop for ChildGuard {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            // It may have ended by itself; then both do nothing.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn once(players: &Players, request: &Request, limit: Duration, progress: &Progress) -> std::io::Result<WorkerRun> {
    let begun = Instant::now();
    let text = serde_json::to_vec(request)?;
    let mut kept = players.next(request)?;
    players.settle();
    // Taken, so that the end of the request is the end of its input. A process that does not read it tells by its end.
    if let Some(mut to) = kept.0.as_mut().and_then(|c| c.stdin.take()) {
        let _ = to.write_all(&text);
    }
    let (sender, receiver) = channel();
    if let Some(from) = kept.0.as_mut().and_then(|c| c.stdout.take()) {
        let read = move || {
            let lines = BufReader::new(from.take(MAX_TEXT)).lines();
            // What cannot be read is no answer.
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
                // Whether it is cancelled is looked at below.
                let _ = progress.advance(u64::from(millionths.saturating_sub(parts)));
                parts = parts.max(millionths);
            }
            Ok(answer) => {
                players.ends(kept);
                break WorkerEnd::Answered(answer);
            }
            // Its output has ended, and so does it.
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
