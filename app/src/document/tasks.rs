//! Work apart from the interface thread: each piece has a title, a progress and a way to stop it.

use crate::window::App;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;
use trace_core::progress::Progress;

/// What a piece of work hands back: done on the interface thread.
pub type Done = Box<dyn FnOnce(&mut App) + Send>;

/// A piece of work that is running.
pub struct Running {
    id: u64,
    /// What it is, for the person.
    pub title: String,
    /// How far it is; cancels it too.
    pub progress: Progress,
    /// When it began.
    pub since: Instant,
}

/// Everything that is running.
pub struct Tasks {
    next: u64,
    running: Vec<Running>,
    to: Sender<(u64, Done)>,
    from: Receiver<(u64, Done)>,
}

impl Running {
    /// Its number; none has that of another.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }
}

impl Default for Tasks {
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

impl Tasks {
    /// Starts a piece of work on a thread of its own; what it gives back runs on the interface thread.
    pub fn spawn(
        &mut self,
        ctx: &egui::Context,
        title: impl Into<String>,
        work: impl FnOnce(&Progress) -> Done + Send + 'static,
    ) -> Progress {
        let (id, title) = (self.next, title.into());
        self.next += 1;
        let progress = Progress::new();
        let (to, ctx, mine, name) = (self.to.clone(), ctx.clone(), progress.clone(), title.clone());
        let thread = std::thread::Builder::new().name(format!("work: {title}"));
        let started = thread.spawn(move || {
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(&mine)));
            let done = result.unwrap_or_else(|_| {
                Box::new(move |app: &mut App| {
                    app.error(&name, "stopped by an error of the program; see the crash report")
                })
            });
            // The window may be gone, and nobody left to tell.
            let _ = to.send((id, done));
            ctx.request_repaint();
        });
        match started {
            Ok(_) => self.running.push(Running {
                id,
                title,
                progress: progress.clone(),
                since: Instant::now(),
            }),
            Err(e) => {
                let text = e.to_string();
                let done: Done = Box::new(move |app| app.error("could not start a thread", &text));
                let _ = self.to.send((id, done));
            }
        }
        progress
    }

    /// What has finished since the last call.
    pub fn finished(&mut self) -> Vec<Done> {
        let mut out = Vec::new();
        while let Ok((id, done)) = self.from.try_recv() {
            self.running.retain(|r| r.id != id);
            out.push(done);
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
    pub fn running(&self) -> &[Running] {
        &self.running
    }

    /// Asks everything to stop.
    pub fn cancel_all(&self) {
        for r in &self.running {
            r.progress.cancel();
        }
    }
}
