//! The worker process that replays API traces. Damage by the recorded kernels or by the driver stays in this process.
//! It reads a request as one line of JSON, and answers with lines: progress, and finally the result.

use super::compare::OutputComparison;
use super::context::Context;
use super::driver_devices::devices;
use super::error::CudaReplayError;
use super::memory_trace::trace_memory;
use super::plan_recording::PlanRecording;
use super::player::{Options, Player};
use super::script::Script;
use super::stage::StageOptions;
use super::tuner::{self, TunerError};
use super::worker_protocol::{AHEAD_VARIABLE, Answer, DeviceEntry, MAX_TEXT, OutputReport, ReplayReport, Request};
use replay_engine::memory_trace::{MemoryTraceReport, MemoryTraceRequest};
use replay_engine::plan::PLAN_FILE_MAGIC;
use replay_engine::run::{PrepareTimes, StopLocation};
use std::collections::BTreeMap;
use std::io::{Read as _, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use trace_core::progress::Progress;
use trace_core::recording::Recording;
use trace_import::{OpenOptions, Opened};

/// Interval at which the progress of a tuning, and its cancellation, are checked.
const PART_TICK: Duration = Duration::from_millis(50);
/// Answers one request: the whole life of a worker process.
///
/// # Errors
/// If the request cannot be read or the answer cannot be written.
pub fn serve_request(from: impl std::io::Read, mut to: impl Write + Send) -> std::io::Result<()> {
    replay_engine::worker::end_with_parent();
    let ahead = prepare_context();
    let asked = ahead.as_ref().map(|a| end_unasked(a.wait));
    let mut text = String::new();
    from.take(MAX_TEXT).read_to_string(&mut text)?;
    drop(asked);
    let mut ended = false;
    let mut last = |answer: &Answer| {
        // A regular exit would wait for a launch that never ends. The driver releases everything with the process.
        ended = match answer {
            Answer::Tuned(t) => matches!(t.ended, replay_engine::tune::TuneEnd::Broken { .. }),
            Answer::Watched(report, _) => report.stopped.is_some(),
            _ => false,
        };
        line(&mut to, answer)
    };
    match serde_json::from_str::<Request>(&text) {
        // Started in advance for a request that never came.
        Err(_) if text.is_empty() => {}
        Ok(request) if request.file.as_os_str().is_empty() => last(&match devices() {
            Ok(all) => Answer::Devices(
                all.into_iter()
                    .map(|(number, name)| DeviceEntry { number, name })
                    .collect(),
            ),
            Err(e) => Answer::Failed(e.to_string()),
        })?,
        Ok(request) => played(&request, &mut last)?,
        Err(e) => last(&Answer::Failed(format!("the request cannot be read: {e}")))?,
    }
    if ended {
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
    if let Some(ahead) = ahead {
        // The code that needed the context has reported its error.
        let _ = ahead.began.join();
    }
    Ok(())
}

/// Ends this process if the returned sender is not dropped within `limit`.
fn end_unasked(limit: Duration) -> Sender<()> {
    let (asked, wait) = channel();
    let watch = move || {
        if let Err(RecvTimeoutError::Timeout) = wait.recv_timeout(limit) {
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        }
    };
    // Without a thread the process waits as long as its parent lives.
    let _ = std::thread::Builder::new()
        .name("kinescope-unasked".into())
        .spawn(watch);
    asked
}

/// A context that is created before the request arrives.
struct EarlyContext {
    began: JoinHandle<Option<Context>>,
    wait: Duration,
}

/// Initializes the driver and the context of a device while waiting for the request, if that is configured.
fn prepare_context() -> Option<EarlyContext> {
    let asked = std::env::var(AHEAD_VARIABLE).ok()?;
    let (device, wait) = asked.split_once(',')?;
    let (device, wait) = (device.parse().ok()?, wait.parse().ok()?);
    let begin = move || Context::open(cuda_driver::Driver::load().ok()?, device).ok();
    let thread = std::thread::Builder::new().name("kinescope-ahead".into());
    let began = thread.spawn(begin).ok()?;
    let wait = Duration::from_secs(wait);
    Some(EarlyContext { began, wait })
}

fn line(to: &mut impl Write, answer: &Answer) -> std::io::Result<()> {
    let mut text = serde_json::to_vec(answer)?;
    text.push(b'\n');
    to.write_all(&text)?;
    to.flush()
}

/// The receiver of answers.
type AnswerSink<'a> = &'a mut (dyn FnMut(&Answer) -> std::io::Result<()> + Send);

fn played(request: &Request, to: AnswerSink<'_>) -> std::io::Result<()> {
    let why = match play(request, to) {
        Ok(()) => return Ok(()),
        Err(Failure::Reply(e)) => return Err(e),
        Err(Failure::Replay(CudaReplayError::Stopped { event, call, result })) => Answer::Stopped {
            event,
            why: stopped_words(call, result),
        },
        Err(Failure::Replay(e @ CudaReplayError::Taken { .. })) => Answer::AddressesTaken(e.to_string()),
        Err(e) => Answer::Failed(e.to_string()),
    };
    to(&why)
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Replay(#[from] CudaReplayError),
    #[error(transparent)]
    Tuner(#[from] TunerError),
    #[error("{}: {why}", path.display())]
    File { path: PathBuf, why: String },
    #[error("the answer cannot be written: {0}")]
    Reply(std::io::Error),
}

/// Replays, and sends the result before the device is released: the release takes a while and no one waits for it.
fn play(request: &Request, to: AnswerSink<'_>) -> Result<(), Failure> {
    let file = |path: &PathBuf, e: &dyn std::fmt::Display| Failure::File {
        path: path.clone(),
        why: e.to_string(),
    };
    let progress = Progress::new();
    let begun = Instant::now();
    let (recording, mut script) = open_recording(&request.file, &progress)?;
    let read = begun.elapsed();
    if request.own && script.has_own_outputs() {
        script.forget_memory_behind();
    }
    let mut inputs = BTreeMap::new();
    for (name, path) in &request.inputs {
        inputs.insert(name.clone(), std::fs::read(path).map_err(|e| file(path, &e))?);
    }
    if let Some(tune) = &request.tune {
        let options = StageOptions {
            device: request.device,
            inputs,
            ..StageOptions::default()
        };
        let to_both = Mutex::new(to);
        let mut describe = |so_far| {
            // If this message is lost, the receiver gets the final result or is gone.
            let _ = send_answer(&to_both, &Answer::Sofar(so_far));
        };
        let work = || tuner::tune(&recording, &script, &options, tune, &progress, &mut describe);
        let tuned = run_watched(work, &progress, request.stop.as_deref(), &to_both)?;
        let to = to_both.into_inner().unwrap_or_else(PoisonError::into_inner);
        return to(&Answer::Tuned(Box::new(tuned))).map_err(Failure::Reply);
    }
    if let Some(trace_request) = &request.watch {
        let options = StageOptions {
            device: request.device,
            inputs,
            ..StageOptions::default()
        };
        return watch(request, (&recording, &script), &options, trace_request, &progress, to);
    }
    let options = Options {
        device: request.device,
        inputs,
        rules: request.rules.clone(),
        rule: request.rule,
        step: request.step,
        repeat: request.repeat,
        graph: request.graph,
        no_restore: request.no_restore,
        times: request.times,
        guard: request.guard.clone(),
    };
    let mut player = Player::new(&recording, &script, options)?;
    let done = player.play(&progress, &mut |event| {
        // With a wait after each launch, the parent needs to know which launch never ends.
        match request.step {
            true => to(&Answer::At(event)).map_err(|_| CudaReplayError::Cancelled),
            false => Ok(()),
        }
    })?;
    if let Some(folder) = &request.outputs {
        for (n, bytes) in done.contents.iter().enumerate() {
            let path = folder.join(format!("{n}.bin"));
            std::fs::write(&path, bytes).map_err(|e| file(&path, &e))?;
        }
    }
    let nanos = |d: &Duration| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX);
    let output = |(c, bytes): (&OutputComparison, &Vec<u8>)| OutputReport {
        event: c.event,
        name: c.name.clone(),
        bytes: c.bytes,
        blake3: blake3::hash(bytes).to_hex().to_string(),
        held: c.held,
        differs_at: c.difference.as_ref().map(|d| d.at),
        differing: c.difference.as_ref().map_or(0, |d| d.count),
        largest: c.difference.as_ref().and_then(|d| d.largest),
    };
    let report = ReplayReport {
        device: done.device,
        launches: done.launches,
        outputs: done.outputs.iter().zip(&done.contents).map(output).collect(),
        ready_ns: nanos(&done.ready.total()),
        parts: PrepareTimes {
            read_ns: nanos(&read),
            driver_ns: nanos(&done.ready.driver),
            memory_ns: nanos(&done.ready.memory),
            code_ns: nanos(&done.ready.code),
            first_ns: nanos(&done.first),
            prepared_ns: nanos(&done.prepared),
        },
        runs_ns: done.runs.iter().map(nanos).collect(),
        restored: done.restored.iter().map(|r| r.pages).collect(),
        graph: done.graph,
        mapped: done.mapped,
        left_out: done.left_out,
        launch_ns: done.launch_ns,
        guard: done.guard,
    };
    to(&Answer::Played(report)).map_err(Failure::Reply)
}

/// Runs a memory trace, and writes it into the folder for outputs.
fn watch(
    request: &Request,
    (recording, script): (&Recording, &Script),
    options: &StageOptions,
    trace_request: &MemoryTraceRequest,
    progress: &Progress,
    to: AnswerSink<'_>,
) -> Result<(), Failure> {
    let to_both = Mutex::new(to);
    let mut describe = |event| {
        // A receiver that does not get this message is gone.
        let _ = send_answer(&to_both, &Answer::At(event));
    };
    let work = || trace_memory(recording, script, options, trace_request, progress, &mut describe);
    let seen = run_watched(work, progress, None, &to_both)?;
    if let Some(folder) = &request.outputs {
        let path = folder.join("0.bin");
        let failed = |why: String| Failure::File {
            path: path.clone(),
            why,
        };
        let bytes = seen.watched.to_bytes().map_err(|e| failed(e.to_string()))?;
        std::fs::write(&path, bytes).map_err(|e| failed(e.to_string()))?;
    }
    let nanos = |d: Duration| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX);
    let answer = MemoryTraceReport {
        launches: seen.launches,
        full: seen.full,
        late: seen.late,
        looked_until: seen.looked_until,
        left_out: script.left_out.clone(),
        stopped: seen.stopped.and_then(|e| match e {
            CudaReplayError::Stopped { event, call, result } => Some(StopLocation {
                event: Some(event),
                // Each launch was waited for.
                sure: true,
                function: None,
                why: stopped_words(call, result),
            }),
            _ => None,
        }),
        ready_ns: nanos(seen.ready),
        watch_ns: nanos(seen.took),
    };
    let to = to_both.into_inner().unwrap_or_else(PoisonError::into_inner);
    to(&Answer::Watched(answer, seen.device)).map_err(Failure::Reply)
}

fn stopped_words(call: &str, result: u32) -> String {
    format!("{call}: {}", cuda_driver::format_result(result))
}

/// Writes a line when two threads write.
fn send_answer(to: &Mutex<AnswerSink<'_>>, answer: &Answer) -> std::io::Result<()> {
    let mut to = to.lock().unwrap_or_else(PoisonError::into_inner);
    to(answer)
}

/// Runs some work. Reports its progress meanwhile, and cancels it once the stop file exists.
fn run_watched<T>(work: impl FnOnce() -> T, progress: &Progress, stop: Option<&Path>, to: &Mutex<AnswerSink<'_>>) -> T {
    let (over, wait) = channel::<()>();
    std::thread::scope(|scope| {
        let watch = move || {
            let mut reported = 0;
            while let Err(RecvTimeoutError::Timeout) = wait.recv_timeout(PART_TICK) {
                if stop.is_some_and(Path::exists) {
                    progress.cancel();
                }
                let now = (progress.fraction().unwrap_or(0.0) * 1e6) as u32;
                // If this progress message is lost, the receiver gets the final result or is gone.
                if now > reported && send_answer(to, &Answer::Part(now)).is_ok() {
                    reported = now;
                }
            }
        };
        // Without a thread there are no progress messages, and the work cannot be stopped early.
        let watching = std::thread::Builder::new()
            .name("kinescope-part".into())
            .spawn_scoped(scope, watch);
        let done = work();
        drop(over);
        if let Ok(watching) = watching {
            // The thread does not panic. It sends its messages before the answer is sent.
            let _ = watching.join();
        }
        done
    })
}

/// Opens a file for a replay: a recording, or a plan with its page images.
fn open_recording(path: &Path, progress: &Progress) -> Result<(Recording, Script), Failure> {
    let file = |e: &dyn std::fmt::Display| Failure::File {
        path: path.to_owned(),
        why: e.to_string(),
    };
    let mut start = [0u8; PLAN_FILE_MAGIC.len()];
    let is_plan = std::fs::File::open(path)
        .and_then(|mut f| f.read_exact(&mut start))
        .is_ok_and(|()| start == PLAN_FILE_MAGIC);
    if !is_plan {
        let opened = trace_import::open(path, &OpenOptions::default(), progress);
        let recording = opened.and_then(Opened::into_recording).map_err(|e| file(&e))?;
        let script = Script::new(&recording)?;
        return Ok((recording, script));
    }
    let bytes = std::fs::read(path).map_err(|e| file(&e))?;
    let plan_recording = PlanRecording::from_plan_bytes(bytes).map_err(|e| file(&e))?;
    let script = plan_recording.script().map_err(|e| file(&e))?;
    Ok((plan_recording.recording, script))
}
