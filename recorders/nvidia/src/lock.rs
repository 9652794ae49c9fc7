//! The lock of the recorder: a signal handler may take it, and a thread that has it cannot wait for itself.
#![allow(unsafe_code, reason = "a lock gives out references to what it protects")]

use crate::identity::thread_id;
use crate::system::yield_thread;
use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, Ordering};

/// Number of checks of a taken lock before the thread gives up its processor.
const SPINS: u32 = 200;

/// A value and its lock.
#[derive(Debug)]
pub(crate) struct OwnedLock<T> {
    /// Id of the thread that has the lock, 0 for none.
    owner: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: only the thread that has the lock reaches the value.
unsafe impl<T: Send> Sync for OwnedLock<T> {}

/// The lock, taken.
#[derive(Debug)]
pub(crate) struct OwnedGuard<'a, T> {
    lock: &'a OwnedLock<T>,
    /// Id of the thread that has it.
    pub thread: u32,
}

impl<T> OwnedLock<T> {
    pub const fn new(value: T) -> Self {
        Self {
            owner: AtomicU32::new(0),
            value: UnsafeCell::new(value),
        }
    }

    /// Takes the lock. Returns `None` if this thread has it already: a call of the recorder itself, or a signal handler
    /// that interrupts it.
    pub fn lock(&self) -> Option<OwnedGuard<'_, T>> {
        let thread = thread_id();
        let mut spins = 0;
        while let Err(owner) = self
            .owner
            .compare_exchange_weak(0, thread, Ordering::Acquire, Ordering::Relaxed)
        {
            if owner == thread {
                return None;
            }
            spins += 1;
            if spins % SPINS == 0 {
                yield_thread();
            }
            std::hint::spin_loop();
        }
        Some(OwnedGuard { lock: self, thread })
    }

    /// Frees the lock in the child of a fork, where the thread that had it does not exist.
    ///
    /// # Safety
    /// No other thread exists, and this one does not have the lock.
    pub unsafe fn release_in_child(&self) {
        self.owner.store(0, Ordering::Release);
    }
}

impl<T> Deref for OwnedGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this thread has the lock.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for OwnedGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this thread has the lock, and the guard is borrowed for the change.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for OwnedGuard<'_, T> {
    fn drop(&mut self) {
        self.lock.owner.store(0, Ordering::Release);
    }
}
