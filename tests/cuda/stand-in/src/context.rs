//! Contexts: the device's primary one, how many hold it, and which threads have it current.

use crate::call::Call;
use crate::codes::{CONTEXT_IS_DESTROYED, INVALID_CONTEXT, INVALID_VALUE, SUCCESS, is_sticky};
use crate::graphs::{self, Capture};
use crate::handles::pointer;
use crate::pointers::{give, give_if_wanted};
use crate::streams::{self, Order};
use crate::{Answer, code, device, lock, memory};
use cuda_driver::{CuContext, CuDevice, CuResult};
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

/// The handle of the primary context, the same in each of its lives.
const HANDLE: usize = 0x5100_ffff_0020;

/// A life of the primary context.
pub struct Context {
    /// What went wrong for good.
    hurt: AtomicU32,
    /// It ends: nothing begins any more.
    closed: AtomicBool,
    /// Streams, and what was put into them last.
    pub order: Mutex<Order>,
    /// Captures that have not ended.
    pub captures: Mutex<Vec<Arc<Capture>>>,
}

struct Primary {
    retained: u32,
    context: Option<Arc<Context>>,
    /// A life ended hurt: a real device has no next one in the same process.
    broken: Option<CuResult>,
}

static PRIMARY: Mutex<Primary> = Mutex::new(Primary { retained: 0, context: None, broken: None });

/// Held while a life begins or ends, which may take long; the other one never is for long.
static LIFE: Mutex<()> = Mutex::new(());

thread_local! {
    /// How many times the thread has the context on its stack. There is one context alone.
    static STACK: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

impl Context {
    /// Whether it is in order.
    pub fn check(&self) -> Answer {
        match self.hurt.load(Ordering::Acquire) {
            SUCCESS => Ok(()),
            code => Err(code),
        }
    }

    /// Takes note of what went wrong; the first counts.
    pub fn hurt(&self, code: CuResult) {
        let _ = self.hurt.compare_exchange(SUCCESS, code, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Whether it ends.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Waits for all that was begun, in all streams.
    pub fn wait(&self) {
        let marks = lock(&self.order).marks();
        for mark in marks {
            mark.wait();
        }
    }

    /// Waits for all that was begun, and says how it went.
    pub fn synchronize(&self) -> Answer {
        self.wait();
        self.check()
    }
}

/// The context as programs hold it.
pub fn handle() -> CuContext {
    pointer(HANDLE)
}

/// The thread's context.
pub fn current() -> Answer<Arc<Context>> {
    if top().is_none() {
        return Err(INVALID_CONTEXT);
    }
    lock(&PRIMARY).context.clone().ok_or(CONTEXT_IS_DESTROYED)
}

/// Whether there is a context, current or not.
pub fn is_alive() -> bool {
    lock(&PRIMARY).context.is_some()
}

/// As if this had gone wrong on the device.
pub fn hurt_current(code: CuResult) {
    if let Some(context) = &lock(&PRIMARY).context {
        context.hurt(code);
    }
}

fn top() -> Option<usize> {
    STACK.try_with(|stack| stack.borrow().last().copied()).unwrap_or(None)
}

fn change(change: impl FnOnce(&mut Vec<usize>)) {
    let _ = STACK.try_with(|stack| change(&mut stack.borrow_mut()));
}

/// Ends a life: waits for what was begun, and forgets all that belongs to it. Whoever asks holds [`LIFE`].
fn end() {
    let Some(context) = lock(&PRIMARY).context.take() else { return };
    context.closed.store(true, Ordering::Release);
    context.wait();
    if let Err(code) = context.check()
        && is_sticky(code)
    {
        lock(&PRIMARY).broken = Some(code);
    }
    lock(&context.captures).clear();
    graphs::forget();
    streams::forget();
    code::forget();
    memory::forget();
}

pub fn cuDevicePrimaryCtxRetain(_: &Call, to: *mut CuContext, device: CuDevice) -> Answer {
    device::check(device)?;
    let _life = lock(&LIFE);
    let mut primary = lock(&PRIMARY);
    if let Some(code) = primary.broken {
        return Err(code);
    }
    give(to, handle())?;
    primary.retained += 1;
    primary.context.get_or_insert_with(|| {
        Arc::new(Context {
            hurt: AtomicU32::new(SUCCESS),
            closed: AtomicBool::new(false),
            order: Mutex::new(Order::new()),
            captures: Mutex::new(Vec::new()),
        })
    });
    Ok(())
}

pub fn cuDevicePrimaryCtxRelease_v2(_: &Call, device: CuDevice) -> Answer {
    device::check(device)?;
    let _life = lock(&LIFE);
    let left = {
        let mut primary = lock(&PRIMARY);
        primary.retained = primary.retained.checked_sub(1).ok_or(INVALID_CONTEXT)?;
        primary.retained
    };
    if left == 0 {
        end();
    }
    Ok(())
}

pub fn cuDevicePrimaryCtxReset_v2(_: &Call, device: CuDevice) -> Answer {
    device::check(device)?;
    let _life = lock(&LIFE);
    end();
    Ok(())
}

pub fn cuCtxGetCurrent(_: &Call, to: *mut CuContext) -> Answer {
    give(to, top().map_or(std::ptr::null_mut(), pointer))
}

/// Puts a context on the place of the current one.
pub fn cuCtxSetCurrent(_: &Call, context: CuContext) -> Answer {
    if !context.is_null() && context != handle() {
        return Err(INVALID_CONTEXT);
    }
    change(|stack| {
        stack.pop();
        if !context.is_null() {
            stack.push(HANDLE);
        }
    });
    Ok(())
}

pub fn cuCtxGetDevice(_: &Call, to: *mut CuDevice) -> Answer {
    top().ok_or(INVALID_CONTEXT)?;
    give(to, 0)
}

pub fn cuCtxPushCurrent_v2(_: &Call, context: CuContext) -> Answer {
    if context.is_null() {
        return Err(INVALID_VALUE);
    }
    if context != handle() {
        return Err(INVALID_CONTEXT);
    }
    change(|stack| stack.push(HANDLE));
    Ok(())
}

pub fn cuCtxPopCurrent_v2(_: &Call, to: *mut CuContext) -> Answer {
    top().ok_or(INVALID_CONTEXT)?;
    change(|stack| {
        stack.pop();
    });
    give_if_wanted(to, handle());
    Ok(())
}

/// The primary context is not the program's to destroy, and there is no other.
pub fn cuCtxDestroy_v2(_: &Call, _context: CuContext) -> Answer {
    Err(INVALID_CONTEXT)
}

pub fn cuCtxSynchronize(call: &Call) -> Answer {
    let context = call.context()?;
    graphs::refuse_any_capture(&context)?;
    context.synchronize()
}
