//! Confinement of a worker process that serves a client: no other programs, no network, no files but those that it needs.
//!
//! The messages offer none of this. The confinement is for a worker that a client has taken over through a fault.

use crate::namespaces::enter_namespaces_if_possible;
use landlock::{
    ABI, AccessFs, AccessNet, PathBeneath, PathFd, Ruleset, RulesetAttr as _, RulesetCreatedAttr as _, RulesetError,
    RulesetStatus,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Environment variable that confines a worker: a list of folders, separated by colons, in which it may write.
pub const CONFINEMENT_VARIABLE: &str = "KINESCOPE_WORKER_WRITES";
/// Folders in which NVIDIA's driver writes: its devices and shared memory, and properties of the process.
const DRIVER_FOLDERS: [&str; 2] = ["/dev", "/proc"];
/// The version of Landlock whose rights are asked for. An older kernel grants those that it knows.
const LANDLOCK: ABI = ABI::V4;

/// System calls that a worker never makes: other programs, other processes, mounts, privileges, kernel code.
const REFUSED_CALLS: [i64; 35] = [
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_userfaultfd,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_quotactl,
    libc::SYS_acct,
    libc::SYS_setuid,
    libc::SYS_setgid,
    libc::SYS_setreuid,
    libc::SYS_setregid,
    libc::SYS_setresuid,
    libc::SYS_setresgid,
    libc::SYS_setgroups,
    libc::SYS_open_by_handle_at,
    libc::SYS_pidfd_getfd,
];
/// Families of sockets that a worker never opens. Sockets of this machine remain: NVIDIA's services have some.
const REFUSED_SOCKETS: [i32; 3] = [libc::AF_INET, libc::AF_INET6, libc::AF_PACKET];

/// Reasons why a process cannot be confined.
#[derive(Debug, thiserror::Error)]
pub enum ConfinementError {
    /// Landlock refuses.
    #[error("Landlock: {0}")]
    Landlock(#[from] RulesetError),
    /// The filter of system calls is not accepted.
    #[error("seccomp: {0}")]
    Seccomp(#[from] seccompiler::Error),
    /// The filter of system calls cannot be built.
    #[error("seccomp: {0}")]
    Filter(#[from] seccompiler::BackendError),
}

/// What the kernel confines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confinement {
    /// Whether it limits writes to files. A kernel without Landlock does not.
    pub files: bool,
}

/// Confines this process for the rest of its life, as far as the kernel can. It writes in `folders` and in those of the
/// driver alone, makes no connections of the network, and starts no programs.
///
/// # Errors
/// If the kernel refuses a rule that it knows.
pub fn confine(folders: &[PathBuf]) -> Result<Confinement, ConfinementError> {
    let writes = AccessFs::from_write(LANDLOCK);
    let mut rules = Ruleset::default()
        .handle_access(writes)?
        .handle_access(AccessNet::BindTcp | AccessNet::ConnectTcp)?
        .create()?;
    let driver = DRIVER_FOLDERS.map(PathBuf::from);
    for folder in driver.iter().chain(folders) {
        // A folder that does not exist needs no rule.
        if let Ok(folder) = PathFd::new(folder) {
            rules = rules.add_rule(PathBeneath::new(folder, writes))?;
        }
    }
    let files = rules.restrict_self()?.ruleset != RulesetStatus::NotEnforced;
    seccompiler::apply_filter_all_threads(&filter()?)?;
    Ok(Confinement { files })
}

/// Builds the filter of system calls: a refused one answers `EPERM`.
fn filter() -> Result<BpfProgram, seccompiler::BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = REFUSED_CALLS.iter().map(|call| (*call, Vec::new())).collect();
    let mut sockets = Vec::new();
    for family in REFUSED_SOCKETS {
        let is_family = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, family as u64)?;
        sockets.push(SeccompRule::new(vec![is_family])?);
    }
    rules.insert(libc::SYS_socket, sockets);
    let refusal = SeccompAction::Errno(libc::EPERM as u32);
    let arch: TargetArch = std::env::consts::ARCH.try_into()?;
    SeccompFilter::new(rules, SeccompAction::Allow, refusal, arch)?.try_into()
}

/// Moves this process into namespaces of its own, as far as the system allows, if its environment confines it. The process
/// has one thread.
pub fn separate_from_environment() {
    if std::env::var_os(CONFINEMENT_VARIABLE).is_some() {
        enter_namespaces_if_possible();
    }
}

/// Confines this process if its environment says so. What the kernel refuses is a message on the standard error stream.
pub fn confine_from_environment() {
    let Some(folders) = std::env::var_os(CONFINEMENT_VARIABLE) else {
        return;
    };
    let folders: Vec<PathBuf> = std::env::split_paths(&folders)
        .filter(|folder| !folder.as_os_str().is_empty())
        .collect();
    if let Err(e) = confine(&folders) {
        crate::message::say(format_args!("the worker process is not confined: {e}"));
    }
}
