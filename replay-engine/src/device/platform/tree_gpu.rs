//! GPUs in device trees: what the target for device trees asks the family of a GPU.

use crate::device::mapping::Mapping;
use std::fmt;

/// The GPUs of a family in device trees, operated through their registers. Their plans contain page tables.
pub(crate) trait TreeGpu: Sync {
    /// Returns the name of a GPU whose model is unknown.
    fn name(&self) -> &'static str;

    /// Returns whether a compatible string of a device names such a GPU.
    fn is_compatible(&self, compatible: &str) -> bool;

    /// Reads the id of the GPU, or 0 if it has no such register.
    fn read_id(&self, registers: &Mapping) -> u32;

    /// Stops all work and resets the address spaces.
    ///
    /// # Errors
    /// What the GPU did not do, in words.
    fn reset(&self, registers: &Mapping) -> Result<(), &'static str>;
}

/// The GPUs of all families in device trees.
#[derive(Clone, Copy)]
pub struct TreeGpus(pub(crate) fn(&[String]) -> Option<&'static dyn TreeGpu>);

impl TreeGpus {
    /// Returns the GPUs that one of a device's compatible strings names, or `None` if it is another device.
    pub(super) fn find(self, compatible: &[String]) -> Option<KnownGpu> {
        (self.0)(compatible).map(KnownGpu)
    }
}

impl fmt::Debug for TreeGpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TreeGpus")
    }
}

/// The GPUs that a device belongs to.
#[derive(Clone, Copy)]
pub(super) struct KnownGpu(pub &'static dyn TreeGpu);

impl fmt::Debug for KnownGpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KnownGpu({})", self.0.name())
    }
}

impl PartialEq for KnownGpu {
    fn eq(&self, other: &Self) -> bool {
        self.0.name() == other.0.name()
    }
}

impl Eq for KnownGpu {}
