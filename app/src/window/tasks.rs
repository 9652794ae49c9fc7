//! Background tasks: each has a title, a progress and a way to stop it.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;
use trace_core::progress::Progress;

/// Result of a task for `A`: a callback that runs on the interface thread.
pub type TaskCallback<A> = Box<dyn FnOnce(&mut A) + Send>;

/// The end of a task.
pub enum TaskResult<A> {
    /// The task finished; the callback applies its result.
    Done(TaskCallback<A>),
    /// The task did not finish: its title, and the reason.
    Lost(String, String),
}

/// A running task.
pub struct RunningTask {
    id: u64,
    /// Title that the user sees.
    pub title: String,
    /// Progress of the task; also cancels it.
    pub progress: Progress,
    /// Start time.
    pub since: Instant,
}

/// All running tasks; their results are applied to an `A`.
pub struct Tasks<A> {
    next: u64,
    running: Vec<RunningTask>,
    to: Sender<(u64, TaskResult<A>)>,
    from: Receiver<(u64, TaskResult<A>)>,
}

impl RunningTask {
    /// Returns the unique number of the task.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }
}

impl<A> Default for Tasks<A> {
    fn default() -> Self {
        let (to, from) = channel();
        Self {
            next: 0,
            running: Vec::new(),
            to,
            from,
        }
    }
}

impl<A: 'static> Tasks<A> {
    /// Starts a task on its own thread. Its result runs on the interface thread.
    pub fn spawn(
        &mut self,
        ctx: &egui::Context,
        title: impl Into<String>,
        work: impl FnOnce(&Progress) -> TaskCallback<A> + Send + 'static,
    ) -> Progress {
        let progress = Progress::new();
        self.spawn_with(ctx, title, progress.clone(), work);
        progress
    }

    /// Starts a task like [`Tasks::spawn`], with an existing progress.
    pub fn spawn_with(
        &mut self,
        ctx: &egui::Context,
        title: impl Into<String>,
        progress: Progress,
        work: impl FnOnce(&Progress) -> TaskCallback<A> + Send + 'static,
    ) {
        let (id, title) = (self.next, title.into());
        self.next += 1;
        let (to, ctx, mine, name) = (self.to.clone(), ctx.clone(), progress.clone(), title.clone());
        let thread = std::thread::Builder::new().name(format!("work: {title}"));
        let started = thread.spawn(move || {
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(&mine)));
            let why = "stopped because of an internal error; see the crash report";
            let ended = match result {
                Ok(done) => {
                    mine.mark_ended();
                    TaskResult::Done(done)
                }
                Err(_) => {
                    // A panel that waits for this task shows an error instead.
                    mine.mark_lost();
                    TaskResult::Lost(name, why.into())
                }
            };
            // The window may be closed already.
            let _ = to.send((id, ended));
            ctx.request_repaint();
        });
        match started {
            Ok(_) => self.running.push(RunningTask {
                id,
                title,
                progress,
                since: Instant::now(),
            }),
            Err(e) => {
                progress.mark_lost();
                let lost = TaskResult::Lost("could not start a thread".into(), e.to_string());
                let _ = self.to.send((id, lost));
            }
        }
    }

    /// Returns the tasks that ended since the last call.
    pub fn take_finished(&mut self) -> Vec<TaskResult<A>> {
        let mut out = Vec::new();
        while let Ok((id, ended)) = self.from.try_recv() {
            self.running.retain(|r| r.id != id);
            out.push(ended);
        }
        out
    }

    /// Returns the number of the task that was started last.
    #[must_use]
    pub fn latest(&self) -> Option<u64> {
        self.next.checked_sub(1)
    }

    /// Returns the running tasks, oldest first.
    #[must_use]
    pub fn running(&self) -> &[RunningTask] {
        &self.running
    }

    /// Requests all tasks to stop.
    pub fn cancel_all(&self) {
        for r in &self.running {
            r.progress.cancel();
        }
    }
}
