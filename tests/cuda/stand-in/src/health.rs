//! The health of a context: its sticky error.

use crate::Answer;
use crate::codes::{SUCCESS, is_sticky};
use cuda_driver::CuResult;
use std::sync::atomic::{AtomicU32, Ordering};

/// Whether a context has failed.
pub struct Health {
    hurt: AtomicU32,
}

impl Health {
    pub fn new() -> Self {
        Self {
            hurt: AtomicU32::new(SUCCESS),
        }
    }

    /// Checks that the context has no error.
    pub fn check(&self) -> Answer {
        match self.hurt.load(Ordering::Acquire) {
            SUCCESS => Ok(()),
            code => Err(code),
        }
    }

    /// Stores a sticky error; the first one is kept.
    pub fn hurt(&self, code: CuResult) {
        if is_sticky(code) {
            let _ = self
                .hurt
                .compare_exchange(SUCCESS, code, Ordering::AcqRel, Ordering::Acquire);
        }
    }
}
