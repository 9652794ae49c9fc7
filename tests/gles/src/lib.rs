//! GLES 3.1 compute programs that check themselves: ten of general kinds, and the network of the sample that reads
//! digits. They run on any GLES driver; with the live recorder in front of Mesa's Mali driver they make recordings.

pub mod compare;
pub mod digits;
pub mod files;
pub mod gpu;
pub mod measure;
pub mod programs;
pub mod scenes;
pub mod session;
pub mod work;
