//! The recorder: its log, and what it knows of the program.

use crate::address::HostAddr;
use crate::identity::thread_id;
use crate::launch_memory::LaunchMemory;
use crate::log::{LogError, LogFile, Part};
use crate::records::{self, kind};
use crate::settings::Settings;
use crate::system::{map_memory, monotonic_time, process_id};
use crate::tables::Tables;
use nvidia_channel::gpfifo::MAX_SEGMENT_WORDS;
use nvidia_channel::rm::DriverBranch;
use std::ffi::CString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

/// Bytes of the largest push buffer of an entry.
const MAX_COMMAND_BYTES: u64 = MAX_SEGMENT_WORDS as u64 * 4;
/// Bytes of a line of the processor's caches. Memory is mapped in whole lines.
pub(crate) const LINE_BYTES: u64 = 64;
/// Bytes of the scratch memory: the largest push buffer and the lines that it shares.
const SCRATCH_BYTES: u64 = MAX_COMMAND_BYTES + 2 * LINE_BYTES;

/// The log and what the recorder knows of the program.
#[derive(Debug)]
pub(crate) struct Recorder {
    pub log: LogFile,
    pub tables: Tables,
    /// The memory that launches read.
    pub memory: Box<LaunchMemory>,
    /// Memory for the commands of an entry.
    pub scratch: &'static mut [u8],
    /// Time of the monotonic clock that the times of the log count from, nanoseconds.
    pub start: u64,
    pub branch: DriverBranch,
}

impl Recorder {
    /// Appends a record with the current time.
    ///
    /// # Errors
    /// If the log is full, or memory of the program is not readable.
    pub fn append(&mut self, kind: u32, thread: u32, parts: &[Part<'_>]) -> Result<(), LogError> {
        let time = monotonic_time().saturating_sub(self.start);
        self.log.append(kind, time, thread, parts)
    }
}

/// Creates the recorder and its log. The reason of a failure is for the user.
pub(crate) fn create_recorder(settings: &Settings) -> Result<Recorder, String> {
    let version = settings.driver_version.as_str();
    let branch = DriverBranch::from_version(version).ok_or_else(|| match version {
        "" => "the version of the driver is unknown (expected in /proc/driver/nvidia/version)".to_owned(),
        _ => format!("version {version} of the driver is not known (expected 570, 580 or 595)"),
    })?;
    let mut log = create_log(&settings.log, settings.limit)?;
    let start = monotonic_time();
    let head = records::recorder(start, process_id(), version);
    let command = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    log.append(
        kind::RECORDER,
        0,
        thread_id(),
        &[Part::Bytes(&head), Part::Bytes(&command)],
    )
    .map_err(|e| e.to_string())?;
    Ok(Recorder {
        log,
        tables: Tables::default(),
        memory: LaunchMemory::new(),
        scratch: map_scratch()?,
        start,
        branch,
    })
}

/// Creates the log: the requested file, or one in the same folder if another process has that.
fn create_log(path: &Path, limit: u64) -> Result<LogFile, String> {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let extension = path.extension().unwrap_or_default().to_string_lossy();
    let other = path.with_file_name(format!("{stem}-{}.{extension}", process_id()));
    let create = |path: &PathBuf| {
        let name = CString::new(path.clone().into_os_string().into_vec()).map_err(|_| "its path has a zero".to_owned());
        LogFile::create(&name?, limit).map_err(|e| std::io::Error::from_raw_os_error(e.0).to_string())
    };
    create(&path.to_owned())
        .or_else(|_| create(&other))
        .map_err(|e| format!("the log {} cannot be written: {e}", path.display()))
}

/// Maps memory for the commands of the largest entry, aligned to a line.
#[allow(unsafe_code, reason = "fresh memory becomes a slice")]
fn map_scratch() -> Result<&'static mut [u8], String> {
    let at = map_memory(SCRATCH_BYTES).map_err(|_| "no memory".to_owned())?;
    // SAFETY: the mapping is new, has this size, and is never removed.
    Ok(unsafe { std::slice::from_raw_parts_mut(HostAddr::pointer(at), SCRATCH_BYTES as usize) })
}
