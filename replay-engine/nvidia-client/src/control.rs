//! The addresses that a player takes for itself.

/// Where the player's own memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Control {
    /// First address of the window: 2 MiB aligned, below 2^40.
    pub va: u64,
}

impl Control {
    /// Number of addresses that the player takes.
    pub const BYTES: u64 = 0x0100_0000;
}
