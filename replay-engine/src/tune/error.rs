//! Why a launch cannot be tuned as it is asked for.

/// What is wrong with what was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TuneError {
    /// The lists of values make too many points.
    #[error(
        "the lists of values make {points} points, and at most {most} are looked at; give fewer values, or search at random"
    )]
    TooMany {
        /// How many they make; `u64::MAX` for more than can be counted.
        points: u64,
        /// [`super::MAX_POINTS`].
        most: u64,
    },
    /// The lists of values make no point that a device launches.
    #[error(
        "none of the points can be launched on any device: a block has 1 to 1024 threads, a grid at least one block"
    )]
    None,
    /// A value that cannot be.
    #[error("{what} {value} cannot be: {why}")]
    Value {
        /// What it is a value of.
        what: &'static str,
        /// The value.
        value: u64,
        /// What can be.
        why: &'static str,
    },
}
