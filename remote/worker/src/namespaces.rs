//! Namespaces of a worker process that serves a client: no network, and no System V objects and queues of other processes.
//!
//! Files, devices and processes stay as they are, so that NVIDIA's driver finds what it needs. Files that are passed over
//! a socket work as before.
#![allow(
    unsafe_code,
    reason = "`unshare` is an unsafe function for flags that are not used here"
)]

use rustix::process::{Gid, Uid, getegid, geteuid};
use rustix::thread::{CapabilitySet, CapabilitySets, UnshareFlags, set_capabilities, unshare_unsafe};
use std::fs::write;
use std::io;

/// Environment variable that makes a worker say so if the system refuses it namespaces: an agent sets it once.
pub const NAMESPACE_NOTICE_VARIABLE: &str = "KINESCOPE_WORKER_NAMESPACE_NOTICE";

/// Moves this process into a network namespace and an IPC namespace of its own. The process has one thread.
///
/// Root needs no more. Another user also gets a user namespace, in which it has its own number and no rights.
///
/// # Errors
/// If the system refuses.
pub fn enter_namespaces() -> io::Result<()> {
    let own = UnshareFlags::NEWNET | UnshareFlags::NEWIPC;
    let (user, group) = (geteuid(), getegid());
    // Root without the right, as in a container, may still have a user namespace.
    if user.is_root() && unshare(own).is_ok() {
        return Ok(());
    }
    unshare(own | UnshareFlags::NEWUSER)?;
    map_to_itself(user, group)?;
    // The namespace gave all rights inside of it: they open more of the kernel than this process needs.
    let none = CapabilitySet::empty();
    set_capabilities(
        None,
        CapabilitySets {
            effective: none,
            permitted: none,
            inheritable: none,
        },
    )?;
    Ok(())
}

fn unshare(flags: UnshareFlags) -> io::Result<()> {
    // SAFETY: the table of file descriptors stays shared by all threads.
    Ok(unsafe { unshare_unsafe(flags) }?)
}

/// Gives the user and the group of this process the same numbers in its user namespace.
fn map_to_itself(user: Uid, group: Gid) -> io::Result<()> {
    let (user, group) = (user.as_raw(), group.as_raw());
    write("/proc/self/setgroups", "deny")?;
    write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    write("/proc/self/gid_map", format!("{group} {group} 1"))
}

/// Moves this process into namespaces of its own. If the system refuses, the process goes on without, and says so where
/// its environment asks for that.
pub fn enter_namespaces_if_possible() {
    if let Err(e) = enter_namespaces()
        && std::env::var_os(NAMESPACE_NOTICE_VARIABLE).is_some()
    {
        crate::message::say(format_args!(
            "worker processes have no network and IPC namespaces of their own: the system refuses ({e}). They go on \
             without; other confinement is not affected"
        ));
    }
}
