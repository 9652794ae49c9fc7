//! Tests of queries on API traces through the public interface. A naive implementation checks the contents of memory.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod around;
mod differing;
mod metadata;
mod naive;
mod net;
mod watched;
