//! The integration tests of this crate, in one program: it links once.

mod hostile;
mod mesa;
mod pack;
