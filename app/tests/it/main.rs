//! The integration tests of this crate, in one program: it links once.

mod bus;
mod common;
mod journals;
mod keys;
mod naming;
mod own_maps;
mod panels;
mod replay;
mod sheets;
mod timeline;
mod window;
mod workspace;
