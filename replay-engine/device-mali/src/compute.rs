//! Environment of compute shaders: a job's view of memory, its budget, its descriptors and the dispatch of workgroups.

pub(crate) mod bindings;
pub(crate) mod descriptors;
pub(crate) mod dispatch;
pub(crate) mod last_writers;
pub(crate) mod overlay;
pub(crate) mod stop;
pub(crate) mod tlb;
pub(crate) mod trace;
pub(crate) mod view;

#[cfg(test)]
mod tests;
