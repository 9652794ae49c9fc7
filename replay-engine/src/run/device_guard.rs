//! A device during a run: whatever ends the run, the device stops bus mastering and is reset.

use crate::device::{RegisterTarget, ReplayDeviceError};

/// A device that is brought to a known state when the guard is dropped, unless the run ended well.
pub(super) struct DeviceGuard<'d> {
    device: &'d mut dyn RegisterTarget,
    masters: bool,
    armed: bool,
}

impl<'d> DeviceGuard<'d> {
    /// Guards a device from now on.
    pub fn new(device: &'d mut dyn RegisterTarget) -> Self {
        Self {
            device,
            masters: false,
            armed: true,
        }
    }

    /// Returns the device.
    pub fn device(&mut self) -> &mut dyn RegisterTarget {
        &mut *self.device
    }

    /// Enables bus mastering, until [`Self::stop_mastering`] or the end of the guard.
    ///
    /// # Errors
    /// If the device failed. Bus mastering may be enabled even then.
    pub fn start_mastering(&mut self) -> Result<(), ReplayDeviceError> {
        self.masters = true;
        self.device.set_bus_mastering(true)
    }

    /// Disables bus mastering, if it was enabled.
    ///
    /// # Errors
    /// If the device failed.
    pub fn stop_mastering(&mut self) -> Result<(), ReplayDeviceError> {
        match std::mem::take(&mut self.masters) {
            true => self.device.set_bus_mastering(false),
            false => Ok(()),
        }
    }

    /// Ends the guard of a run that ended well: the device keeps its state.
    pub fn keep(mut self) {
        self.armed = false;
    }

    /// Ends the guard with a reset of the device.
    ///
    /// # Errors
    /// If the device failed.
    pub fn reset(mut self) -> Result<(), ReplayDeviceError> {
        self.armed = false;
        self.device.reset()
    }
}

impl Drop for DeviceGuard<'_> {
    fn drop(&mut self) {
        // A device that panicked is created again. A second panic here would end the program.
        if !self.armed || std::thread::panicking() {
            return;
        }
        // A known state after a partial failure. If this fails too, nothing else can be tried.
        let _ = self.stop_mastering();
        let _ = self.device.reset();
    }
}
