//! The device's thread: observes the doorbell while channels are scheduled, and sleeps otherwise.

use crate::files::State;
use crate::lock;
use crate::system;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// Time between two looks at the doorbell.
const POLL_INTERVAL: Duration = Duration::from_micros(50);
/// Number of looks without a pause after work: the next entry often follows soon.
const BUSY_POLLS: u32 = 20;

/// What the device's thread and the program's threads share.
#[derive(Debug)]
pub struct DeviceThread {
    pub state: Mutex<State>,
    wake: Condvar,
    stop: AtomicBool,
    polls: AtomicU64,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl DeviceThread {
    /// Returns the shared state, without a thread.
    pub fn new(state: State) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(state),
            wake: Condvar::new(),
            stop: AtomicBool::new(false),
            polls: AtomicU64::new(0),
            thread: Mutex::new(None),
        })
    }

    /// Returns how often the thread looked at the doorbell.
    pub fn polls(&self) -> u64 {
        self.polls.load(Ordering::Relaxed)
    }

    /// Starts or wakes the thread. Call it without the lock of the state.
    pub fn wake(self: &Arc<Self>) {
        let mut thread = lock(&self.thread);
        if thread.is_none() {
            let shared = Arc::clone(self);
            let builder = std::thread::Builder::new().name("nvidia-model".to_owned());
            // Without a thread the device hangs, as a broken one does.
            *thread = builder.spawn(move || shared.run()).ok();
        }
        drop(thread);
        self.wake.notify_all();
    }

    /// Ends the thread and waits for it.
    pub fn stop(&self) {
        {
            let _state = lock(&self.state);
            self.stop.store(true, Ordering::SeqCst);
        }
        self.wake.notify_all();
        let thread = lock(&self.thread).take();
        if let Some(thread) = thread {
            // A panic of the thread was reported when it happened.
            let _ = thread.join();
        }
    }

    fn run(&self) {
        system::block_signals();
        let mut quiet = 0;
        loop {
            let mut state = lock(&self.state);
            while !state.gpu.has_scheduled_channels() && !self.stop.load(Ordering::SeqCst) {
                state = self.wake.wait(state).unwrap_or_else(std::sync::PoisonError::into_inner);
            }
            if self.stop.load(Ordering::SeqCst) {
                return;
            }
            self.polls.fetch_add(1, Ordering::Relaxed);
            let State { gpu, settings, .. } = &mut *state;
            let worked = gpu.step(settings);
            drop(state);
            quiet = if worked { 0 } else { quiet + 1 };
            if quiet > BUSY_POLLS {
                quiet = BUSY_POLLS;
                std::thread::sleep(POLL_INTERVAL);
            } else {
                std::thread::yield_now();
            }
        }
    }
}
