//! Streams: queues with a thread each, and the order of the work in them.

use crate::handles::{Handles, pointer};
use crate::health::Health;
use crate::settings::settings;
use crate::{Answer, lock};
use cuda_driver::STREAM_NON_BLOCKING;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time that a stream's idle thread waits for more work before it ends.
const LINGER: Duration = Duration::from_millis(200);

/// Completion state of a piece of work.
#[derive(Default)]
pub struct Completion {
    at: Mutex<Option<Instant>>,
    condvar: Condvar,
}

/// With `STAND_IN_PACE`: the start of the device clock, and the nanoseconds that kernels have taken since.
static CLOCK_START: LazyLock<Instant> = LazyLock::new(Instant::now);
static CLOCK_NS: AtomicU64 = AtomicU64::new(0);

/// Advances the device clock.
pub fn advance_device_clock(time: Duration) {
    CLOCK_NS.fetch_add(time.as_nanos() as u64, Ordering::SeqCst);
}

/// Returns the time on the device: that of the host, or with `STAND_IN_PACE` that of the device clock.
fn device_now() -> Instant {
    if settings().pace {
        *CLOCK_START + Duration::from_nanos(CLOCK_NS.load(Ordering::SeqCst))
    } else {
        Instant::now()
    }
}

impl Completion {
    /// Returns the time of completion, if it is complete.
    pub fn at(&self) -> Option<Instant> {
        *lock(&self.at)
    }

    fn notify(&self) {
        *lock(&self.at) = Some(device_now());
        self.condvar.notify_all();
    }

    /// Waits until the work is complete.
    pub fn wait(&self) {
        let mut at = lock(&self.at);
        while at.is_none() {
            at = self.condvar.wait(at).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Work of a stream, which gets its context's health.
pub type Work = Box<dyn FnOnce(&Health) -> Answer + Send>;

struct Job {
    health: Arc<Health>,
    after: Vec<Arc<Completion>>,
    work: Work,
    done: Arc<Completion>,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    /// A thread runs the queue or waits for more work.
    attended: bool,
}

/// A stream.
pub struct Stream {
    /// Its handle; 0 for default streams, which have numbers of their own.
    pub handle: usize,
    /// Unique number in the process.
    pub id: u64,
    pub flags: u32,
    pub priority: i32,
    /// The default stream of all threads.
    pub legacy: bool,
    /// Handle of its context.
    pub context: usize,
    queue: Mutex<Queue>,
    more: Condvar,
}

impl Stream {
    fn new(handle: usize, context: usize, flags: u32, priority: i32, legacy: bool) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self {
            handle,
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            flags,
            priority,
            legacy,
            context,
            queue: Mutex::default(),
            more: Condvar::new(),
        }
    }

    /// Returns whether it and the default stream synchronize.
    pub fn is_blocking(&self) -> bool {
        self.flags & STREAM_NON_BLOCKING == 0
    }

    fn push(self: &Arc<Self>, job: Job) {
        let mut queue = lock(&self.queue);
        queue.jobs.push_back(job);
        if queue.attended {
            self.more.notify_one();
            return;
        }
        queue.attended = true;
        drop(queue);
        let stream = Arc::clone(self);
        let name = format!("stream {}", self.id);
        let begun = std::thread::Builder::new().name(name).spawn(move || stream.attend());
        if begun.is_err() {
            // No thread is available: the work runs at once, which is slower but correct.
            self.attend();
        }
    }

    /// Runs the work in the queue until it is empty for a while.
    fn attend(&self) {
        let mut queue = lock(&self.queue);
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                drop(queue);
                job.run();
                queue = lock(&self.queue);
                continue;
            }
            let (woken, wait) = self
                .more
                .wait_timeout(queue, LINGER)
                .unwrap_or_else(PoisonError::into_inner);
            queue = woken;
            if wait.timed_out() && queue.jobs.is_empty() {
                queue.attended = false;
                return;
            }
        }
    }
}

impl Job {
    fn run(self) {
        for done in &self.after {
            done.wait();
        }
        let slow = settings().slow;
        if !slow.is_zero() {
            std::thread::sleep(slow);
        }
        // A context with an error runs nothing more.
        if self.health.check().is_ok()
            && let Err(code) = (self.work)(&self.health)
        {
            self.health.hurt(code);
        }
        self.done.notify();
    }
}

/// The streams of a context, and the last work of each.
pub struct StreamOrder {
    legacy: Option<Arc<Stream>>,
    per_thread: BTreeMap<u64, Arc<Stream>>,
    /// By stream number: whether it waits for the default stream, and its last work.
    last: BTreeMap<u64, (bool, Arc<Completion>)>,
    /// The default stream's number.
    legacy_id: u64,
}

impl StreamOrder {
    pub fn new() -> Self {
        Self {
            legacy: None,
            per_thread: BTreeMap::new(),
            last: BTreeMap::new(),
            legacy_id: 0,
        }
    }

    /// Returns the default stream of all threads of a context.
    pub fn legacy(&mut self, context: usize) -> Arc<Stream> {
        let make = || Arc::new(Stream::new(0, context, 0, 0, true));
        let stream = Arc::clone(self.legacy.get_or_insert_with(make));
        self.legacy_id = stream.id;
        stream
    }

    /// Returns the calling thread's own default stream of a context.
    pub fn per_thread(&mut self, context: usize) -> Arc<Stream> {
        let make = || Arc::new(Stream::new(0, context, 0, 0, false));
        Arc::clone(self.per_thread.entry(thread_number()).or_insert_with(make))
    }

    /// Submits work to a stream: it starts when the stream's earlier work and all of `after` are complete.
    pub fn submit(
        &mut self,
        health: &Arc<Health>,
        stream: &Arc<Stream>,
        mut after: Vec<Arc<Completion>>,
        work: Work,
    ) -> Arc<Completion> {
        after.extend(self.before(stream));
        let done = Arc::new(Completion::default());
        self.put(stream, Arc::clone(&done));
        // Under the order's lock, so that the queue has the order that the dependencies assume.
        stream.push(Job {
            health: Arc::clone(health),
            after,
            work,
            done: Arc::clone(&done),
        });
        done
    }

    /// Returns whether all work of a stream is complete.
    pub fn is_done(&self, stream: &Stream) -> bool {
        let own = self.last(stream).is_none_or(|done| done.at().is_some());
        own && (!stream.legacy || self.before(stream).is_empty())
    }

    /// Returns the dependencies of a stream's next work, other than the stream's own.
    fn before(&self, stream: &Stream) -> Vec<Arc<Completion>> {
        if !stream.is_blocking() {
            return Vec::new();
        }
        let waits = |id: u64, blocking: bool| if stream.legacy { blocking } else { id == self.legacy_id };
        let all = self
            .last
            .iter()
            .filter(|(id, (blocking, _))| **id != stream.id && waits(**id, *blocking));
        all.map(|(_, (_, done))| Arc::clone(done))
            .filter(|done| done.at().is_none())
            .collect()
    }

    /// Returns the last work of every stream.
    pub fn all(&self) -> Vec<Arc<Completion>> {
        self.last.values().map(|(_, done)| Arc::clone(done)).collect()
    }

    /// Returns the last work of a stream, if it has any.
    pub fn last(&self, stream: &Stream) -> Option<Arc<Completion>> {
        self.last.get(&stream.id).map(|(_, done)| Arc::clone(done))
    }

    fn put(&mut self, stream: &Stream, done: Arc<Completion>) {
        const MANY: usize = 64;
        if self.last.len() > MANY {
            self.last.retain(|_, (_, done)| done.at().is_none());
        }
        self.last.insert(stream.id, (stream.is_blocking(), done));
    }
}

/// Streams that programs created.
pub static STREAMS: Handles<Stream> = Handles::new(4);

/// Returns a number of the calling thread that is unique in the process and not reused.
fn thread_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local! {
        static OWN: u64 = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    OWN.try_with(|own| *own).unwrap_or(0)
}

/// Removes the streams and events of a context that is destroyed.
pub fn forget(context: usize) {
    for stream in STREAMS.all().iter().filter(|s| s.context == context) {
        // Another call can have destroyed it already.
        let _ = STREAMS.take(pointer(stream.handle));
    }
}

/// Creates a stream of a context.
pub fn make(context: usize, flags: u32, priority: i32) -> Arc<Stream> {
    STREAMS.put(|handle| Stream::new(handle, context, flags, priority, false))
}
