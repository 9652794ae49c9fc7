//! The integration tests of this crate, in one program: it links once.

mod naming;
mod own;
mod own_limits;
mod readers;
