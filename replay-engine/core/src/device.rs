//! What the executor needs of a device: read, write, wait for an interrupt, time, over a space.

/// Why a device refused or failed an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceError {
    /// No such space.
    NoSpace,
    /// The offset or width does not fit the space.
    OutOfRange,
    /// The access is not aligned to its width.
    Misaligned,
    /// The device or the way to it is gone.
    Gone,
    /// It has no page images to take bytes from.
    NoImages,
    /// It cannot look at effects, or not at this one.
    NoEffects,
}

/// The space that is the plan's own memory.
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

/// Anything that takes actions. It never sees an expected value, so it cannot echo a recording.
///
/// In a software device time is virtual: pending work completes only inside [`Device::wait_interrupt`] and
/// [`Device::pause`], so that the same actions give the same results bit for bit.
pub trait Device {
    /// Reads `width` (1, 2, 4 or 8) bytes at `offset` of `space`, zero-extended.
    ///
    /// # Errors
    /// When the space, the offset or the width is not the device's.
    fn read(&mut self, space: u8, offset: u64, width: u8) -> Result<u64, DeviceError>;

    /// Writes the low `width` (1, 2, 4 or 8) bytes of `value` at `offset` of `space`.
    ///
    /// # Errors
    /// When the space, the offset or the width is not the device's.
    fn write(&mut self, space: u8, offset: u64, width: u8, value: u64) -> Result<(), DeviceError>;

    /// Waits until one of `lines` (bit `n`: line `n`) is raised, at most `limit_ns`.
    ///
    /// # Errors
    /// When the device is gone.
    fn wait_interrupt(&mut self, lines: u32, limit_ns: u64) -> Result<WaitResult, DeviceError>;

    /// Lets `ns` pass: between two reads of a poll, and where a recorded gap is kept.
    ///
    /// # Errors
    /// When the device is gone.
    fn pause(&mut self, ns: u64) -> Result<(), DeviceError>;

    /// Puts the low `width` (1, 2, 4 or 8) bytes of `value` at `offset` of the plan's memory, as the CPU did.
    ///
    /// # Errors
    /// When the offset or the width does not fit the memory.
    fn put(&mut self, offset: u64, width: u8, value: u64) -> Result<(), DeviceError> {
        self.write(MEMORY, offset, width, value)
    }

    /// Puts `bytes` bytes of the plan's page image number `image` at `offset` of the plan's memory, as the CPU did;
    /// they stand in the image where they go in their page. Whoever runs the plan has its images.
    ///
    /// # Errors
    /// When there are no images, as with a bare device, or they or the memory do not have the bytes.
    fn copy(&mut self, offset: u64, bytes: u32, image: u32) -> Result<(), DeviceError> {
        let _ = (offset, bytes, image);
        Err(DeviceError::NoImages)
    }

    /// Looks at one of the plan's expected effects, and keeps what it saw. Whoever runs the plan has its expectations.
    ///
    /// # Errors
    /// When there are none, as with a bare device, or not this one.
    fn check(&mut self, expectation: u32) -> Result<(), DeviceError> {
        let _ = expectation;
        Err(DeviceError::NoEffects)
    }

    /// Nanoseconds on the device's clock; only differences mean something.
    fn now_ns(&mut self) -> u64;
}
