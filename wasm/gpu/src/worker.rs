//! The worker process that runs a program on a GPU or on another target. Damage by the driver stays in this process.

use crate::answer_queue::AnswerQueue;
use crate::cache::CodeCache;
use crate::cuda_device::CudaDevice;
use crate::device::CompiledProgram;
use crate::interpreter_device::InterpreterDevice;
use crate::protocol::{Answer, FailureKind, ProtocolError, Request, StartRequest, WorkerTarget};
use crate::scheduler::{RunObserver, RunStatistics, Scheduler};
use crate::translation::{max_input_bytes, translate};
use rustix::process::{Signal, getpid, getppid, kill_process};
use std::any::Any;
use std::io::{BufWriter, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};
use wasm_run::{Backend, BackendError, Control, Input, LaunchRecord, Program, ProgramError, ProgramRun, RunOptions};

/// Interval at which a worker checks that its parent is alive.
const PARENT_TICK: Duration = Duration::from_millis(500);
/// Maximum number of inputs that memory is reserved for in advance.
const MAX_RESERVED_INPUTS: usize = 1 << 20;
/// Bytes of answers that are written together.
const WRITE_BYTES: usize = 1 << 20;

/// Interval at which a target without messages of its own is reported as alive.
const ALIVE_TICK: Duration = Duration::from_secs(5);

/// Opens the CPU as a target of a program.
pub type OpenCpu = fn(Program, RunOptions) -> Result<Box<dyn Backend>, ProgramError>;

/// Runs what the parent asks for: the whole life of a worker process. It has no CPU target.
///
/// The end of `from` cancels the run.
///
/// # Errors
/// When the requests cannot be read, or an answer cannot be written.
pub fn serve_request(from: impl Read + Send + 'static, to: impl Write + Send) -> Result<(), ProtocolError> {
    serve(from, to, None)
}

/// Runs what the parent asks for like [`serve_request`], also on the CPU.
///
/// # Errors
/// As [`serve_request`].
pub fn serve_request_with_cpu(
    from: impl Read + Send + 'static,
    to: impl Write + Send,
    open_cpu: OpenCpu,
) -> Result<(), ProtocolError> {
    serve(from, to, Some(open_cpu))
}

fn serve(
    mut from: impl Read + Send + 'static,
    to: impl Write + Send,
    open_cpu: Option<OpenCpu>,
) -> Result<(), ProtocolError> {
    end_with_parent();
    let Some(Request::Start(start)) = Request::read(&mut from)? else {
        return Ok(());
    };
    let cancelled = Arc::new(AtomicBool::new(false));
    let arriving = receive_inputs(from, start.inputs, &cancelled)?;
    let queue = AnswerQueue::default();
    thread::scope(|scope| {
        let writer = scope.spawn(|| queue.write_all(&mut BufWriter::with_capacity(WRITE_BYTES, to)));
        let observer = Sender {
            queue: &queue,
            cancelled: &cancelled,
        };
        // The writer ends only when the queue is closed, and the end of this scope waits for the writer.
        let closing = CloseOnDrop(&queue);
        // The parent reports a panic as the failure of this run. Only the queue is used after a panic, and its state is
        // consistent between two calls.
        let result = catch_unwind(AssertUnwindSafe(|| run(&start, &arriving, &observer, open_cpu)));
        let result = result.unwrap_or_else(|payload| Err(BackendError::Target(describe_panic(&*payload))));
        let last = match result {
            Ok(Some(answer)) => Some(answer),
            // The stream ended before the last input.
            Ok(None) => None,
            Err(BackendError::Cancelled) => Some(Answer::Failed(FailureKind::Cancelled, "cancelled".into())),
            Err(e) => Some(Answer::Failed(FailureKind::Target, e.to_string())),
        };
        if let Some(last) = last {
            observer.notify(last);
        }
        drop(closing);
        writer.join().unwrap_or(Ok(()))
    })
}

/// Closes a queue when it is dropped, also by a panic.
struct CloseOnDrop<'a>(&'a AnswerQueue);

impl Drop for CloseOnDrop<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Returns the message of a panic of the run.
fn describe_panic(payload: &(dyn Any + Send)) -> String {
    let message = payload.downcast_ref::<&str>().copied();
    let message = message.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    format!(
        "the worker process panicked: {} (this is a defect of Kinescope)",
        message.unwrap_or("unknown reason")
    )
}

/// Ends this process when its parent is gone. Otherwise a launch that never ends would occupy the GPU.
fn end_with_parent() {
    let parent = getppid();
    let watch = move || {
        while getppid() == parent {
            thread::sleep(PARENT_TICK);
        }
        let _ = kill_process(getpid(), Signal::KILL);
    };
    // Without a thread there is no check, and in most cases the process ends by itself.
    let _ = thread::Builder::new().name("kinescope-parent".into()).spawn(watch);
}

/// Reads inputs on a thread of its own, and passes them on together. Afterwards the end of the stream cancels the run.
///
/// The receiver gets `None` if the stream ends before the last input, or an error if the stream is damaged.
fn receive_inputs(
    mut from: impl Read + Send + 'static,
    count: u64,
    cancelled: &Arc<AtomicBool>,
) -> Result<Receiver<ArrivedInputs>, ProtocolError> {
    let (sender, receiver) = channel();
    let flag = Arc::clone(cancelled);
    let read = move || {
        let inputs = read_inputs(&mut from, count);
        let is_complete = matches!(inputs, Ok(Some(_)));
        // Without a receiver the run has failed.
        if sender.send(inputs).is_err() || !is_complete {
            return;
        }
        let mut byte = [0];
        while matches!(from.read(&mut byte), Ok(n) if n > 0) {}
        flag.store(true, Ordering::Relaxed);
    };
    thread::Builder::new().name("kinescope-inputs".into()).spawn(read)?;
    Ok(receiver)
}

/// The inputs of a run, or what the stream had instead.
type ArrivedInputs = Result<Option<Vec<Input>>, ProtocolError>;

/// Reads a number of inputs, or returns `None` if the stream ends before the last one.
fn read_inputs(from: &mut impl Read, count: u64) -> ArrivedInputs {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let mut inputs = Vec::with_capacity(count.min(MAX_RESERVED_INPUTS));
    while inputs.len() < count {
        match Request::read(from)? {
            Some(Request::Input(input)) => inputs.push(input),
            _ => return Ok(None),
        }
    }
    Ok(Some(inputs))
}

/// Runs the program, and returns the last answer, or `None` if it has been sent or the inputs do not arrive.
fn run(
    start: &StartRequest,
    arriving: &Receiver<ArrivedInputs>,
    observer: &Sender<'_>,
    open_cpu: Option<OpenCpu>,
) -> Result<Option<Answer>, BackendError> {
    let failed = |e: &dyn std::fmt::Display| BackendError::Target(e.to_string());
    let begun = Instant::now();
    // The inputs arrive meanwhile.
    let mut device = match start.target {
        WorkerTarget::Gpu(number) => {
            let cache = if start.use_cache { CodeCache::of_user() } else { None };
            Some(CudaDevice::open(number, cache).map_err(|e| failed(&e))?)
        }
        WorkerTarget::Interpreter | WorkerTarget::Cpu => None,
    };
    let open = begun.elapsed();
    let inputs = match arriving.recv() {
        Ok(Ok(Some(inputs))) => inputs,
        Ok(Err(e)) => return Err(failed(&e)),
        Ok(Ok(None)) | Err(_) => return Ok(None),
    };
    let arrived = begun.elapsed();
    let program = Program::parse(start.program.clone()).map_err(|e| failed(&e))?;
    if start.target == WorkerTarget::Cpu {
        let open = open_cpu.ok_or_else(|| failed(&"this worker process has no CPU target"))?;
        let cpu = open(program, start.options.clone()).map_err(|e| failed(&e))?;
        return with_signs_of_life(observer, || run_on_cpu(&*cpu, &inputs, observer)).map(Some);
    }
    program.check(&start.options).map_err(|e| failed(&e))?;
    let translated = translate(&program, &start.options, start.translation, max_input_bytes(&inputs));
    let translated = translated.map_err(|e| failed(&e))?;
    let translate_time = begun.elapsed().saturating_sub(arrived);
    let scheduler = Scheduler {
        translated: &translated,
        program: &program,
        options: &start.options,
        inputs: &inputs,
        sort: start.sort,
    };
    let timed = TimedObserver {
        inner: observer,
        translate_time,
    };
    let mut statistics = match &mut device {
        Some(device) => scheduler.run(device, &timed)?,
        None => with_signs_of_life(observer, || scheduler.run(&mut InterpreterDevice::new(), &timed))?,
    };
    statistics.phases.open = open;
    statistics.phases.inputs = arrived.saturating_sub(open);
    statistics.phases.translate = translate_time;
    // The parent takes the results while the driver releases the device.
    observer.notify(Answer::Finished(statistics));
    Ok(None)
}

/// Runs a program on the CPU.
fn run_on_cpu(cpu: &dyn Backend, inputs: &[Input], observer: &Sender<'_>) -> Result<Answer, BackendError> {
    observer.notify(Answer::Compiled(CompiledProgram {
        time: cpu.compile_time(),
        ..CompiledProgram::default()
    }));
    observer.notify(Answer::Started(cpu.copies(inputs.len())));
    let start = Instant::now();
    let control = TimedObserver {
        inner: observer,
        translate_time: Duration::ZERO,
    };
    cpu.run(inputs, &control)?;
    Ok(Answer::Finished(RunStatistics {
        run_time: start.elapsed(),
        ..RunStatistics::default()
    }))
}

/// Does work that sends no messages for a long time, and reports every few seconds that this process is alive.
fn with_signs_of_life<T>(observer: &Sender<'_>, work: impl FnOnce() -> T) -> T {
    let (end, ended) = channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            // The end of the work drops the other end.
            while ended.recv_timeout(ALIVE_TICK) == Err(RecvTimeoutError::Timeout) {
                observer.notify(Answer::Alive);
            }
        });
        let result = work();
        drop(end);
        result
    })
}

/// Sends what the scheduler says to the parent.
struct Sender<'a> {
    queue: &'a AnswerQueue,
    cancelled: &'a AtomicBool,
}

impl Sender<'_> {
    /// Sends a message of no consequence. A parent that does not read it ends the run at the next result.
    fn notify(&self, answer: Answer) {
        let _ = self.queue.push(answer);
    }
}

/// Adds the time of the translation to that of the compilation.
struct TimedObserver<'a> {
    inner: &'a Sender<'a>,
    translate_time: Duration,
}

impl Control for TimedObserver<'_> {
    fn is_cancelled(&self) -> bool {
        self.inner.cancelled.load(Ordering::Relaxed)
    }

    fn input_started(&self, index: usize) {
        self.inner.notify(Answer::InputStarted(index as u64));
    }

    fn take_result(&self, index: usize, run: ProgramRun) -> Result<(), String> {
        self.inner.queue.push(Answer::Result(index as u64, Box::new(run)))
    }
}

impl RunObserver for TimedObserver<'_> {
    fn compiled(&self, compiled: &CompiledProgram) {
        self.inner.notify(Answer::Compiled(CompiledProgram {
            time: compiled.time + self.translate_time,
            ..compiled.clone()
        }));
    }

    fn started(&self, copies: u32) {
        self.inner.notify(Answer::Started(copies));
    }

    fn alive(&self) {
        self.inner.notify(Answer::Alive);
    }

    fn launched(&self, launch: LaunchRecord) {
        self.inner.notify(Answer::Launched(launch));
    }
}
