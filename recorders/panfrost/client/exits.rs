//! The ways in which a program ends.

use crate::calls::Node;
use panfrost_node::uapi::flag;
use std::time::Duration;

const PAGE: usize = 4096;

/// Runs one chain.
fn work() -> Result<(), String> {
    let node = Node::open()?;
    let (data, chain) = (
        node.create_mapped(PAGE, flag::BO_NOEXEC)?,
        node.create_mapped(PAGE, flag::BO_NOEXEC)?,
    );
    node.run_value_writes(&chain, &[(data.va, 1)])
}

/// Runs a chain, and is killed by a signal that no program can handle.
pub fn killed(_: &[String]) -> Result<(), String> {
    work()?;
    // SAFETY: the call sends a signal to this process.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    std::thread::sleep(Duration::from_secs(60));
    Err("the signal did not end the process".into())
}

/// Runs a chain, and aborts.
pub fn aborted(_: &[String]) -> Result<(), String> {
    work()?;
    // SAFETY: the call ends the process.
    unsafe { libc::abort() }
}

/// Runs a chain, and ends without the work of an orderly exit.
pub fn leave(_: &[String]) -> Result<(), String> {
    work()?;
    // SAFETY: the call ends the process.
    unsafe { libc::_exit(7) }
}

/// Runs a chain, and is ended by a signal.
pub fn signal(_: &[String]) -> Result<(), String> {
    work()?;
    // SAFETY: the call sends a signal to this process.
    unsafe { libc::kill(libc::getpid(), libc::SIGTERM) };
    std::thread::sleep(Duration::from_secs(60));
    Err("the signal did not end the process".into())
}
