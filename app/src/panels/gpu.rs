//! Panels that show the GPU as its driver sees it: registers, page tables, jobs and their shaders.

pub mod jobs;
pub mod page_tables;
pub mod register;
pub mod shader;
