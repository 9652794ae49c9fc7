//! The kernel drivers whose trace events are read: their names, their GPUs, and their rings.

/// Vendor ids.
const INTEL: u16 = 0x8086;
const AMD: u16 = 0x1002;

/// A driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Driver {
    I915,
    Xe,
    Amdgpu,
    V3d,
    Vc4,
    Msm,
    Panthor,
    Panfrost,
    Lima,
    /// The scheduler of an unknown driver.
    Scheduler,
}

impl Driver {
    /// Returns the name of the driver, or an empty text.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::I915 => "i915",
            Self::Xe => "xe",
            Self::Amdgpu => "amdgpu",
            Self::V3d => "v3d",
            Self::Vc4 => "vc4",
            Self::Msm => "msm",
            Self::Panthor => "panthor",
            Self::Panfrost => "panfrost",
            Self::Lima => "lima",
            Self::Scheduler => "",
        }
    }

    /// Returns the name of its GPUs, or an empty text.
    pub(super) fn gpu(self) -> &'static str {
        match self {
            Self::I915 | Self::Xe => "Intel GPU",
            Self::Amdgpu => "AMD GPU",
            Self::V3d => "Broadcom V3D",
            Self::Vc4 => "Broadcom VideoCore IV",
            Self::Msm => "Qualcomm Adreno",
            Self::Panthor => "Arm Mali (command stream front end)",
            Self::Panfrost | Self::Lima => "Arm Mali",
            Self::Scheduler => "",
        }
    }

    /// Returns the PCI vendor of its GPUs, or 0.
    pub(super) fn vendor(self) -> u16 {
        match self {
            Self::I915 | Self::Xe => INTEL,
            Self::Amdgpu => AMD,
            _ => 0,
        }
    }

    /// Returns the driver whose rings the scheduler calls so.
    pub(super) fn of_ring(ring: &str) -> Self {
        let starts = |names: &[&str]| names.iter().any(|n| ring.starts_with(n));
        if starts(&["v3d_"]) {
            Self::V3d
        } else if starts(&["pan_js", "panfrost"]) {
            Self::Panfrost
        } else if starts(&["panthor"]) {
            Self::Panthor
        } else if starts(&["gpu-ring-"]) {
            Self::Msm
        } else if starts(&["gfx", "comp_", "sdma", "vcn", "uvd", "vce", "jpeg"]) {
            Self::Amdgpu
        } else if starts(&["rcs", "bcs", "ccs", "vcs", "vecs"]) {
            Self::Xe
        } else if starts(&["lima"]) {
            Self::Lima
        } else {
            Self::Scheduler
        }
    }
}
