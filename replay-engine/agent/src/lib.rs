//! Agent program that owns devices on a target machine and serves them.
