//! State of a thread of the program: its number, its stack of current contexts, its capture mode, and whether it runs a
//! host function.

use remote_calls::HandleNumber;
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU32, Ordering};

static NEXT_THREAD: AtomicU32 = AtomicU32::new(1);

thread_local! {
    static NUMBER: Cell<u32> = const { Cell::new(0) };
    static IS_IN_HOST_FUNCTION: Cell<bool> = const { Cell::new(false) };
    static CAPTURE_MODE: Cell<u32> = const { Cell::new(0) };
    /// The stack of a thread is never freed: handlers of the process's end call the driver after destructors have run.
    static CONTEXTS: Cell<Option<&'static RefCell<Vec<HandleNumber>>>> = const { Cell::new(None) };
}

/// Returns the number of this thread, from 1. A thread that is ending is thread 0.
pub fn number() -> u32 {
    NUMBER
        .try_with(|number| {
            if number.get() == 0 {
                number.set(NEXT_THREAD.fetch_add(1, Ordering::Relaxed));
            }
            number.get()
        })
        .unwrap_or(0)
}

/// Returns whether no other thread has called the driver: nothing else waits for what the worker does next.
pub fn is_only_thread() -> bool {
    number() == 1 && NEXT_THREAD.load(Ordering::Relaxed) == 2
}

/// Calls a function with this thread's stack of contexts. Returns `None` if the thread has no variables any more.
fn with_contexts<T>(work: impl FnOnce(&mut Vec<HandleNumber>) -> T) -> Option<T> {
    let stack = CONTEXTS.try_with(|contexts| match contexts.get() {
        Some(stack) => stack,
        None => {
            let stack: &'static RefCell<_> = Box::leak(Box::default());
            contexts.set(Some(stack));
            stack
        }
    });
    stack.ok().map(|stack| work(&mut stack.borrow_mut()))
}

/// Returns this thread's current context, or the null handle.
pub fn current_context() -> HandleNumber {
    with_contexts(|contexts| contexts.last().copied())
        .flatten()
        .unwrap_or_default()
}

/// Replaces this thread's current context. The null handle removes it.
pub fn set_current_context(context: HandleNumber) {
    with_contexts(|contexts| {
        contexts.pop();
        if context != HandleNumber::NULL {
            contexts.push(context);
        }
    });
}

/// Makes a context this thread's current one, above the one before.
pub fn push_context(context: HandleNumber) {
    with_contexts(|contexts| contexts.push(context));
}

/// Removes this thread's current context and returns it.
pub fn pop_context() -> Option<HandleNumber> {
    with_contexts(Vec::pop).flatten()
}

/// Returns whether this thread runs a host function, which may not call the driver.
pub fn is_in_host_function() -> bool {
    IS_IN_HOST_FUNCTION.try_with(Cell::get).unwrap_or(false)
}

/// Notes that this thread runs a host function, or no longer does.
pub fn set_in_host_function(is_inside: bool) {
    let _ = IS_IN_HOST_FUNCTION.try_with(|inside| inside.set(is_inside));
}

/// Changes this thread's capture mode, and returns the one before. It has no effect: captures here forbid nothing.
pub fn exchange_capture_mode(mode: u32) -> u32 {
    CAPTURE_MODE.try_with(|current| current.replace(mode)).unwrap_or(0)
}
