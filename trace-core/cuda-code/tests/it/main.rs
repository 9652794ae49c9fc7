//! The integration tests of this crate, in one program: it links once.

mod common;
mod cuobjdump;
mod driver;
mod fatbin;
mod hostile;
mod image;
mod ptx;
