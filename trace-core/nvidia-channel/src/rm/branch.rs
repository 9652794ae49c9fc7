//! Branches of the driver: sizes and fields of some arguments differ between them.

use std::fmt;

/// A branch of the driver whose arguments are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DriverBranch {
    /// Versions 570.x.
    R570,
    /// Versions 580.x.
    R580,
    /// Versions 595.x.
    R595,
}

impl DriverBranch {
    /// All known branches, from the oldest to the newest.
    pub const ALL: [Self; 3] = [Self::R570, Self::R580, Self::R595];

    /// Returns the branch of a version such as `580.159.04`, or `None` for a branch that is not known.
    #[must_use]
    pub fn from_version(version: &str) -> Option<Self> {
        let number = version.split('.').next()?.parse().ok()?;
        Self::ALL.into_iter().find(|b| b.number() == number)
    }

    /// Returns the first part of the versions.
    #[must_use]
    pub fn number(self) -> u16 {
        match self {
            Self::R570 => 570,
            Self::R580 => 580,
            Self::R595 => 595,
        }
    }
}

impl fmt::Display for DriverBranch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.number())
    }
}
