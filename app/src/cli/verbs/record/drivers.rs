//! The drivers that `record --with` names, alone or together.

use crate::cli::Failure;
use clap::ValueEnum;

/// The kind of driver to record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum DriverKind {
    /// OpenGL ES on Mesa, on a simulated GPU
    Panfrost,
    /// CUDA, on the NVIDIA device of this machine
    Cuda,
    /// NVIDIA's kernel driver, below CUDA: requests, submissions and their commands
    Nvidia,
}

impl DriverKind {
    /// Returns the interposer library between the program and its driver, and the package that builds it.
    pub fn library(self) -> (&'static str, &'static str) {
        match self {
            Self::Panfrost => ("libkinescope_panfrost.so", "kinescope-panfrost"),
            Self::Cuda => ("libkinescope_cuda.so", "kinescope-cuda"),
            Self::Nvidia => ("libkinescope_nvidia.so", "kinescope-nvidia"),
        }
    }
}

/// The drivers to record in one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordedDrivers {
    Panfrost,
    Cuda,
    Nvidia,
    /// Calls, and the requests below them.
    CudaAndNvidia,
}

impl RecordedDrivers {
    /// Returns the drivers of a list in any order.
    ///
    /// # Errors
    /// If the drivers cannot be recorded together.
    pub fn new(kinds: &[DriverKind]) -> Result<Self, Failure> {
        let has = |kind| kinds.contains(&kind);
        match (
            has(DriverKind::Panfrost),
            has(DriverKind::Cuda),
            has(DriverKind::Nvidia),
        ) {
            (true, false, false) => Ok(Self::Panfrost),
            (false, true, false) => Ok(Self::Cuda),
            (false, false, true) => Ok(Self::Nvidia),
            (false, true, true) => Ok(Self::CudaAndNvidia),
            _ => Err(Failure::usage(
                "--with: these drivers cannot be recorded together (expected panfrost, cuda, nvidia or cuda,nvidia)",
            )),
        }
    }

    /// Returns the kinds in the order in which the loader must see their libraries: the lower one calls the next
    /// definition of the C library's functions, which the other one does not replace.
    pub fn kinds(self) -> &'static [DriverKind] {
        match self {
            Self::Panfrost => &[DriverKind::Panfrost],
            Self::Cuda => &[DriverKind::Cuda],
            Self::Nvidia => &[DriverKind::Nvidia],
            Self::CudaAndNvidia => &[DriverKind::Nvidia, DriverKind::Cuda],
        }
    }

    pub fn has_nvidia(self) -> bool {
        self.kinds().contains(&DriverKind::Nvidia)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_in_any_order() {
        use DriverKind as K;
        let drivers = |kinds: &[K]| RecordedDrivers::new(kinds).ok();
        assert_eq!(drivers(&[K::Cuda, K::Nvidia]), Some(RecordedDrivers::CudaAndNvidia));
        assert_eq!(drivers(&[K::Nvidia, K::Cuda]), Some(RecordedDrivers::CudaAndNvidia));
        assert_eq!(drivers(&[K::Nvidia, K::Nvidia]), Some(RecordedDrivers::Nvidia));
        assert_eq!(drivers(&[K::Panfrost, K::Cuda]), None);
        assert_eq!(drivers(&[]), None);
        assert!(!RecordedDrivers::Cuda.has_nvidia());
    }
}
