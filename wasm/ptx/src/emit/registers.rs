//! Registers with a fixed meaning, and statuses of functions.

/// Status of a function whose copy suspends: callers save their live values.
pub(crate) const SUSPENDED: i32 = -1;
/// Status of a function whose copy has trapped or exited: callers return at once.
pub(crate) const DEAD: i32 = -2;

/// Register of 32 bits that holds the fuel of the slice, or a status.
pub(crate) const FUEL: u32 = 0;
/// Register of 32 bits that holds the calls left to the depth limit.
pub(crate) const DEPTH: u32 = 1;
/// Register of 32 bits that holds offset and kind of a trap.
pub(crate) const TRAP: u32 = 2;
/// Register of 32 bits of resumable functions: the number of the stop to go on from plus 1, or 0. It is the register
/// of traps: a function that traps does not go on.
pub(crate) const RESUME: u32 = TRAP;
/// Register of 64 bits with the address of the copy's control words.
pub(crate) const CONTROL: u32 = 0;
/// Register of 64 bits with the address of a frame of the continuation stack.
pub(crate) const FRAME: u32 = 1;
