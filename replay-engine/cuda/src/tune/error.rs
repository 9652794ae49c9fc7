//! Reasons why a tuning request is not possible.

/// The error in a tuning request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TuneError {
    /// The value lists give too many points.
    #[error(
        "the lists of values make {points} points, and at most {max} are measured; give fewer values, or search at \
         random"
    )]
    TooMany {
        /// Number of points, or `u64::MAX` if it overflows.
        points: u64,
        /// [`super::MAX_POINTS`].
        max: u64,
    },
    /// The value lists give no point that a device can launch.
    #[error(
        "none of the points can be launched on any device: a block has 1 to 1024 threads, a grid at least one block"
    )]
    None,
    /// A value that is not possible.
    #[error("{what} {value} is not possible: {why}")]
    Value {
        /// The parameter.
        what: &'static str,
        /// The value.
        value: u64,
        /// The allowed values.
        why: &'static str,
    },
}
