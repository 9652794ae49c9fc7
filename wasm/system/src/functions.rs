//! The table of system calls: their numbers in the log, names and arguments, and what the host serves.

/// Modules from which a program imports system calls, in the order of preference of their documentation.
///
/// `env` has only the two functions for requests, under the names of VectorVisor's programs.
pub const IMPORT_MODULES: [&str; 3] = ["wasi_snapshot_preview1", "kinescope", "env"];

/// A function of the host that the system module imports from the module `kinescope_host`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HostFunction {
    /// `drain(stream)`: takes the bytes of an output buffer that is full.
    Drain,
    /// `next() -> waits`: stores the next request, or returns 0 if there is none.
    Next,
    /// `exit(kind, code)`: ends the copy. Kind 0 is an exit with `code`; any other is the number of a trap.
    Exit,
}

impl HostFunction {
    /// Name of the module from which the system module imports them.
    pub const MODULE: &'static str = "kinescope_host";
    /// All functions.
    pub const ALL: [Self; 3] = [Self::Drain, Self::Next, Self::Exit];

    /// Returns the name of the import.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Drain => "drain",
            Self::Next => "next",
            Self::Exit => "exit",
        }
    }
}

/// A system call.
#[derive(Debug, PartialEq, Eq)]
pub struct SystemFunction {
    /// Name of the function, which is the name of the system module's export.
    pub name: &'static str,
    /// Names of the two arguments in the log; empty for an argument that the function does not have.
    pub arguments: [&'static str; 2],
    /// Whether copies have the function. The others return an error to the program.
    pub served: bool,
}

const fn served(name: &'static str, first: &'static str, second: &'static str) -> SystemFunction {
    SystemFunction {
        name,
        arguments: [first, second],
        served: true,
    }
}

const fn refused(name: &'static str, first: &'static str, second: &'static str) -> SystemFunction {
    SystemFunction {
        name,
        arguments: [first, second],
        served: false,
    }
}

/// All system calls. The position is the number in the log.
static FUNCTIONS: [SystemFunction; 48] = [
    served("args_get", "argv", "argv_buf"),
    served("args_sizes_get", "argc", "argv_buf_size"),
    served("environ_get", "environ", "environ_buf"),
    served("environ_sizes_get", "count", "buf_size"),
    served("clock_res_get", "id", "resolution"),
    served("clock_time_get", "id", "precision"),
    refused("fd_advise", "fd", "offset"),
    refused("fd_allocate", "fd", "offset"),
    served("fd_close", "fd", ""),
    refused("fd_datasync", "fd", ""),
    served("fd_fdstat_get", "fd", "stat"),
    served("fd_fdstat_set_flags", "fd", "flags"),
    refused("fd_fdstat_set_rights", "fd", "rights"),
    served("fd_filestat_get", "fd", "stat"),
    refused("fd_filestat_set_size", "fd", "size"),
    refused("fd_filestat_set_times", "fd", "atim"),
    refused("fd_pread", "fd", "iovs"),
    served("fd_prestat_get", "fd", "prestat"),
    served("fd_prestat_dir_name", "fd", "path"),
    refused("fd_pwrite", "fd", "iovs"),
    served("fd_read", "fd", "iovs"),
    refused("fd_readdir", "fd", "buf"),
    refused("fd_renumber", "fd", "to"),
    served("fd_seek", "fd", "offset"),
    refused("fd_sync", "fd", ""),
    refused("fd_tell", "fd", "offset"),
    served("fd_write", "fd", "iovs"),
    refused("path_create_directory", "fd", "path"),
    refused("path_filestat_get", "fd", "flags"),
    refused("path_filestat_set_times", "fd", "flags"),
    refused("path_link", "old_fd", "old_flags"),
    refused("path_open", "fd", "dirflags"),
    refused("path_readlink", "fd", "path"),
    refused("path_remove_directory", "fd", "path"),
    refused("path_rename", "fd", "old_path"),
    refused("path_symlink", "old_path", "old_path_len"),
    refused("path_unlink_file", "fd", "path"),
    served("poll_oneoff", "in", "nsubscriptions"),
    served("proc_exit", "code", ""),
    refused("proc_raise", "signal", ""),
    served("random_get", "buf", "buf_len"),
    served("sched_yield", "", ""),
    refused("sock_accept", "fd", "flags"),
    refused("sock_recv", "fd", "ri_data"),
    refused("sock_send", "fd", "si_data"),
    refused("sock_shutdown", "fd", "how"),
    served("invoke", "buf", "capacity"),
    served("respond", "buf", "length"),
];

/// Position of `invoke` and `respond`, which are not functions of WASI.
const FIRST_REQUEST_FUNCTION: usize = 46;

impl SystemFunction {
    /// Returns all functions in the order of their numbers.
    #[must_use]
    pub fn all() -> &'static [Self] {
        &FUNCTIONS
    }

    /// Returns the function with a number of the log, or `None` if there is none.
    #[must_use]
    pub fn from_number(number: u32) -> Option<&'static Self> {
        FUNCTIONS.get(usize::try_from(number).ok()?)
    }
}

/// Returns the name of the system module's export that serves the import `module`.`name`, or `None` if none does.
///
/// ```text
/// wasi_snapshot_preview1.fd_write -> fd_write
/// kinescope.invoke, env.serverless_invoke -> invoke
/// ```
#[must_use]
pub fn find_export(module: &str, name: &str) -> Option<&'static str> {
    let (wasi, requests) = FUNCTIONS.split_at(FIRST_REQUEST_FUNCTION);
    let find = |functions: &'static [SystemFunction], name: &str| {
        let found = functions.iter().find(|f| f.name == name);
        found.map(|f| f.name)
    };
    match module {
        "wasi_snapshot_preview1" => find(wasi, name),
        "kinescope" => find(requests, name),
        "env" => match name {
            "serverless_invoke" => Some("invoke"),
            "serverless_response" => Some("respond"),
            _ => None,
        },
        _ => None,
    }
}
