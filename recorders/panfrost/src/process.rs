//! The recorder of this process: the node, the descriptors of its files, and the recording's end.

use panfrost_node::{BufferName, Errno, FileId, Inode, Node, NodeError, ProcessMemory, SaveOutcome, Settings, save};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::Write as _;
use std::os::fd::IntoRawFd as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use trace_core::recording::{BufferRole, ElementType};

/// Environment variable with the file of the recording.
const RECORD_TO: &str = "KINESCOPE_RECORD_TO";
/// Environment variable with the target; `software:mali-g71` if it is not set.
const RECORD_ON: &str = "KINESCOPE_RECORD_ON";
/// Environment variable with the approximate size at which the recording ends while the program continues, bytes.
/// [`DEFAULT_LIMIT`] if it is not set, no limit for 0.
const RECORD_LIMIT: &str = "KINESCOPE_RECORD_LIMIT";
/// Default limit, bytes. The recording is in memory until the program ends; this is a part of what machines have today.
const DEFAULT_LIMIT: u64 = 4 << 30;
/// Suffix of the partial recording's name.
const UNFINISHED: &str = "unfinished.kine";
const DEFAULT_TARGET: &str = "software:mali-g71";
/// Prefix of simulator names.
const SOFTWARE: &str = "software:";

/// Runs work of the recorder, once, so that its own writes raise no signal that ends the program.
pub(crate) type WriteGuard = fn(&mut dyn FnMut());

/// The node and the state needed to serve it.
pub(crate) struct Recorder {
    guard: WriteGuard,
    pub(crate) node: Node,
    pub(crate) memory: ProcessMemory,
    /// File of the recording, if one is requested.
    output: Option<PathBuf>,
    /// This process is a child of the recorded one.
    child: bool,
    /// The message that a child is not recorded was printed.
    child_reported: bool,
}

/// An open file of the node, for its descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeFile {
    /// The file.
    pub(crate) id: FileId,
    /// Number of the node's own descriptor, which the program must not close.
    pub(crate) node_descriptor: i32,
}

static RECORDER: Mutex<Option<Recorder>> = Mutex::new(None);
/// Open files of the node by inode. They have a lock of their own, so that calls that do not use the GPU never wait for
/// it.
static FILES: Mutex<BTreeMap<Inode, NodeFile>> = Mutex::new(BTreeMap::new());
/// Whether the node was ever opened in this process: until then descriptors need no check.
static IN_USE: AtomicBool = AtomicBool::new(false);
/// The process that this state belongs to. A child that shares memory with its parent until it executes another program
/// has another number.
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// The recorder's own descriptors other than those of open files, which the program must not close: the process's
/// memory, both ends of the signal pipe, and the partial recording's file. -1 for none.
static OWN: [AtomicI32; 4] = [const { AtomicI32::new(-1) }; 4];
/// A recorder could not be created; the message is printed once.
static FAILED: AtomicBool = AtomicBool::new(false);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Prints a message for the user who started the program.
pub(crate) fn print_message(message: impl Display) {
    // One write, so that the program's own output does not split it. Without a reader the message is lost.
    let line = format!("kinescope: {message}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// Returns whether this process has opened the node.
pub(crate) fn is_in_use() -> bool {
    IN_USE.load(Ordering::Acquire)
}

/// Returns whether this is the process that the state belongs to.
pub(crate) fn is_recorder_process() -> bool {
    PROCESS.load(Ordering::Relaxed) == std::process::id()
}

/// The locked recorder.
pub(crate) type RecorderGuard = MutexGuard<'static, Option<Recorder>>;
/// The locked open files.
pub(crate) type FilesGuard = MutexGuard<'static, BTreeMap<Inode, NodeFile>>;

/// Takes all locks before a fork.
pub(crate) fn lock_all() -> (RecorderGuard, FilesGuard) {
    (lock(&RECORDER), lock(&FILES))
}

/// Continues in the child of a recorded process, with a GPU of its own that is not recorded.
pub(crate) fn become_child(recorder: &mut Option<Recorder>) {
    PROCESS.store(std::process::id(), Ordering::Relaxed);
    let Some(r) = recorder else { return };
    r.child = true;
    r.node.forget_journal();
    match ProcessMemory::open() {
        Ok(memory) => {
            remember_memory(&memory);
            r.memory = memory;
        }
        // With the parent's memory it would answer wrongly: it must not answer at all.
        Err(_) => *recorder = None,
    }
}

fn create_recorder(guard: WriteGuard) -> Result<Recorder, NodeError> {
    let target = std::env::var(RECORD_ON).unwrap_or_else(|_| DEFAULT_TARGET.to_owned());
    let to = std::env::var_os(RECORD_TO).filter(|v| !v.is_empty()).map(PathBuf::from);
    let settings = Settings {
        device: target.strip_prefix(SOFTWARE).unwrap_or(&target).to_owned(),
        program: program_name(),
        journal: to.as_deref().map(unfinished_path),
        limit: read_limit(),
    };
    let memory = ProcessMemory::open().map_err(|source| NodeError::System {
        what: "/proc/self/mem",
        source,
    })?;
    remember_memory(&memory);
    Ok(Recorder {
        guard,
        node: Node::new(settings)?,
        memory,
        output: to,
        child: false,
        child_reported: false,
    })
}

/// Returns the partial recording's name: `F-1234.unfinished.kine` for `F.kine`.
fn unfinished_path(to: &Path) -> PathBuf {
    let stem = to.file_stem().unwrap_or_default().to_string_lossy();
    to.with_file_name(format!("{stem}-{}.{UNFINISHED}", std::process::id()))
}

/// Returns the size limit of the recording; `None` for no limit.
fn read_limit() -> Option<u64> {
    let given = std::env::var(RECORD_LIMIT).ok().filter(|v| !v.is_empty());
    let bytes = match given {
        None => DEFAULT_LIMIT,
        Some(text) => text.parse().unwrap_or_else(|_| {
            print_message(format_args!(
                "{RECORD_LIMIT} is '{text}' (expected a number of bytes): the limit is {DEFAULT_LIMIT}"
            ));
            DEFAULT_LIMIT
        }),
    };
    (bytes > 0).then_some(bytes)
}

/// Returns the name of this program.
fn program_name() -> String {
    let first = std::env::args_os().next().unwrap_or_default();
    let name = Path::new(&first).file_name().unwrap_or(&first);
    name.to_string_lossy().into_owned()
}

/// Opens the node and returns the program's descriptor. The recorder works under `guard` from then on.
pub(crate) fn open(close_on_exec: bool, guard: WriteGuard) -> Result<i32, Errno> {
    let mut held = lock(&RECORDER);
    if held.is_none() {
        match create_recorder(guard) {
            Ok(recorder) => *held = Some(recorder),
            Err(e) => {
                if !FAILED.swap(true, Ordering::Relaxed) {
                    print_message(format_args!("there is no render node: {e}"));
                }
                return Err(Errno::NODEV);
            }
        }
        PROCESS.store(std::process::id(), Ordering::Relaxed);
    }
    let recorder = held.as_mut().ok_or(Errno::NODEV)?;
    let mut opened = Err(Errno::IO);
    guard(&mut || opened = recorder.node.open(close_on_exec));
    recorder.node.take_messages().into_iter().for_each(print_message);
    let opened = opened?;
    lock(&FILES).insert(
        opened.inode,
        NodeFile {
            id: opened.id,
            node_descriptor: opened.node_descriptor,
        },
    );
    IN_USE.store(true, Ordering::Release);
    Ok(opened.descriptor.into_raw_fd())
}

/// Returns the node's open file with this inode.
pub(crate) fn find_file(inode: Inode) -> Option<NodeFile> {
    lock(&FILES).get(&inode).copied()
}

/// Runs `work` with the recorder, and prints its messages. A panic in the recorder ends the recording, not the program.
pub(crate) fn with_recorder<T>(work: impl FnOnce(&mut Recorder) -> Result<T, Errno>) -> Result<T, Errno> {
    let mut held = lock(&RECORDER);
    let recorder = held.as_mut().ok_or(Errno::NODEV)?;
    if recorder.child && !recorder.child_reported {
        recorder.child_reported = true;
        let process = std::process::id();
        print_message(format_args!(
            "process {process} is a child of the recorded process: its work is not recorded"
        ));
    }
    let (guard, mut work, mut done) = (recorder.guard, Some(work), None);
    guard(&mut || {
        if let Some(work) = work.take() {
            done = catch_unwind(AssertUnwindSafe(|| work(recorder))).ok();
        }
    });
    remember_journal(recorder);
    let messages = recorder.node.take_messages();
    let result = done.unwrap_or_else(|| {
        *held = None;
        print_message("the recorder failed and stops: there is no recording, and the GPU is not available any more");
        Err(Errno::IO)
    });
    drop(held);
    messages.into_iter().for_each(print_message);
    result
}

/// Returns whether a descriptor is the recorder's own.
pub(crate) fn is_own_descriptor(fd: i32) -> bool {
    fd >= 0 && OWN.iter().any(|own| own.load(Ordering::Relaxed) == fd)
}

/// Stores the ends of the signal pipe.
pub(crate) fn remember_pipe(ends: [i32; 2]) {
    for (own, fd) in OWN.iter().skip(1).zip(ends) {
        own.store(fd, Ordering::Relaxed);
    }
}

fn remember_memory(memory: &ProcessMemory) {
    let [own, ..] = &OWN;
    own.store(memory.own_descriptor(), Ordering::Relaxed);
}

/// Stores the descriptor of the partial recording.
fn remember_journal(recorder: &Recorder) {
    let [.., own] = &OWN;
    own.store(recorder.node.journal().map_or(-1, |(_, fd)| fd), Ordering::Relaxed);
}

/// Commits new events to the disk, if a commit is due.
pub(crate) fn commit_journal() {
    if !is_in_use() || !is_recorder_process() {
        return;
    }
    // Without a recorder there is nothing to commit.
    let _ = with_recorder(|r| {
        if !r.child {
            r.node.commit_journal();
        }
        Ok(())
    });
}

/// Closes an open file after its last descriptor was closed.
pub(crate) fn close_file(inode: Inode) {
    let file = lock(&FILES).remove(&inode);
    if let Some(file) = file {
        // Without a recorder there is nothing to release.
        let _ = with_recorder(|r| {
            r.node.close(file.id);
            Ok(())
        });
    }
}

/// Ends the recording and writes it. A second call does nothing.
pub(crate) fn finish() {
    if !is_in_use() || !is_recorder_process() {
        return;
    }
    let mut held = lock(&RECORDER);
    let Some(recorder) = held.as_mut() else { return };
    if recorder.child || !recorder.node.has_recording() {
        return;
    }
    let (guard, mut done) = (recorder.guard, None);
    guard(&mut || done = catch_unwind(AssertUnwindSafe(|| write_recording(recorder))).ok());
    let messages = recorder.node.take_messages();
    drop(held);
    messages.into_iter().for_each(print_message);
    match done {
        Some(Ok(())) => {}
        Some(Err(e)) => print_message(format_args!("the recording is lost: {e}")),
        None => print_message("the recorder failed: the recording is lost"),
    }
}

fn write_recording(recorder: &mut Recorder) -> Result<(), NodeError> {
    let kept = recorder.node.journal().map(|(path, _)| path.to_owned());
    let recording = recorder.node.finish();
    remember_journal(recorder);
    let recording = match (recording, &kept) {
        (Ok(Some(recording)), _) => recording,
        (Ok(None), _) => return Ok(()),
        (Err(e), Some(kept)) => {
            print_message(format_args!(
                "the recording is incomplete: {e}; {} contains the part before that",
                kept.display()
            ));
            return Ok(());
        }
        (Err(e), None) => return Err(e),
    };
    let Some(to) = &recorder.output else {
        print_message(format_args!(
            "{RECORD_TO} names no file: the program's work is not recorded"
        ));
        return Ok(());
    };
    match save(&recording, to, kept.as_deref())? {
        SaveOutcome::Complete(_) => {}
        SaveOutcome::Partial { path, why } => print_message(format_args!(
            "the recording could not be written completely: {why}; {} contains the part that fits on the disk",
            path.display()
        )),
    }
    Ok(())
}

/// Names the bytes at a host address, for a program that names its buffers.
pub(crate) fn name_buffer(address: u64, bytes: u64, named: BufferName) -> Result<(), Errno> {
    with_recorder(|r| r.node.name_buffer(address, bytes, named))
}

/// Returns the role with a program's number for it.
pub(crate) fn parse_role(number: i32) -> Option<BufferRole> {
    Some(match number {
        0 => BufferRole::Input,
        1 => BufferRole::Output,
        2 => BufferRole::Weights,
        3 => BufferRole::Shared,
        _ => return None,
    })
}

/// Parses an element type's name: `f32`; bytes if it is empty.
pub(crate) fn parse_element_type(name: &str) -> Option<ElementType> {
    if name.is_empty() {
        return Some(ElementType::U8);
    }
    ElementType::ALL.into_iter().find(|e| e.name() == name)
}

/// Parses a shape into its dimensions: `8x8`.
pub(crate) fn parse_shape(text: &str) -> Option<Vec<u64>> {
    if text.is_empty() {
        return Some(Vec::new());
    }
    text.split('x')
        .map(|side| side.parse().ok().filter(|s| *s > 0))
        .collect()
}
