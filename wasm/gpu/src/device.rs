//! What the scheduler needs of a device: memory, copies of rows, launches. A GPU and the interpreter implement it.

use std::time::Duration;
use wasm_ptx::LaunchBlock;

/// Address in the memory of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceAddress(pub u64);

impl DeviceAddress {
    /// Returns the address `bytes` behind this one.
    ///
    /// # Errors
    /// When the sum does not fit in 64 bits.
    pub fn offset(self, bytes: u64) -> Result<Self, DeviceError> {
        let sum = self.0.checked_add(bytes);
        sum.map(Self)
            .ok_or_else(|| DeviceError::Range(format!("address {:#x} + {bytes:#x}", self.0)))
    }
}

/// Number of a queue: work of different queues may overlap, work of one queue runs in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueId(pub usize);

/// Ranges of the same length at equal distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    /// Start of the first row.
    pub start: DeviceAddress,
    /// Distance between the starts of two rows in bytes.
    pub pitch: u64,
    /// Length of a row in bytes.
    pub width: u64,
    /// Number of rows.
    pub count: u64,
}

impl Rows {
    /// Returns one row of `width` bytes.
    #[must_use]
    pub fn single(start: DeviceAddress, width: u64) -> Self {
        Self {
            start,
            pitch: width,
            width,
            count: 1,
        }
    }

    /// Returns the number of bytes of all rows.
    ///
    /// # Errors
    /// When the number does not fit in the address space.
    pub fn bytes(&self) -> Result<usize, DeviceError> {
        let bytes = self.width.checked_mul(self.count).and_then(|b| usize::try_from(b).ok());
        bytes.ok_or_else(|| DeviceError::Range(format!("{} rows of {} bytes", self.count, self.width)))
    }
}

/// Failure of a device. It ends the run.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// A range is outside the memory or the address space.
    #[error("a range is outside the device's memory: {0}")]
    Range(String),
    /// The text of the program cannot be compiled.
    #[error("the translated program does not compile: {0}")]
    Compile(String),
    /// The device has too little memory.
    #[error("{0}")]
    Memory(String),
    /// A launch failed. The device may be unusable.
    #[error("the launch failed: {0}")]
    Launch(String),
    /// The driver refused a call.
    #[error("{0}")]
    Driver(String),
}

/// What the compilation of a program took and gave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompiledProgram {
    /// Time of the compilation, or of loading from the cache, without [`CompiledProgram::stack_time`].
    pub time: Duration,
    /// Time to reserve the stack of all threads.
    pub stack_time: Duration,
    /// The machine code comes from the cache.
    pub cached: bool,
    /// Registers of a thread; 0 if the device has none.
    pub registers: u32,
    /// Bytes of stack of a thread; 0 if the device has none.
    pub stack_bytes: u64,
    /// Maximum number of nested calls: the limit of the run, or what the stack of all threads allows.
    pub depth_limit: u32,
}

/// A device that runs one translated program.
///
/// Addresses of [`Device::allocate`] are multiples of 512. Allocations that are not released live as long as the device.
pub trait Device {
    /// Compiles and loads the program. The other methods need it.
    ///
    /// `depth_limit` is the maximum number of nested calls of a recursive program.
    ///
    /// # Errors
    /// When the text does not compile, or its stack does not fit.
    fn load(&mut self, program: &wasm_ptx::Program, depth_limit: u32) -> Result<CompiledProgram, DeviceError>;

    /// Reserves stack for more nested calls, and returns their maximum number: `depth_limit`, or what fits.
    ///
    /// The number is never below the one before: a device that has no room for more keeps its stack. No launch runs.
    ///
    /// # Errors
    /// When the device fails.
    fn deepen(&mut self, depth_limit: u32) -> Result<u32, DeviceError>;

    /// Returns the number of bytes that can be allocated, with a margin for the driver.
    ///
    /// # Errors
    /// When the device fails.
    fn free_bytes(&mut self) -> Result<u64, DeviceError>;

    /// Returns the steps of the first slice: few launches for most programs, and none that lasts for seconds.
    fn first_slice(&self) -> u32 {
        1 << 16
    }

    /// Returns the maximum number of copies that the device can run at the same time in a useful way.
    fn max_copies(&self) -> u32;

    /// Allocates memory with undefined contents.
    ///
    /// # Errors
    /// When there is too little memory.
    fn allocate(&mut self, bytes: u64) -> Result<DeviceAddress, DeviceError>;

    /// Frees memory of [`Device::allocate`].
    ///
    /// # Errors
    /// When the device fails.
    fn release(&mut self, at: DeviceAddress) -> Result<(), DeviceError>;

    /// Copies rows, packed one after the other in `from`, to the device.
    ///
    /// # Errors
    /// When the rows are outside the memory, or the device fails.
    fn write_rows(&mut self, queue: QueueId, rows: Rows, from: &[u8]) -> Result<(), DeviceError>;

    /// Copies rows of the device to `to`, packed one after the other.
    ///
    /// # Errors
    /// When the rows are outside the memory, or the device fails.
    fn read_rows(&mut self, queue: QueueId, rows: Rows, to: &mut [u8]) -> Result<(), DeviceError>;

    /// Copies parts to the device. `fill` writes the packed rows of the part with a number; several threads call it.
    ///
    /// The copies are complete before a later launch of the queue starts.
    ///
    /// # Errors
    /// When the rows are outside the memory, or the device fails.
    fn write_parts(
        &mut self,
        queue: QueueId,
        parts: &[Rows],
        fill: &(dyn Fn(usize, &mut [u8]) + Sync),
    ) -> Result<(), DeviceError> {
        for (number, rows) in parts.iter().enumerate() {
            let mut bytes = vec![0; rows.bytes()?];
            fill(number, &mut bytes);
            self.write_rows(queue, *rows, &bytes)?;
        }
        Ok(())
    }

    /// Copies parts from the device. `take` gets the packed rows of the part with a number; several threads call it.
    ///
    /// # Errors
    /// When the rows are outside the memory, or the device fails.
    fn read_parts(
        &mut self,
        queue: QueueId,
        parts: &[Rows],
        take: &(dyn Fn(usize, &[u8]) + Sync),
    ) -> Result<(), DeviceError> {
        for (number, rows) in parts.iter().enumerate() {
            let mut bytes = vec![0; rows.bytes()?];
            self.read_rows(queue, *rows, &mut bytes)?;
            take(number, &bytes);
        }
        Ok(())
    }

    /// Writes the launch block at `at`, and starts a launch.
    ///
    /// # Errors
    /// When the launch cannot start.
    fn launch(&mut self, queue: QueueId, at: DeviceAddress, block: &LaunchBlock) -> Result<(), DeviceError>;

    /// Returns the running time of the last launch of a queue, or `None` while it runs.
    ///
    /// # Errors
    /// When the launch failed.
    fn poll(&mut self, queue: QueueId) -> Result<Option<Duration>, DeviceError>;

    /// Copies one range to the device.
    ///
    /// # Errors
    /// As [`Device::write_rows`].
    fn write(&mut self, queue: QueueId, at: DeviceAddress, from: &[u8]) -> Result<(), DeviceError> {
        if from.is_empty() {
            return Ok(());
        }
        self.write_rows(queue, Rows::single(at, from.len() as u64), from)
    }
}
