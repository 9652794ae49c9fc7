//! GLES 3.1 compute programs that check their own results: ten general programs, and the sample network that reads
//! digits. They run on any GLES driver. With the live recorder and Mesa's Mali driver, they make recordings.

pub mod compare;
pub mod digits;
pub mod files;
pub mod gpu;
pub mod measure;
pub mod programs;
pub mod scenes;
pub mod session;
pub mod work;
