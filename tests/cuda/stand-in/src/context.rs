//! Contexts with their streams, and the current context of each thread.

use crate::call::Call;
use crate::codes::{CONTEXT_IS_DESTROYED, INVALID_CONTEXT, INVALID_HANDLE};
use crate::handles::{Handles, pointer};
use crate::health::Health;
use crate::streams::{Completion, STREAMS, Stream, StreamOrder};
use crate::{Answer, lock};
use cuda_driver::{
    CuContext, CuResult, CuStream, LIMIT_HEAP, LIMIT_PRINTF, LIMIT_STACK, STREAM_LEGACY, STREAM_PER_THREAD,
};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

/// A context.
pub struct Context {
    /// Handle of the context, by which other objects refer to it.
    pub handle: usize,
    /// Its error, if it has one.
    pub health: Arc<Health>,
    /// The context was destroyed: no new work starts.
    ended: AtomicBool,
    /// Streams, and the last work of each.
    order: Mutex<StreamOrder>,
    /// Flags of the context.
    pub flags: AtomicU32,
    /// Limits by their numbers.
    pub limits: Mutex<BTreeMap<u32, usize>>,
}

/// Default limits for kernels: sizes of the stack, the print buffer and the heap, bytes.
const LIMITS: [(u32, usize); 3] = [(LIMIT_STACK, 1 << 10), (LIMIT_PRINTF, 1 << 20), (LIMIT_HEAP, 8 << 20)];

static CONTEXTS: Handles<Context> = Handles::new(1);

thread_local! {
    static STACK: RefCell<Vec<Arc<Context>>> = const { RefCell::new(Vec::new()) };
}

impl Context {
    /// Creates a context with flags.
    pub fn make(flags: u32) -> Arc<Self> {
        CONTEXTS.put(|handle| Self {
            handle,
            health: Arc::new(Health::new()),
            ended: AtomicBool::new(false),
            order: Mutex::new(StreamOrder::new()),
            flags: AtomicU32::new(flags),
            limits: Mutex::new(LIMITS.into()),
        })
    }

    /// Checks that the context has no error.
    pub fn check(&self) -> Answer {
        self.health.check()
    }

    /// Returns whether the context was destroyed.
    pub fn is_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Waits for all submitted work in all streams, and returns its result.
    pub fn synchronize(&self) -> Answer {
        let all = lock(&self.order).all();
        for done in all {
            done.wait();
        }
        self.check()
    }

    /// Marks the context as destroyed: no call finds it any more.
    pub fn mark_ended(&self) {
        self.ended.store(true, Ordering::Release);
    }

    /// Removes a destroyed context. Another call can have removed it already.
    pub fn remove(&self) {
        let _ = CONTEXTS.take(pointer(self.handle));
    }

    /// Returns the stream of a call.
    pub fn find_stream(&self, handle: CuStream, per_thread: bool) -> Answer<Arc<Stream>> {
        match (handle as usize, per_thread) {
            (0, false) | (STREAM_LEGACY, _) => Ok(lock(&self.order).legacy(self.handle)),
            (0, true) | (STREAM_PER_THREAD, _) => Ok(lock(&self.order).per_thread(self.handle)),
            _ => STREAMS.get(handle).and_then(|stream| {
                if stream.context == self.handle {
                    Ok(stream)
                } else {
                    Err(INVALID_HANDLE)
                }
            }),
        }
    }

    /// Submits work to a stream: it starts when the stream's earlier work and all of `after` are complete.
    pub fn submit(
        &self,
        stream: &Arc<Stream>,
        after: Vec<Arc<Completion>>,
        work: impl FnOnce(&Health) -> Answer + Send + 'static,
    ) -> Arc<Completion> {
        lock(&self.order).submit(&self.health, stream, after, Box::new(work))
    }

    /// Waits for all work of a stream, and for what the default stream waits for.
    pub fn synchronize_stream(&self, stream: &Arc<Stream>) -> Answer {
        if stream.legacy {
            // This also waits for all streams that synchronize with the default stream.
            self.submit(stream, Vec::new(), |_| Ok(())).wait();
        } else {
            let last = lock(&self.order).last(stream);
            if let Some(done) = last {
                done.wait();
            }
        }
        self.check()
    }

    /// Returns whether all work of a stream is complete.
    pub fn is_done(&self, stream: &Stream) -> bool {
        lock(&self.order).is_done(stream)
    }
}

/// Returns the thread's current context.
pub fn current() -> Answer<Arc<Context>> {
    let top = STACK.try_with(|stack| stack.borrow().last().cloned()).unwrap_or(None);
    let context = top.ok_or(INVALID_CONTEXT)?;
    if context.is_ended() {
        return Err(CONTEXT_IS_DESTROYED);
    }
    Ok(context)
}

/// Sets an error of the current context, as if the device had failed.
pub fn hurt_current(code: CuResult) {
    if let Ok(context) = current() {
        context.health.hurt(code);
    }
}

/// Changes the thread's stack of contexts; the last one is the current one.
pub fn change_stack<T>(change: impl FnOnce(&mut Vec<Arc<Context>>) -> T) -> Answer<T> {
    STACK
        .try_with(|stack| change(&mut stack.borrow_mut()))
        .map_err(|_| INVALID_CONTEXT)
}

/// Returns the context of a handle.
pub fn find(handle: CuContext) -> Answer<Arc<Context>> {
    CONTEXTS.get(handle).map_err(|_| INVALID_CONTEXT)
}

/// Returns the stream of a call, which can belong to another context than the thread's, and its context.
pub fn find_stream_anywhere(call: &Call, handle: CuStream) -> Answer<(Arc<Context>, Arc<Stream>)> {
    match STREAMS.get(handle) {
        Ok(stream) => Ok((find(pointer(stream.context))?, stream)),
        Err(_) => call.stream(handle),
    }
}

impl Call {
    /// Returns the thread's context, which must have no error.
    pub fn context(&self) -> Answer<Arc<Context>> {
        let context = current()?;
        context.check()?;
        Ok(context)
    }

    /// Returns the thread's context, and a stream of it.
    pub fn stream(&self, handle: CuStream) -> Answer<(Arc<Context>, Arc<Stream>)> {
        let context = self.context()?;
        let stream = context.find_stream(handle, self.per_thread)?;
        Ok((context, stream))
    }

    /// Returns the thread's context, and the default stream of this form of the function.
    pub fn default_stream(&self) -> Answer<(Arc<Context>, Arc<Stream>)> {
        self.stream(std::ptr::null_mut())
    }
}
