//! Launch configurations, and the stack of them that compiled programs push before a launch, for each thread.

use crate::CallResult;
use crate::errors::MISSING_CONFIGURATION;
use crate::pointers::put;
use cuda_driver::CuStream;
use std::cell::RefCell;
use std::ffi::c_void;

thread_local! {
    static CONFIGURATIONS: RefCell<Vec<LaunchConfiguration>> = const { RefCell::new(Vec::new()) };
}

/// `dim3`: a size in three dimensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Dim3 {
    pub x: u32,
    pub y: u32,
    pub z: u32,
}

impl Dim3 {
    /// Returns the three sizes.
    #[must_use]
    pub const fn sizes(self) -> [u32; 3] {
        [self.x, self.y, self.z]
    }
}

/// Grid, block, dynamic shared memory and stream of a launch.
#[derive(Clone, Copy, Debug)]
pub struct LaunchConfiguration {
    /// Number of blocks.
    pub grid: Dim3,
    /// Number of threads of a block.
    pub block: Dim3,
    /// Size of dynamic shared memory, bytes.
    pub shared: usize,
    /// The stream.
    pub stream: CuStream,
}

/// `__cudaPushCallConfiguration`: keeps the configuration for the kernel's host function, which runs next.
pub fn push(configuration: LaunchConfiguration) -> CallResult {
    // A thread that is ending has no stack.
    let _ = CONFIGURATIONS.try_with(|all| all.borrow_mut().push(configuration));
    Ok(())
}

/// `__cudaPopCallConfiguration`.
pub fn pop(grid: *mut Dim3, block: *mut Dim3, shared: *mut usize, stream: *mut c_void) -> CallResult {
    let configuration = CONFIGURATIONS
        .try_with(|all| all.borrow_mut().pop())
        .ok()
        .flatten()
        .ok_or(MISSING_CONFIGURATION)?;
    put(grid, configuration.grid)?;
    put(block, configuration.block)?;
    put(shared, configuration.shared)?;
    put(stream.cast::<CuStream>(), configuration.stream)
}
