//! Work apart from the interface thread: each piece has a title, a progress and a way to stop it.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;
use trace_core::progress::Progress;

/// What a piece of work for `A` hands back: done on the interface thread.
pub type TaskCallback<A> = Box<dyn FnOnce(&mut A) + Send>;

/// How a piece of work ended.
pub enum TaskResult<A> {
    /// To be done with what it handed back.
    Done(TaskCallback<A>),
    /// It did not come to its end: what it was, and why.
    Lost(String, String),
}

/// A piece of work that is running.
pub struct RunningTask {
    id: u64,
    /// What it is, for the person.
    pub title: String,
    /// How far it is; cancels it too.
    pub progress: Progress,
    /// When it began.
    pub since: Instant,
}

/// Everything that is running; what it gives back is done with an `A`.
pub struct Tasks<A> {
    next: u64,
    running: Vec<RunningTask>,
    to: Sender<(u64, TaskResult<A>)>,
    from: Receiver<(u64, TaskResult<A>)>,
}

impl RunningTask {
    /// Its number; none has that of another.
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
    /// Starts a piece of work on a thread of its own; what it gives back runs on the interface thread.
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

    /// As [`Tasks::spawn`], with a progress that somebody holds already.
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
            let why = "stopped by an error of the program; see the crash report";
            let ended = match result {
                Ok(done) => {
                    mine.mark_ended();
                    TaskResult::Done(done)
                }
                Err(_) => {
                    // A panel that waits for this work shows an error in its place.
                    mine.mark_lost();
                    TaskResult::Lost(name, why.into())
                }
            };
            // The window may be gone, and nobody left to tell.
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

    /// What has finished since the last call.
    pub fn take_finished(&mut self) -> Vec<TaskResult<A>> {
        let mut out = Vec::new();
        while let Ok((id, ended)) = self.from.try_recv() {
            self.running.retain(|r| r.id != id);
            out.push(ended);
        }
        out
    }

    /// Number of the piece that was started last.
    #[must_use]
    pub fn latest(&self) -> Option<u64> {
        self.next.checked_sub(1)
    }

    /// What is running, oldest first.
    #[must_use]
    pub fn running(&self) -> &[RunningTask] {
        &self.running
    }

    /// Asks everything to stop.
    pub fn cancel_all(&self) {
        for r in &self.running {
            r.progress.cancel();
        }
    }
}
