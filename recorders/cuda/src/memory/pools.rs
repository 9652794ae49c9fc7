//! Memory pools: which of them give plain device memory, so that the window can serve instead.

use crate::contexts::current_context_and_device;
use crate::driver::driver;
use cuda_driver::{CuDevice, CuMemPool};
use std::collections::BTreeSet;

/// Known pools.
#[derive(Debug, Default)]
pub(crate) struct Pools {
    /// Pools of plain device memory that is not shared with anyone.
    plain: BTreeSet<(usize, CuDevice)>,
    /// Devices whose `cuMemAllocAsync` takes from a pool that is not known to be plain.
    others: BTreeSet<CuDevice>,
}

impl Pools {
    /// Returns whether a pool gives plain memory of a device. A device's default pool does.
    fn is_plain(&mut self, pool: CuMemPool, device: CuDevice) -> bool {
        let key = (pool as usize, device);
        if self.plain.contains(&key) {
            return true;
        }
        let mut default: CuMemPool = std::ptr::null_mut();
        // SAFETY: the query has a valid pointer for the answer.
        let asked = unsafe { driver().cuDeviceGetDefaultMemPool(&raw mut default, device) };
        let is_default = asked.is_ok() && default == pool && !pool.is_null();
        if is_default {
            self.plain.insert(key);
        }
        is_default
    }

    /// Returns whether the window can serve instead of a pool, for the calling thread's device; `None` for the device's
    /// own pool.
    pub fn can_serve(&mut self, pool: Option<CuMemPool>) -> bool {
        let Some((_, device)) = current_context_and_device() else {
            return true;
        };
        match pool {
            Some(pool) => self.is_plain(pool, device),
            None => !self.others.contains(&device),
        }
    }

    /// Adds a new pool; `plain` for one of a device's plain memory, which is not shared. Its handle can be a reused one.
    pub fn add(&mut self, pool: CuMemPool, plain: Option<CuDevice>) {
        self.plain.retain(|(known, _)| *known != pool as usize);
        if let Some(device) = plain {
            self.plain.insert((pool as usize, device));
        }
    }

    /// Makes a pool the one of a device's `cuMemAllocAsync`.
    pub fn set_current(&mut self, device: CuDevice, pool: CuMemPool) {
        if self.is_plain(pool, device) {
            self.others.remove(&device);
        } else {
            self.others.insert(device);
        }
    }
}
