//! The live recorder of panfrost programs: a library for `LD_PRELOAD` that is the program's GPU and records it.
//!
//! It stands between a program and the C library: the render node `/dev/dri/renderD128` and what libdrm reads of it in
//! `/sys` are answered here, by `panfrost-node`; everything else goes on to the C library as it came. `docs/recorders.md`
//! tells how a program is started with it.
//!
//! Whatever goes wrong in here is said on standard error, and is never the reason why a program fails.

mod hooks;
mod paths;
mod process;
