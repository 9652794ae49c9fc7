//! The parent's side of worker processes: early start, hand-over of a plan, answers, time limit, cancellation.

use crate::sealed_file::create_sealed;
use crate::worker_protocol::{Answer, FaultAnswer, MAX_TEXT, ParentMessage, PlayReport, Request};
use crate::worker_socket::{create_socket_pair, send_message};
use nvidia_client::Control;
use replay_engine::channel::RING_REACH;
use std::io::{BufRead as _, BufReader, Error, ErrorKind, Read as _, Result, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use trace_core::progress::Progress;
use trace_core::recording::Digest;

/// Interval at which cancellation is checked.
const TICK: Duration = Duration::from_millis(5);
/// Where the player's own memory is, unless the recorded program has used these addresses.
const USUAL_CONTROL: u64 = RING_REACH - Control::BYTES;

/// Starts worker processes: a program that calls [`crate::worker::serve_request`] on its standard input and output.
pub struct ChannelWorkers {
    command: Box<dyn Fn() -> Command + Send + Sync>,
    /// A worker that was started early.
    waiting: Mutex<Option<WaitingWorker>>,
    /// Page images that were read early.
    prepared: Mutex<Option<PreparedImages>>,
    /// Workers that have answered. Only the next one waits for their end: their memory may be needed.
    ending: Mutex<Vec<ChildGuard>>,
}

impl std::fmt::Debug for ChannelWorkers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ChannelWorkers({:?})", (self.command)())
    }
}

/// How a worker ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum WorkerEnd {
    /// The replay ran to its end.
    Played(PlayReport),
    /// A submission did not complete.
    Stopped(FaultAnswer),
    /// The replay failed otherwise.
    Failed(String),
    /// It was cancelled.
    Cancelled,
}

/// What a worker replays.
pub(crate) struct WorkerJob<'a> {
    /// The request. Its time is set when it is sent.
    pub request: Request,
    /// The steps of the plan.
    pub body: &'a [u8],
    /// Digests of the page images of the plan, by number.
    pub images: &'a [Digest],
    /// Creates the sealed file of the page images of the plan, by number.
    pub create_images: &'a dyn Fn() -> Result<OwnedFd>,
    /// Maximum time of the replay.
    pub limit: Duration,
}

/// A child process that is ended on drop.
struct ChildGuard(Child);

impl Drop for ChildGuard {
    fn drop(&mut self) {
        // The process may have ended by itself; then the first call does nothing.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The page images of a plan in a sealed file.
struct PreparedImages {
    /// Their digests, by number.
    digests: Vec<Digest>,
    file: OwnedFd,
}

/// A worker without a request.
struct WaitingWorker {
    gpu: u32,
    child: ChildGuard,
    socket: OwnedFd,
    output: ChildStdout,
}

impl WaitingWorker {
    fn is_alive(&mut self) -> bool {
        matches!(self.child.0.try_wait(), Ok(None))
    }
}

impl ChannelWorkers {
    /// Creates the set of workers. `command` starts the program.
    #[must_use]
    pub fn new(command: impl Fn() -> Command + Send + Sync + 'static) -> Self {
        Self {
            command: Box::new(command),
            waiting: Mutex::default(),
            prepared: Mutex::default(),
            ending: Mutex::default(),
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Option<WaitingWorker>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a worker that opens a GPU now, while its request is still prepared. Does nothing if one waits for it
    /// already. Errors are reported when the worker is needed.
    pub(crate) fn prestart(&self, gpu: u32) {
        let mut waiting = self.waiting();
        if !waiting.as_mut().is_some_and(|w| w.gpu == gpu && w.is_alive()) {
            *waiting = None;
            *waiting = self.start(gpu).ok();
        }
    }

    fn prepared(&self) -> MutexGuard<'_, Option<PreparedImages>> {
        self.prepared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the worker that waits for a GPU map the memory of the next plan, while the plan is still verified. `steps` are the
    /// first steps of the plan, all of which map. Does nothing if no worker waits. Errors are reported by the replay.
    pub(crate) fn map_early(&self, gpu: u32, control: u64, steps: &[u8]) {
        let Ok(file) = create_sealed(|file| file.write_all(steps)) else {
            return;
        };
        if let Some(worker) = self.waiting().as_ref().filter(|w| w.gpu == gpu) {
            // A worker that has ended is replaced when it is needed.
            let _ = send_message(&worker.socket, &ParentMessage::Map { control }, Some(file.as_fd()));
        }
    }

    /// Reads the page images of the next plan, while the plan is still verified. Errors are reported by the replay, which
    /// reads them again.
    pub(crate) fn read_images_early(&self, digests: &[Digest], create: impl FnOnce() -> Result<OwnedFd>) {
        let prepared = create().map(|file| PreparedImages {
            digests: digests.to_vec(),
            file,
        });
        *self.prepared() = prepared.ok();
    }

    /// Ends the worker that waits for a GPU, if there is one, and forgets what was prepared.
    pub(crate) fn end_waiting(&self, gpu: u32) {
        *self.prepared() = None;
        drop(self.waiting().take_if(|w| w.gpu == gpu));
        self.settle();
    }

    /// Replays in a worker, which is ended after the time limit.
    ///
    /// # Errors
    /// If the process cannot be started, or the plan cannot be handed over.
    pub(crate) fn run(&self, gpu: u32, job: &WorkerJob<'_>, progress: &Progress) -> Result<WorkerEnd> {
        let begun = Instant::now();
        let steps = create_sealed(|file| file.write_all(job.body))?;
        let message = || {
            ParentMessage::Play(Request {
                sent_ns: crate::worker_protocol::monotonic_ns(),
                ..job.request.clone()
            })
        };
        let prestarted = self.waiting().take().filter(|w| w.gpu == gpu);
        let prestarted = prestarted.and_then(|mut w| w.is_alive().then_some(w));
        let (worker, was_waiting) = match prestarted {
            // A worker that has ended meanwhile does not read the request, and another one takes its place.
            Some(w) if send_message(&w.socket, &message(), Some(steps.as_fd())).is_ok() => (w, true),
            _ => (self.start_for(gpu, &message(), &steps)?, false),
        };
        let end = self.finish(worker, job, begun, progress)?;
        match end {
            // It stopped waiting just before the request.
            ExpectedEnd::WithoutAnswer(status) if was_waiting && status.success() => {
                let worker = self.start_for(gpu, &message(), &steps)?;
                Ok(self.finish(worker, job, begun, progress)?.into())
            }
            end => Ok(end.into()),
        }
    }

    /// Starts a worker and sends it a request.
    fn start_for(&self, gpu: u32, message: &ParentMessage, steps: &OwnedFd) -> Result<WaitingWorker> {
        let worker = self.start(gpu)?;
        match send_message(&worker.socket, message, Some(steps.as_fd())) {
            // The end of the process is noticed below.
            Err(e) if is_gone(&e) => {}
            sent => sent?,
        }
        Ok(worker)
    }

    fn start(&self, gpu: u32) -> Result<WaitingWorker> {
        self.settle();
        let (socket, input) = create_socket_pair()?;
        let mut command = (self.command)();
        command.stdin(Stdio::from(input)).stdout(Stdio::piped());
        // A terminal interrupt is for the parent, which then decides about this worker.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = ChildGuard(command.spawn()?);
        let output = child.0.stdout.take();
        let output = output.ok_or_else(|| Error::new(ErrorKind::NotFound, "it has no standard output"))?;
        let open = ParentMessage::Open {
            gpu,
            control: USUAL_CONTROL,
        };
        match send_message(&socket, &open, None) {
            Err(e) if is_gone(&e) => {}
            sent => sent?,
        }
        Ok(WaitingWorker {
            gpu,
            child,
            socket,
            output,
        })
    }

    /// Waits until earlier workers have ended.
    fn settle(&self) {
        drop(std::mem::take(
            &mut *self.ending.lock().unwrap_or_else(PoisonError::into_inner),
        ));
    }

    /// Hands the page images to a worker that has its request, and waits for its answer.
    fn finish(
        &self,
        worker: WaitingWorker,
        job: &WorkerJob<'_>,
        begun: Instant,
        progress: &Progress,
    ) -> Result<ExpectedEnd> {
        let WaitingWorker {
            mut child,
            socket,
            output,
            ..
        } = worker;
        let answers = read_answers(output)?;
        let prepared = self.prepared().take().filter(|p| p.digests == job.images);
        let images = match prepared {
            Some(prepared) => prepared.file,
            None => (job.create_images)()?,
        };
        match send_message(&socket, &ParentMessage::Images, Some(images.as_fd())) {
            Err(e) if is_gone(&e) => {}
            sent => sent?,
        }
        drop(images);
        loop {
            match answers.recv_timeout(TICK) {
                Ok(answer) => {
                    // The outcome does not wait until the driver has taken the worker's memory back.
                    let _ = child.0.kill();
                    self.ending.lock().unwrap_or_else(PoisonError::into_inner).push(child);
                    return Ok(ExpectedEnd::Answer(answer));
                }
                // The output has ended, so the process ends too.
                Err(RecvTimeoutError::Disconnected) => return Ok(ExpectedEnd::WithoutAnswer(child.0.wait()?)),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if progress.check().is_err() {
                return Ok(ExpectedEnd::Cancelled);
            }
            if begun.elapsed() > job.limit {
                return Ok(ExpectedEnd::Late(job.limit));
            }
        }
    }
}

/// How a worker with a request ended.
enum ExpectedEnd {
    Answer(Answer),
    WithoutAnswer(ExitStatus),
    Cancelled,
    /// It did not answer within this time.
    Late(Duration),
}

impl From<ExpectedEnd> for WorkerEnd {
    fn from(end: ExpectedEnd) -> Self {
        match end {
            ExpectedEnd::Answer(Answer::Played(report)) => Self::Played(report),
            ExpectedEnd::Answer(Answer::Stopped(fault)) => Self::Stopped(fault),
            ExpectedEnd::Answer(Answer::Failed(why)) => Self::Failed(why),
            ExpectedEnd::WithoutAnswer(status) => Self::Failed(format!("the worker process ended: {status}")),
            ExpectedEnd::Cancelled => Self::Cancelled,
            ExpectedEnd::Late(limit) => {
                Self::Failed(format!("it ran longer than {} s and was stopped", limit.as_secs()))
            }
        }
    }
}

/// Whether a message was not sent because the worker has ended.
fn is_gone(e: &Error) -> bool {
    matches!(e.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset)
}

/// Starts to read the answers of a worker.
fn read_answers(output: ChildStdout) -> Result<Receiver<Answer>> {
    let (sender, receiver) = channel();
    let read = move || {
        let lines = BufReader::new(output.take(MAX_TEXT)).lines().map_while(Result::ok);
        // Output that cannot be read is not an answer.
        let answers = lines.filter_map(|l| serde_json::from_str::<Answer>(&l).ok());
        for answer in answers {
            if sender.send(answer).is_err() {
                break;
            }
        }
    };
    std::thread::Builder::new()
        .name("kinescope-answers".into())
        .spawn(read)?;
    Ok(receiver)
}

#[cfg(test)]
mod tests;
