//! Interface between the executor and a device: reads, writes, interrupt waits and time, per space.

/// Why a device refused or failed an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceError {
    /// No such space.
    NoSpace,
    /// The offset or width does not fit the space.
    OutOfRange,
    /// The access is not aligned to its width.
    Misaligned,
    /// The device, or the connection to it, is gone.
    Gone,
    /// The device has no page images to copy from.
    NoImages,
    /// The device cannot check effects, or cannot check this one.
    NoEffects,
}

/// Number of the space that is the plan's own memory.
pub const MEMORY: u8 = 1;

/// How a wait for an interrupt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitResult {
    /// A line in the mask is raised. `lines` has a bit for every raised line.
    Raised {
        /// Bit `n`: line `n` is raised.
        lines: u32,
    },
    /// The limit passed with no line in the mask raised.
    TimedOut,
}

/// A device that executes actions. It never sees an expected value, so it cannot echo a recording.
///
/// In a simulator, time is virtual: pending work completes only inside [`Device::wait_interrupt`] and
/// [`Device::pause`], so that the same actions give the same results bit for bit.
pub trait Device {
    /// Reads `width` (1, 2, 4 or 8) bytes at `offset` of `space`, zero-extended.
    ///
    /// # Errors
    /// When the device does not have this space, offset or width.
    fn read(&mut self, space: u8, offset: u64, width: u8) -> Result<u64, DeviceError>;

    /// Writes the low `width` (1, 2, 4 or 8) bytes of `value` at `offset` of `space`.
    ///
    /// # Errors
    /// When the device does not have this space, offset or width.
    fn write(&mut self, space: u8, offset: u64, width: u8, value: u64) -> Result<(), DeviceError>;

    /// Waits until one of `lines` (bit `n`: line `n`) is raised, for at most `limit_ns`.
    ///
    /// # Errors
    /// When the device is gone.
    fn wait_interrupt(&mut self, lines: u32, limit_ns: u64) -> Result<WaitResult, DeviceError>;

    /// Waits for `ns`: between two reads of a poll, and to reproduce a recorded gap.
    ///
    /// # Errors
    /// When the device is gone.
    fn pause(&mut self, ns: u64) -> Result<(), DeviceError>;

    /// Writes the low `width` (1, 2, 4 or 8) bytes of `value` at `offset` of the plan's memory, as the CPU did.
    ///
    /// # Errors
    /// When the offset or the width does not fit the memory.
    fn put(&mut self, offset: u64, width: u8, value: u64) -> Result<(), DeviceError> {
        self.write(MEMORY, offset, width, value)
    }

    /// Copies `bytes` bytes of the plan's page image number `image` to `offset` of the plan's memory, as the CPU did.
    /// The bytes have the same offset in the image as in their destination page. The runner of the plan holds the
    /// images.
    ///
    /// # Errors
    /// When there are no images, as on a bare device, or when the image or the memory does not contain the range.
    fn copy(&mut self, offset: u64, bytes: u32, image: u32) -> Result<(), DeviceError> {
        let _ = (offset, bytes, image);
        Err(DeviceError::NoImages)
    }

    /// Checks one of the plan's expected effects and keeps the observed result. The runner of the plan holds the
    /// expectations.
    ///
    /// # Errors
    /// When the device has no expectations, as a bare device, or not this one.
    fn check(&mut self, expectation: u32) -> Result<(), DeviceError> {
        let _ = expectation;
        Err(DeviceError::NoEffects)
    }

    /// Returns the device's clock in nanoseconds. Only differences are meaningful.
    fn now_ns(&mut self) -> u64;
}
