//! The panels at the sides of the window, which show parts of all other groups.

pub mod inspector;
pub mod outline;
