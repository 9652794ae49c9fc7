//! Panels that show the kernel launches of an API trace.

pub mod kernel;
pub mod launches;
