//! The program that owns devices on a board and serves them.
