//! WebAssembly programs on agents: the target of a client, and what an agent runs for its clients.
//!
//! A client sends a program in binary form, never code for a GPU. The agent validates and translates it itself.

mod agent_backend;
mod convert;
mod worker_runner;

pub use agent_backend::{AgentBackend, OpenError};
pub use worker_runner::{CPU_TARGET, INTERPRETER_TARGET, WorkerRunner};
