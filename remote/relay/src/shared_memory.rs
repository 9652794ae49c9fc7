//! The memory that an end shares with its neighbour, the program or the worker: staging area and window.

use crate::error::RelayError;
use crate::record::Area;
use remote_ring::{HostWindow, Region};
use std::sync::Arc;

/// Staging area and window.
#[derive(Debug)]
pub struct SharedMemory {
    /// The region with the staging area.
    pub region: Arc<Region>,
    /// The window.
    pub window: HostWindow,
}

impl SharedMemory {
    /// Fills `bytes` from an area.
    ///
    /// # Errors
    /// If the range reaches past the end, or the operating system refuses.
    pub fn read(&self, area: Area, offset: u64, bytes: &mut [u8]) -> Result<(), RelayError> {
        match area {
            Area::Staging => self.region.copy_from_staging(offset, bytes)?,
            Area::Window => self.window.read(offset, bytes)?,
        }
        Ok(())
    }

    /// Writes `bytes` into an area.
    ///
    /// # Errors
    /// If the range reaches past the end, or there is not enough memory.
    pub fn write(&self, area: Area, offset: u64, bytes: &[u8]) -> Result<(), RelayError> {
        match area {
            Area::Staging => self.region.copy_to_staging(offset, bytes)?,
            Area::Window => self.window.write(offset, bytes)?,
        }
        Ok(())
    }

    /// Checks that a range is in an area.
    ///
    /// # Errors
    /// If it reaches past the end.
    pub fn check(&self, area: Area, offset: u64, bytes: u64) -> Result<(), RelayError> {
        match area {
            Area::Staging => self.region.staging_pointer(offset, bytes).map(drop)?,
            Area::Window => self.window.file().check(offset, bytes)?,
        }
        Ok(())
    }
}
