//! The targets of WebAssembly programs, and who uses them.

use super::slot::Hold;
use crate::wasm::WasmRunner;
use crate::wire::wasm_message::WasmRefusal;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The users of the targets that are no devices: name of the client, and the start of its run.
type Holders = Arc<Mutex<BTreeMap<String, (String, Instant)>>>;

/// What runs programs, and who uses its targets.
#[derive(Debug)]
pub(crate) struct WasmService {
    /// What runs programs.
    pub runner: Arc<dyn WasmRunner>,
    holders: Holders,
}

fn lock(holders: &Holders) -> MutexGuard<'_, BTreeMap<String, (String, Instant)>> {
    holders.lock().unwrap_or_else(PoisonError::into_inner)
}

impl WasmService {
    /// Creates the service of a runner.
    pub fn new(runner: Arc<dyn WasmRunner>) -> Self {
        Self {
            runner,
            holders: Holders::default(),
        }
    }

    /// Returns whether a target that is no device has a user.
    pub fn is_busy(&self) -> bool {
        !lock(&self.holders).is_empty()
    }

    /// Leases a target that is no device.
    pub(super) fn take(&self, target: &str, holder: &str) -> Result<TargetLease, WasmRefusal> {
        let mut holders = lock(&self.holders);
        if let Some((holder, since)) = holders.get(target) {
            return Err(WasmRefusal::Busy {
                holder: holder.clone(),
                since_s: since.elapsed().as_secs(),
            });
        }
        holders.insert(target.to_owned(), (holder.to_owned(), Instant::now()));
        Ok(TargetLease::Named {
            holders: Arc::clone(&self.holders),
            target: target.to_owned(),
        })
    }
}

/// A leased target. Dropping it releases the target.
pub(super) enum TargetLease {
    /// A device of the server.
    Device {
        /// Its lease.
        _hold: Hold,
    },
    /// A target that is no device.
    Named {
        /// The users of all such targets.
        holders: Holders,
        /// Name of the target.
        target: String,
    },
}

impl Drop for TargetLease {
    fn drop(&mut self) {
        if let Self::Named { holders, target } = self {
            lock(holders).remove(target);
        }
    }
}
