//! Contexts: the device's primary context, those that a program creates, and the current context of each thread.

use crate::call::Call;
use crate::codes::{CONTEXT_IS_DESTROYED, INVALID_CONTEXT, NOT_SUPPORTED, SUCCESS, is_sticky};
use crate::graphs::capture::{Capture, refuse_any_capture};
use crate::handles::{Handles, pointer};
use crate::pointers::{give, give_if_wanted};
use crate::streams::{self, StreamOrder};
use crate::{Answer, code, device, lock, memory};
use cuda_driver::{CuContext, CuDevice, CuResult, LIMIT_HEAP, LIMIT_PRINTF, LIMIT_STACK};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

/// A context.
pub struct Context {
    /// Handle of the context, by which other objects refer to it.
    pub handle: usize,
    /// Sticky error.
    hurt: AtomicU32,
    /// Whether the context was destroyed. No new work starts then.
    ended: AtomicBool,
    /// Streams, and the last work of each.
    pub order: Mutex<StreamOrder>,
    /// Limits by their numbers.
    limits: Mutex<BTreeMap<u32, usize>>,
    /// Captures that have not ended.
    pub captures: Mutex<Vec<Arc<Capture>>>,
}

/// Default limits for kernels: sizes of the stack, the print buffer and the heap, bytes.
const LIMITS: [(u32, usize); 3] = [(LIMIT_STACK, 1 << 10), (LIMIT_PRINTF, 1 << 20), (LIMIT_HEAP, 8 << 20)];

/// The primary context, and its retain count.
struct Primary {
    retained: u32,
    context: Option<Arc<Context>>,
    /// Error of the last context when it was destroyed. A real device has no next context in the same process.
    broken: Option<CuResult>,
}

static CONTEXTS: Handles<Context> = Handles::new(1);
static PRIMARY: Mutex<Primary> = Mutex::new(Primary {
    retained: 0,
    context: None,
    broken: None,
});

thread_local! {
    static STACK: RefCell<Vec<Arc<Context>>> = const { RefCell::new(Vec::new()) };
}

impl Context {
    fn make() -> Arc<Self> {
        CONTEXTS.put(|handle| Self {
            handle,
            hurt: AtomicU32::new(SUCCESS),
            ended: AtomicBool::new(false),
            order: Mutex::new(StreamOrder::new()),
            limits: Mutex::new(LIMITS.into()),
            captures: Mutex::new(Vec::new()),
        })
    }

    /// Checks that the context has no error.
    pub fn check(&self) -> Answer {
        match self.hurt.load(Ordering::Acquire) {
            SUCCESS => Ok(()),
            code => Err(code),
        }
    }

    /// Stores a sticky error, unless the context already has one.
    pub fn hurt(&self, code: CuResult) {
        if is_sticky(code) {
            let _ = self
                .hurt
                .compare_exchange(SUCCESS, code, Ordering::AcqRel, Ordering::Acquire);
        }
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

    /// Destroys the context: waits for submitted work, and removes everything that belongs to it.
    fn end(&self) -> Answer {
        self.ended.store(true, Ordering::Release);
        let result = self.synchronize();
        lock(&self.captures).clear();
        streams::forget(self.handle);
        code::forget(self.handle);
        memory::forget(self.handle);
        // Another call can have destroyed the context already.
        let _ = CONTEXTS.take(pointer(self.handle));
        result
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
        context.hurt(code);
    }
}

fn change<T>(change: impl FnOnce(&mut Vec<Arc<Context>>) -> T) -> Answer<T> {
    STACK
        .try_with(|stack| change(&mut stack.borrow_mut()))
        .map_err(|_| INVALID_CONTEXT)
}

/// Returns the context of a handle.
pub fn find(handle: CuContext) -> Answer<Arc<Context>> {
    CONTEXTS.get(handle).map_err(|_| INVALID_CONTEXT)
}

pub fn cuDevicePrimaryCtxRetain(_: &Call, to: *mut CuContext, device: CuDevice) -> Answer {
    device::check(device)?;
    let mut primary = lock(&PRIMARY);
    if let Some(code) = primary.broken {
        return Err(code);
    }
    let handle = primary.context.get_or_insert_with(Context::make).handle;
    give(to, pointer(handle))?;
    primary.retained += 1;
    Ok(())
}

pub fn cuDevicePrimaryCtxRelease_v2(call: &Call, device: CuDevice) -> Answer {
    device::check(device)?;
    let last = {
        let mut primary = lock(&PRIMARY);
        primary.retained = primary.retained.checked_sub(1).ok_or(INVALID_CONTEXT)?;
        primary.retained == 0
    };
    if last {
        cuDevicePrimaryCtxReset_v2(call, device)
    } else {
        Ok(())
    }
}

pub fn cuDevicePrimaryCtxGetState(_: &Call, device: CuDevice, flags: *mut u32, active: *mut i32) -> Answer {
    device::check(device)?;
    give(flags, 0)?;
    give(active, i32::from(lock(&PRIMARY).context.is_some()))
}

pub fn cuDevicePrimaryCtxReset_v2(_: &Call, device: CuDevice) -> Answer {
    device::check(device)?;
    let context = lock(&PRIMARY).context.take();
    if let Some(context) = context
        && let Err(code) = context.end()
    {
        lock(&PRIMARY).broken = Some(code);
    }
    Ok(())
}

pub fn cuCtxCreate_v2(_: &Call, to: *mut CuContext, _flags: u32, device: CuDevice) -> Answer {
    device::check(device)?;
    let context = Context::make();
    give(to, pointer(context.handle))?;
    change(|stack| stack.push(context))
}

pub fn cuCtxCreate_v4(call: &Call, to: *mut CuContext, _how: *mut c_void, flags: u32, device: CuDevice) -> Answer {
    cuCtxCreate_v2(call, to, flags, device)
}

/// Destroys a context. A program cannot destroy the primary context.
pub fn cuCtxDestroy_v2(_: &Call, context: CuContext) -> Answer {
    let context = find(context)?;
    if lock(&PRIMARY)
        .context
        .as_ref()
        .is_some_and(|p| p.handle == context.handle)
    {
        return Err(INVALID_CONTEXT);
    }
    change(|stack| {
        if stack.last().is_some_and(|top| top.handle == context.handle) {
            stack.pop();
        }
    })?;
    // Only calls that wait return the result of the submitted work.
    let _ = context.end();
    Ok(())
}

pub fn cuCtxGetCurrent(_: &Call, to: *mut CuContext) -> Answer {
    let top = change(|stack| stack.last().map(|c| c.handle))?;
    give(to, top.map_or(std::ptr::null_mut(), pointer))
}

/// Replaces the current context.
pub fn cuCtxSetCurrent(_: &Call, context: CuContext) -> Answer {
    let context = if context.is_null() { None } else { Some(find(context)?) };
    change(|stack| {
        stack.pop();
        stack.extend(context);
    })
}

pub fn cuCtxGetDevice(_: &Call, to: *mut CuDevice) -> Answer {
    current()?;
    give(to, 0)
}

pub fn cuCtxPushCurrent_v2(_: &Call, context: CuContext) -> Answer {
    let context = find(context)?;
    change(|stack| stack.push(context))
}

pub fn cuCtxPopCurrent_v2(_: &Call, to: *mut CuContext) -> Answer {
    let popped = change(Vec::pop)?.ok_or(INVALID_CONTEXT)?;
    give_if_wanted(to, pointer(popped.handle));
    Ok(())
}

pub fn cuCtxSynchronize(call: &Call) -> Answer {
    let context = call.context()?;
    refuse_any_capture(&context)?;
    context.synchronize()
}

pub fn cuCtxSetLimit(call: &Call, limit: u32, value: usize) -> Answer {
    let context = call.context()?;
    let mut limits = lock(&context.limits);
    *limits.get_mut(&limit).ok_or(NOT_SUPPORTED)? = value;
    Ok(())
}

pub fn cuCtxGetLimit(call: &Call, to: *mut usize, limit: u32) -> Answer {
    let context = call.context()?;
    let value = lock(&context.limits).get(&limit).copied();
    give(to, value.ok_or(NOT_SUPPORTED)?)
}
