//! Device core dumps of Linux GPU drivers: one importer for each driver whose form is public, and their common parts.
//!
//! A dump is the state of a GPU after it hung: registers, rings, buffers, and what the driver knows about the hang. The
//! registers become reads, the rings and buffers become memory at their GPU addresses, and commands that were not done
//! become jobs. Each line or record of a dump is used, or a finding counts it.

pub mod amdgpu;
mod ascii85;
mod dump_contents;
mod dump_lines;
mod dumped_memory;
pub mod etnaviv;
pub mod i915;
pub mod msm;
pub mod panthor;
mod stream_events;
#[cfg(test)]
mod test_dumps;
pub mod xe;

/// Number of first bytes of a file in which its heading is searched: other lines may come before it.
const HEAD_BYTES: usize = 1 << 16;
