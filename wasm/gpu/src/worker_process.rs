//! The process of a worker as its parent has it: both streams, and the thread that watches it during a run.

use crate::protocol::{Answer, ProtocolError, Request};
use crate::result_budget::{ResultBudget, ResultCharge};
use std::io::{BufReader, BufWriter, Read, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use wasm_run::{BackendError, Control, Input};

/// Interval at which cancellation is checked.
pub(crate) const TICK: Duration = Duration::from_millis(20);
/// Maximum time without a message while the program runs, besides the time limit of a copy; also the maximum time for
/// a worker to take one more input.
pub(crate) const SILENCE_LIMIT: Duration = Duration::from_secs(60);
/// Maximum time for a worker that was asked to stop, or has finished, to end by itself.
const END_LIMIT: Duration = Duration::from_secs(5);
/// Messages that wait for their receiver. More results stay in the pipe.
const MAX_WAITING_MESSAGES: usize = 256;
/// Maximum size of the results that the caller does not have yet, bytes. One more result waits for room.
const MAX_WAITING_BYTES: u64 = 64 << 20;
/// Bytes of the buffers of both streams, and of the pipes where the system allows it.
const STREAM_BYTES: usize = 1 << 20;
/// Interval at which the memory of a worker with a limit is read.
const MEMORY_TICK: Duration = Duration::from_millis(100);
/// What [`RunWatch`] counts as sent when all inputs are sent.
const ALL_SENT: u64 = u64::MAX;

/// A message of a worker, with the memory that it occupies in this process.
pub(crate) struct ReceivedAnswer {
    /// The message, or why there is none. Nothing follows an error.
    pub answer: Result<Answer, ProtocolError>,
    /// Its part of the budget for results.
    pub charge: ResultCharge,
}

/// A worker process. It is ended on drop.
pub(crate) struct Worker {
    process: Arc<WorkerProcess>,
    input: Option<ChildStdin>,
    budget: ResultBudget,
    /// The messages of the process.
    pub answers: Receiver<ReceivedAnswer>,
}

/// Passes the messages of a stream on until its end. Reads no more while the results that wait exceed their budget.
fn read_answers(from: impl Read, budget: &ResultBudget, to: &SyncSender<ReceivedAnswer>) {
    let mut from = BufReader::with_capacity(STREAM_BYTES, from);
    loop {
        let answer = match Answer::read(&mut from) {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => return,
            Err(e) => Err(e),
        };
        let is_last = answer.is_err();
        let bytes = answer.as_ref().map_or(0, Answer::content_bytes);
        let Some(charge) = budget.charge(bytes as u64) else {
            return;
        };
        if to.send(ReceivedAnswer { answer, charge }).is_err() || is_last {
            return;
        }
    }
}

impl Worker {
    /// Starts the process.
    ///
    /// # Errors
    /// If the system does not start it.
    pub fn start(mut command: Command) -> Result<Self, BackendError> {
        let failed = |e: std::io::Error| BackendError::Target(format!("the worker process cannot start: {e}"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        // A terminal interrupt is for the parent, which then decides about this worker.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command.spawn().map_err(failed)?;
        let (sender, answers) = sync_channel(MAX_WAITING_MESSAGES);
        let input = child.stdin.take();
        let output = child.stdout.take();
        // Larger pipes are faster; smaller ones work as well.
        let _ = input
            .as_ref()
            .map(|pipe| rustix::pipe::fcntl_setpipe_size(pipe, STREAM_BYTES));
        let _ = output
            .as_ref()
            .map(|pipe| rustix::pipe::fcntl_setpipe_size(pipe, STREAM_BYTES));
        let worker = Self {
            process: Arc::new(WorkerProcess(Mutex::new(child))),
            input,
            budget: ResultBudget::new(MAX_WAITING_BYTES),
            answers,
        };
        if let Some(output) = output {
            let budget = worker.budget.clone();
            let thread = thread::Builder::new().name("kinescope-answers".into());
            thread
                .spawn(move || read_answers(output, &budget, &sender))
                .map_err(failed)?;
        }
        Ok(worker)
    }

    /// Sends the request and its inputs. The stream stays open: its end cancels the run.
    ///
    /// # Errors
    /// If a message is too long.
    pub fn send(&mut self, start: &Request, inputs: &[Input], watch: &RunWatch) -> Result<(), BackendError> {
        let Some(input) = &mut self.input else { return Ok(()) };
        let mut to = BufWriter::with_capacity(STREAM_BYTES, input);
        let mut result = start.write(&mut to);
        for (number, input) in (1..).zip(inputs) {
            result = result.and_then(|()| Request::write_input(input, &mut to));
            watch.sent.store(number, Ordering::Relaxed);
        }
        let result = result.and_then(|()| Ok(to.flush()?));
        watch.sent.store(ALL_SENT, Ordering::Relaxed);
        match result {
            // A worker that ended says why, or its death is found later.
            Ok(()) | Err(ProtocolError::Stream(_)) => Ok(()),
            Err(e) => Err(BackendError::Target(e.to_string())),
        }
    }

    /// Returns the error of a process that ended without a last answer.
    pub fn death(&self) -> BackendError {
        let how = self
            .process
            .wait(END_LIMIT)
            .unwrap_or_else(|| "it closed its output".to_owned());
        BackendError::Target(format!("the worker process ended before its last result: {how}"))
    }

    /// Asks the process to end, and ends it if it does not.
    pub fn stop(&mut self) {
        self.input = None;
        // A process that waits for its reader cannot end.
        self.budget.close();
        if self.process.wait(END_LIMIT).is_none() {
            self.process.kill();
        }
    }

    /// Ends the process.
    pub fn kill(&self) {
        self.process.kill();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.budget.close();
        if self.process.is_running() {
            self.process.kill();
        }
    }
}

/// The process, which two threads may end.
struct WorkerProcess(Mutex<Child>);

impl WorkerProcess {
    fn lock(&self) -> MutexGuard<'_, Child> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_running(&self) -> bool {
        matches!(self.lock().try_wait(), Ok(None))
    }

    /// Waits for the end of the process, at most for `limit`, and returns how it ended.
    fn wait(&self, limit: Duration) -> Option<String> {
        let start = Instant::now();
        loop {
            let state = self.lock().try_wait();
            match state {
                Ok(Some(status)) => return Some(status.to_string()),
                Ok(None) if start.elapsed() < limit => thread::sleep(TICK / 4),
                Ok(None) => return None,
                Err(e) => return Some(e.to_string()),
            }
        }
    }

    fn kill(&self) {
        let mut child = self.lock();
        // The process may have ended by itself; then both calls do nothing.
        let _ = child.kill();
        let _ = child.wait();
    }

    /// Returns the memory that the process uses, bytes. A process that ended has none.
    fn memory_bytes(&self) -> u64 {
        let mut child = self.lock();
        match child.try_wait() {
            // Under the lock the number of the process is not given to another one.
            Ok(None) => memory_bytes(child.id()).unwrap_or(0),
            _ => 0,
        }
    }
}

/// Returns the memory of a process in bytes, in RAM and in swap, or `None` if the system does not say.
fn memory_bytes(process: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let kib = |name: &str| -> Option<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse().ok()
    };
    // A system without swap may not have the second line.
    let all = kib("VmRSS:")?.saturating_add(kib("VmSwap:").unwrap_or(0));
    all.checked_mul(1 << 10)
}

/// Watches a worker while another thread sends inputs to it or passes its results on, which may both take long.
pub(crate) struct RunWatch {
    process: Arc<WorkerProcess>,
    /// Maximum memory of the process in bytes, or `None` for no limit.
    memory_limit: Option<u64>,
    /// Number of inputs that are sent, or [`ALL_SENT`].
    sent: AtomicU64,
    /// The process was ended here.
    ended: AtomicBool,
}

impl RunWatch {
    /// Creates the watch of a worker.
    pub fn new(worker: &Worker, memory_limit: Option<u64>) -> Self {
        Self {
            process: Arc::clone(&worker.process),
            memory_limit,
            sent: AtomicU64::new(0),
            ended: AtomicBool::new(false),
        }
    }

    /// Returns whether the process was ended here. Its output may stay open if it has children.
    pub fn has_ended_process(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// Calls `work`. Meanwhile, another thread ends the process when it uses too much memory, when it takes no input
    /// for [`SILENCE_LIMIT`], or when the caller cancels and `work` does not end the process.
    ///
    /// # Errors
    /// The reason why the process was ended here, or the error of `work`.
    pub fn run<T>(
        &self,
        control: &dyn Control,
        work: impl FnOnce() -> Result<T, BackendError>,
    ) -> Result<T, BackendError> {
        let (end, ended) = channel::<()>();
        let reason = Mutex::new(None);
        let result = thread::scope(|scope| {
            let thread = thread::Builder::new().name("kinescope-watch".into());
            let to = &reason;
            let watch = move || {
                if let Some(found) = self.watch(control, &ended) {
                    *to.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
                    self.ended.store(true, Ordering::Relaxed);
                    self.process.kill();
                }
            };
            thread
                .spawn_scoped(scope, watch)
                .map_err(|e| BackendError::Target(format!("the worker process cannot be watched: {e}")))?;
            // Dropped at the end of the work, also by a panic: it ends the thread.
            let _end = end;
            work()
        });
        let reason = reason.into_inner().unwrap_or_else(PoisonError::into_inner);
        match result {
            // The caller knows best why it did not take a result.
            Err(e @ BackendError::ResultNotTaken(_)) => Err(e),
            Err(e) => Err(reason.unwrap_or(e)),
            Ok(value) => Ok(value),
        }
    }

    /// Returns why the process has to be ended, or `None` at the end of the work.
    fn watch(&self, control: &dyn Control, ended: &Receiver<()>) -> Option<BackendError> {
        let mut measured: Option<Instant> = None;
        let mut progress = (0, Instant::now());
        let mut cancelled: Option<Instant> = None;
        loop {
            let sent = self.sent.load(Ordering::Relaxed);
            if control.is_cancelled() {
                let since = *cancelled.get_or_insert_with(Instant::now);
                // The thread that receives results ends the process in order, unless the caller blocks it.
                if sent != ALL_SENT || since.elapsed() > END_LIMIT * 2 {
                    return Some(BackendError::Cancelled);
                }
            }
            if let Some(limit) = self.memory_limit
                && measured.is_none_or(|at| at.elapsed() > MEMORY_TICK)
            {
                measured = Some(Instant::now());
                let used = self.process.memory_bytes();
                if used > limit {
                    return Some(BackendError::Target(format!(
                        "the worker process used {used} bytes of memory (limit {limit}): give fewer inputs, smaller \
                         limits or fewer copies"
                    )));
                }
            }
            if sent != progress.0 {
                progress = (sent, Instant::now());
            }
            if sent != ALL_SENT && progress.1.elapsed() > SILENCE_LIMIT {
                return Some(BackendError::Target(format!(
                    "the worker process took no input for {} s",
                    SILENCE_LIMIT.as_secs()
                )));
            }
            match ended.recv_timeout(TICK) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(()) | Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{GpuOptions, WorkerBackend};
    use wasm_run::{Backend, Program, ProgramRun, RunEnd, RunOptions};

    fn result(bytes: usize) -> Answer {
        let run = ProgramRun {
            end: RunEnd::Exit(0),
            standard_output: vec![7; bytes],
            standard_error: Vec::new(),
            calls: Vec::new(),
            lost_calls: 0,
        };
        Answer::Result(0, Box::new(run))
    }

    #[test]
    fn a_reader_of_answers_stops_when_large_results_wait() {
        let mut bytes = Vec::new();
        for _ in 0..10 {
            result(1000).write(&mut bytes).unwrap();
        }
        let budget = ResultBudget::new(4000);
        let (to, answers) = sync_channel(MAX_WAITING_MESSAGES);
        let other = budget.clone();
        let reader = thread::spawn(move || read_answers(bytes.as_slice(), &other, &to));
        let mut held: Vec<ReceivedAnswer> = (0..4).map(|_| answers.recv().unwrap()).collect();
        assert!(answers.recv_timeout(Duration::from_millis(50)).is_err());
        held.pop();
        held.push(answers.recv().unwrap());
        assert!(answers.recv_timeout(Duration::from_millis(50)).is_err());
        drop(held);
        assert_eq!(answers.iter().count(), 5);
        reader.join().unwrap();
    }

    #[test]
    fn memory_includes_swap() {
        assert!(memory_bytes(std::process::id()).unwrap() > 1 << 16);
        assert_eq!(memory_bytes(u32::MAX), None);
    }

    /// Cancels on request, and takes all results.
    #[derive(Default)]
    struct Flag(AtomicBool);

    impl Control for Flag {
        fn is_cancelled(&self) -> bool {
            self.0.load(Ordering::Relaxed)
        }

        fn take_result(&self, _index: usize, _run: ProgramRun) -> Result<(), String> {
            Ok(())
        }
    }

    /// Returns a backend whose worker is this shell script.
    fn backend(script: &str) -> WorkerBackend {
        let program = Program::parse(wat::parse_str(r#"(module (func (export "_start")))"#).unwrap()).unwrap();
        let script = script.to_owned();
        let command = move || {
            let mut command = Command::new("sh");
            command.args(["-c", &script]);
            command
        };
        WorkerBackend::new(program, RunOptions::default(), GpuOptions::default(), command).unwrap()
    }

    /// An input that does not fit a pipe.
    fn large_input() -> Input {
        Input {
            bytes: vec![0; 16 << 20],
            ..Input::default()
        }
    }

    #[test]
    fn a_worker_that_takes_no_input_can_be_cancelled() {
        let control = Flag::default();
        let backend = backend("exec sleep 60");
        let begin = Instant::now();
        let ended = thread::scope(|scope| {
            let run = scope.spawn(|| backend.run(&[large_input()], &control));
            thread::sleep(Duration::from_millis(200));
            control.0.store(true, Ordering::Relaxed);
            run.join().unwrap()
        });
        assert!(matches!(ended, Err(BackendError::Cancelled)), "{ended:?}");
        assert!(begin.elapsed() < Duration::from_secs(20));
    }

    #[test]
    fn a_worker_that_takes_no_input_has_its_memory_limit() {
        let backend = backend("exec sleep 60").with_memory_limit(1);
        let begin = Instant::now();
        let ended = backend.run(&[large_input()], &Flag::default()).unwrap_err();
        assert!(ended.to_string().contains("bytes of memory (limit 1)"), "{ended}");
        assert!(begin.elapsed() < Duration::from_secs(20));
    }

    #[test]
    fn memory_is_checked_while_the_caller_takes_results() {
        let mut command = Command::new("sleep");
        command.arg("60");
        let worker = Worker::start(command).unwrap();
        let watch = RunWatch::new(&worker, Some(1));
        watch.sent.store(ALL_SENT, Ordering::Relaxed);
        // The caller blocks the thread that receives results until the process is dead.
        let ended = watch.run(&Flag::default(), || {
            worker.process.wait(Duration::from_secs(20)).unwrap();
            Err::<(), _>(worker.death())
        });
        let text = ended.unwrap_err().to_string();
        assert!(text.contains("bytes of memory (limit 1)"), "{text}");
        assert!(watch.has_ended_process());
    }
}
