//! Branches of the driver, and the sizes that differ between them. The driver refuses an argument of another size.

use core::fmt;

/// A branch of the driver whose arguments are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DriverBranch {
    /// Versions 570.x. Sizes from its headers; not run on a machine.
    R570,
    /// Versions 580.x. Proven on an H100.
    R580,
    /// Versions 595.x. Sizes from its headers; not run on a machine.
    R595,
}

impl DriverBranch {
    /// All branches, ascending.
    pub const ALL: [Self; 3] = [Self::R570, Self::R580, Self::R595];

    /// Returns the first part of the branch's versions.
    #[must_use]
    pub fn number(self) -> u16 {
        match self {
            Self::R570 => 570,
            Self::R580 => 580,
            Self::R595 => 595,
        }
    }

    /// Returns the branch of a version such as `580.159.04`, or `None` if it is unknown.
    #[must_use]
    pub fn from_version(version: &str) -> Option<Self> {
        let number: u16 = version.split('.').next()?.parse().ok()?;
        Self::ALL.into_iter().find(|b| b.number() == number)
    }

    /// Returns the branch that the text of `/proc/driver/nvidia/version` names, or `None` if it is unknown.
    #[must_use]
    pub fn from_version_file(text: &str) -> Option<Self> {
        find_module_version(text).and_then(Self::from_version)
    }

    /// Returns the bytes of the argument of RM_MAP_MEMORY_DMA, and the offsets of its address and status.
    pub(crate) fn map_dma(self) -> (usize, usize, usize) {
        match self {
            Self::R570 => (56, 40, 48),
            Self::R580 | Self::R595 => (64, 48, 56),
        }
    }

    /// Returns the bytes of the parameters of an address space.
    pub(crate) fn address_space_bytes(self) -> usize {
        match self {
            Self::R570 => 48,
            Self::R580 | Self::R595 => 56,
        }
    }

    /// Returns the bytes of the parameters that schedule a channel group.
    pub(crate) fn schedule_bytes(self) -> usize {
        match self {
            Self::R570 => 2,
            Self::R580 | Self::R595 => 3,
        }
    }

    /// Returns the maximum number of classes in the list of classes.
    pub(crate) fn class_list_entries(self) -> usize {
        match self {
            Self::R570 => 100,
            Self::R580 | Self::R595 => 200,
        }
    }

    /// Returns the bytes of the parameters that ask for the GPU's name.
    pub(crate) fn name_bytes(self) -> usize {
        match self {
            Self::R570 | Self::R580 => 132,
            Self::R595 => 68,
        }
    }
}

impl fmt::Display for DriverBranch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.number())
    }
}

/// Returns the version of the driver in the text of `/proc/driver/nvidia/version`, or `None` if it has none: `580.159.04`.
/// The version is the first word of digits and points in the line of the kernel module.
#[must_use]
pub fn find_module_version(text: &str) -> Option<&str> {
    let line = text.lines().find(|line| line.contains("NVRM version"))?;
    let is_version = |word: &&str| {
        let mut parts = word.split('.');
        let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        word.contains('.') && parts.all(is_number)
    };
    line.split_ascii_whitespace().find(is_version)
}
