//! Live recorder of panfrost programs: an `LD_PRELOAD` library that is the program's GPU and records it.
//!
//! It intercepts calls between a program and the C library. `panfrost-node` serves the render node
//! `/dev/dri/renderD128` and what libdrm reads about it in `/sys`; everything else goes on to the C library unchanged.
//! `docs/recorders.md` describes how to start a program with it.
//!
//! A failure in this library is printed on standard error. It never makes the program fail.

mod hooks;
mod paths;
mod process;
