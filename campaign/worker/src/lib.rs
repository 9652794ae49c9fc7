//! Campaigns over several machines: workers take runs from a broker, and the client of a campaign follows their results.
//!
//! The broker is NATS with JetStream. [`worker::serve`] is the worker, [`submit::submit`] the client. Both see the broker as
//! [`Storage`](storage::Storage). The decisions about plans stay where they are: each run goes through the same checks as
//! `kinescope replay`, here and at the agent.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod arrivals;
mod attempt_start;
mod attempts;
pub mod cli;
mod connection;
mod counters;
mod entry;
mod file_cache;
mod file_store;
mod follow;
mod held_list;
mod held_message;
mod publication;
mod reporting;
mod run_source;
mod selectors;
pub mod storage;
pub mod submit;
mod target_labels;
mod target_queues;
mod target_state;
pub mod worker;
mod worker_list;

pub use connection::{ConnectionError, ConnectionState, QueueOptions, parse_address};
pub use entry::parse_entry;
