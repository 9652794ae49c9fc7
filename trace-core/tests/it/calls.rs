//! Queries on API traces through the public interface; memory compared with a second, naive implementation.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // These are tests.

mod around;
mod differing;
mod metadata;
mod naive;
mod net;
mod watched;
