//! The render node: implementation of each request of a program.

mod recording;
mod syncobjs;

use crate::Errno;
use crate::error::NodeError;
use crate::file::{FileId, OpenFile};
use crate::gpu::{ChainResult, Gpu};
use crate::journal::Journal;
use crate::memory::{self, Inode, Pool};
use crate::metadata::{BufferName, GpuRange, LabelledObject, Provenance, RecordingMetadata};
use crate::params::Params;
use crate::sync::{SyncFiles, Syncobj};
use crate::uapi::{self, Request, cap, family, flag, number};
use crate::user::UserMemory;
use bytemuck::Pod;
use driver_mali::SpaceId;
use replay_engine::device::RegisterTarget;
use std::collections::BTreeMap;
use std::os::fd::{IntoRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use trace_core::recording::LostEvents;
use trace_core::{GpuVa, Recording};

/// The driver's version: 1.2, which supports heaps, objects without shaders, and compressed framebuffers.
const VERSION: (i32, i32, i32) = (1, 2, 0);
const NAME: &str = "panfrost";
const DATE: &str = "20180908";
const DESCRIPTION: &str = "panfrost DRM";
/// Bus address of a device that is on no bus.
const UNIQUE: &str = "kinescope";
/// Maximum number of handles in a request.
const MAX_HANDLES: u32 = 1 << 16;
/// Maximum size of the name of a buffer object, and of a buffer, bytes.
const MAX_NAME_BYTES: usize = 4096;

/// Settings of a node and its recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Name of the simulator: `mali-g71`.
    pub device: String,
    /// Name of the program.
    pub program: String,
    /// File of the partial recording while the program runs; `None` for no file.
    pub journal: Option<PathBuf>,
    /// Approximate size at which the recording ends while the program continues, bytes; `None` for no limit.
    pub limit: Option<u64>,
}

/// Result of a request.
#[derive(Debug, PartialEq, Eq)]
pub enum IoctlReply {
    /// The request is done; this is the return value of `ioctl`.
    Done,
    /// The awaited object is not ready. The caller repeats the request until this time on the monotonic clock, in ns;
    /// then the error is [`Errno::TIME`].
    NotYet(i64),
}

/// An opened node.
#[derive(Debug)]
pub struct OpenedNode {
    /// The file.
    pub id: FileId,
    /// The program's descriptor, by which it maps buffer objects.
    pub descriptor: OwnedFd,
    /// Identity of that descriptor and its copies.
    pub inode: Inode,
    /// Number of the node's own descriptor.
    pub node_descriptor: i32,
}

/// State of the GPU, from before its boot to after the recording's end.
enum Stage {
    /// No program has used it yet.
    Off(Box<dyn RegisterTarget>),
    On(Box<Gpu>),
    /// After an error: chains complete without running, and the recording so far is still to be handed over.
    Broken(Box<Gpu>),
    /// The recording has ended: chains complete without running.
    Ended,
}

/// A render node with the state of all its users.
pub struct Node {
    settings: Settings,
    params: Params,
    stage: Stage,
    files: BTreeMap<FileId, OpenFile>,
    next_file: u64,
    sync_files: SyncFiles,
    told_of: RecordingMetadata,
    journal: Option<Journal>,
    /// The recording reached its limit.
    full: bool,
    /// Messages for the user that were not yet printed.
    messages: Vec<String>,
    submits: u64,
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl Node {
    /// Creates a node on the simulator that the settings name. The device stays off until a program requests memory.
    ///
    /// # Errors
    /// Returns an error if there is no such device.
    pub fn new(settings: Settings) -> Result<Self, NodeError> {
        let device = device_mali::factory(&settings.device);
        let mut device = device.ok_or_else(|| NodeError::NoDevice {
            name: settings.device.clone(),
        })?;
        Ok(Self {
            params: Params::read(&mut *device)?,
            settings,
            stage: Stage::Off(device),
            files: BTreeMap::new(),
            next_file: 0,
            sync_files: SyncFiles::default(),
            told_of: RecordingMetadata::default(),
            journal: None,
            full: false,
            messages: Vec::new(),
            submits: 0,
        })
    }

    /// Opens the node.
    ///
    /// # Errors
    /// Returns an error if the system has no free files.
    pub fn open(&mut self, close_on_exec: bool) -> Result<OpenedNode, Errno> {
        let pool = Pool::new().map_err(|e| {
            self.messages.push(format!("the render node cannot be opened: {e}"));
            Errno::NFILE
        })?;
        let opened = OpenedNode {
            id: FileId(self.next_file),
            descriptor: pool.reopen(close_on_exec).map_err(|_| Errno::MFILE)?,
            inode: pool.inode(),
            node_descriptor: pool.own_descriptor(),
        };
        self.next_file += 1;
        self.files.insert(opened.id, OpenFile::new(pool));
        Ok(opened)
    }

    /// Releases everything that a file holds, after its last descriptor was closed.
    pub fn close(&mut self, id: FileId) {
        if let Some(file) = self.files.remove(&id) {
            self.told_of.add_labels(file.labels());
            file.end(match &mut self.stage {
                Stage::On(gpu) => Some(gpu),
                _ => None,
            });
        }
    }

    /// Returns the messages for the user since the last call.
    pub fn take_messages(&mut self) -> Vec<String> {
        std::mem::take(&mut self.messages)
    }

    /// Returns the number of submitted chains.
    #[must_use]
    pub fn submission_count(&self) -> u64 {
        self.submits
    }

    /// Checks whether a program is allowed to map this range of the node: a range of one object, from its first byte
    /// on, and shared.
    ///
    /// # Errors
    /// Returns [`Errno::INVAL`] if it is not allowed.
    pub fn check_mapping(&self, id: FileId, offset: u64, bytes: u64, shared: bool) -> Result<(), Errno> {
        let file = self.files.get(&id).ok_or(Errno::BADF)?;
        let object = file.objects.values().find(|o| o.offset == offset && !o.heap);
        let fits = object.is_some_and(|o| bytes > 0 && bytes <= o.bytes);
        if fits && shared { Ok(()) } else { Err(Errno::INVAL) }
    }

    /// Handles a request of a program on an open file. `arg` is the host address of the request's structure.
    ///
    /// # Errors
    /// Returns the `errno` for the program.
    pub fn ioctl(&mut self, id: FileId, raw: u32, arg: u64, memory: &dyn UserMemory) -> Result<IoctlReply, Errno> {
        let request = Request::new(raw);
        if request.family != family::DRM {
            return Err(Errno::NOTTY);
        }
        let call = IoctlCall { request, arg, memory };
        match request.number {
            number::VERSION => call.with_structure(|v: &mut uapi::Version| {
                (v.major, v.minor, v.patch) = VERSION;
                write_text(memory, NAME, v.name, &mut v.name_len)?;
                write_text(memory, DATE, v.date, &mut v.date_len)?;
                write_text(memory, DESCRIPTION, v.desc, &mut v.desc_len)
            }),
            number::GET_UNIQUE => {
                call.with_structure(|u: &mut uapi::Unique| write_text(memory, UNIQUE, u.at, &mut u.len))
            }
            number::GET_CAP => call.with_structure(get_capability),
            number::GET_PARAM => call.with_structure(|p: &mut uapi::GetParam| {
                if p.pad != 0 {
                    return Err(Errno::INVAL);
                }
                p.value = self.params.get(p.param).ok_or(Errno::INVAL)?;
                Ok(())
            }),
            number::GEM_CLOSE => call.with_structure(|c: &mut uapi::GemClose| self.file_mut(id)?.close(c.handle)),
            number::CREATE_BO => call.with_structure(|c: &mut uapi::CreateBo| self.create_bo(id, c)),
            number::MMAP_BO => call.with_structure(|m: &mut uapi::MmapBo| {
                let object = self.file(id)?.object(m.handle)?;
                if m.flags != 0 || object.heap {
                    return Err(Errno::INVAL);
                }
                m.offset = object.offset;
                Ok(())
            }),
            number::GET_BO_OFFSET => call.with_structure(|o: &mut uapi::GetBoOffset| {
                o.offset = self.file(id)?.object(o.handle)?.va.get();
                Ok(())
            }),
            number::WAIT_BO => call.with_structure(|w: &mut uapi::WaitBo| {
                if w.pad != 0 {
                    return Err(Errno::INVAL);
                }
                // Work is complete when its submit returns.
                self.file(id)?.object(w.handle).map(drop)
            }),
            number::MADVISE => call.with_structure(|m: &mut uapi::Madvise| {
                self.file(id)?.object(m.handle)?;
                if ![flag::WILL_NEED, flag::DONT_NEED].contains(&m.madv) {
                    return Err(Errno::INVAL);
                }
                m.retained = 1;
                Ok(())
            }),
            number::SET_LABEL_BO => call.with_structure(|l: &mut uapi::SetLabelBo| self.set_label(id, l, memory)),
            number::SUBMIT => call.with_structure(|s: &mut uapi::Submit| self.submit(id, s, memory)),
            number::PERFCNT_ENABLE | number::PERFCNT_DUMP => Err(Errno::NOSYS),
            number::PRIME_HANDLE_TO_FD | number::PRIME_FD_TO_HANDLE => Err(Errno::OPNOTSUPP),
            number::SYNCOBJ_WAIT => self.syncobj_wait(id, &call),
            number::SYNCOBJ_CREATE..=number::SYNCOBJ_SIGNAL => self.syncobj(id, &call).map(|()| IoctlReply::Done),
            _ => Err(Errno::INVAL),
        }
    }

    /// Handles a request of a program on a sync file. `arg` is the host address of the request's structure.
    ///
    /// # Errors
    /// Returns the `errno` for the program; [`Errno::NOTTY`] if the file is not a sync file.
    pub fn sync_file_ioctl(
        &mut self,
        inode: Inode,
        raw: u32,
        arg: u64,
        memory: &dyn UserMemory,
    ) -> Result<IoctlReply, Errno> {
        let request = Request::new(raw);
        if request.family != family::SYNC_FILE || !self.sync_files.is_fence(inode) {
            return Err(Errno::NOTTY);
        }
        let call = IoctlCall { request, arg, memory };
        match request.number {
            number::SYNC_MERGE => call.with_structure(|m: &mut uapi::SyncMerge| {
                let other = Inode::from_descriptor(m.other).ok_or(Errno::NOENT)?;
                if m.flags != 0 || m.pad != 0 || !self.sync_files.is_fence(other) {
                    return Err(Errno::INVAL);
                }
                let fd = self.sync_files.create_fence().map_err(|_| Errno::MFILE)?;
                m.fence = fd.into_raw_fd();
                Ok(())
            }),
            number::SYNC_FILE_INFO => call.with_structure(|i: &mut uapi::SyncFileInfo| {
                (i.status, i.fences) = (1, 0);
                Ok(())
            }),
            _ => Err(Errno::NOTTY),
        }
    }

    /// Returns whether a descriptor is a sync file.
    #[must_use]
    pub fn is_sync_file(&self, inode: Inode) -> bool {
        self.sync_files.is_fence(inode)
    }

    fn file(&self, id: FileId) -> Result<&OpenFile, Errno> {
        self.files.get(&id).ok_or(Errno::BADF)
    }

    fn file_mut(&mut self, id: FileId) -> Result<&mut OpenFile, Errno> {
        self.files.get_mut(&id).ok_or(Errno::BADF)
    }

    fn file_and_gpu(&mut self, id: FileId) -> Result<(&mut OpenFile, Option<&mut Gpu>), Errno> {
        let file = self.files.get_mut(&id).ok_or(Errno::BADF)?;
        let gpu = match &mut self.stage {
            Stage::On(gpu) => Some(&mut **gpu),
            _ => None,
        };
        Ok((file, gpu))
    }

    /// Powers the GPU on, if it is still off.
    fn boot(&mut self) {
        match std::mem::replace(&mut self.stage, Stage::Ended) {
            Stage::Off(device) => match Gpu::boot(device, &self.settings.program) {
                Ok(gpu) => self.stage = Stage::On(Box::new(gpu)),
                Err(e) => self.fail_recording(format!("the GPU could not be started: {e}")),
            },
            other => self.stage = other,
        }
    }

    fn create_bo(&mut self, id: FileId, c: &mut uapi::CreateBo) -> Result<(), Errno> {
        let (executable, heap) = (c.flags & flag::BO_NOEXEC == 0, c.flags & flag::BO_HEAP != 0);
        let known = flag::BO_NOEXEC | flag::BO_HEAP;
        if c.size == 0 || c.pad != 0 || c.flags & !known != 0 || heap && executable {
            return Err(Errno::INVAL);
        }
        self.boot();
        let (file, gpu) = self.file_and_gpu(id)?;
        let handle = file.create(gpu, c.size, executable, heap)?;
        c.offset = file.object(handle)?.va.get();
        c.handle = handle;
        Ok(())
    }

    fn set_label(&mut self, id: FileId, l: &uapi::SetLabelBo, memory: &dyn UserMemory) -> Result<(), Errno> {
        if l.pad != 0 {
            return Err(Errno::INVAL);
        }
        let label = match l.label {
            0 => None,
            at => Some(read_name(memory, at)?),
        };
        let object = self.file_mut(id)?.objects.get_mut(&l.handle).ok_or(Errno::NOENT)?;
        object.label = label;
        Ok(())
    }

    fn submit(&mut self, id: FileId, s: &uapi::Submit, memory: &dyn UserMemory) -> Result<(), Errno> {
        if s.jc == 0 || s.requirements & !flag::FRAGMENT != 0 {
            return Err(Errno::INVAL);
        }
        let file = self.files.get_mut(&id).ok_or(Errno::BADF)?;
        let out = match s.out_sync {
            0 => None,
            handle => Some(file.syncobjs.get(handle).ok_or(Errno::NODEV)?.clone()),
        };
        for handle in read_handles(memory, s.in_syncs, s.in_sync_count)? {
            // The awaited fence was signaled when its submit returned; a missing fence is an error.
            let ready = file.syncobjs.get(handle).is_some_and(Syncobj::is_signaled);
            if !ready {
                return Err(Errno::INVAL);
            }
        }
        for handle in read_handles(memory, s.bo_handles, s.bo_handle_count)? {
            file.object(handle)?;
        }
        self.boot();
        self.submits += 1;
        if let (Stage::On(gpu), Some(file)) = (&mut self.stage, self.files.get_mut(&id)) {
            let head = GpuVa::new(s.jc);
            let fragment = s.requirements & flag::FRAGMENT != 0;
            match file.run(gpu, head, fragment) {
                Ok(ran) => {
                    if !self.full {
                        self.told_of.add_chain(head, &ran);
                    }
                    // The recording contains the failure; the program notices it only by missing results, as on a
                    // physical device.
                    self.messages.extend(describe_failure(head, &ran));
                }
                Err(e) => self.fail_recording(format!("the chain at {head}: {e}")),
            }
        }
        if let Some(out) = out {
            out.signal();
        }
        self.check_limit();
        self.commit_journal();
        Ok(())
    }
}

/// Returns a message for the user about a chain's end, or `None` if the chain is done.
fn describe_failure(head: GpuVa, ran: &ChainResult) -> Option<String> {
    let status = ran.end.status;
    let why = ran.report.reason.as_deref();
    Some(match (ran.end.fault_address, why) {
        _ if ran.end.is_done() => return None,
        (Some(at), _) => format!("the chain at {head} failed: {at} (status {status:#x})"),
        (None, Some(why)) => format!("the chain at {head} failed with status {status:#x}: {why}"),
        (None, None) => format!("the chain at {head} failed with status {status:#x}"),
    })
}

/// A request with everything needed to answer it.
struct IoctlCall<'a> {
    request: Request,
    arg: u64,
    memory: &'a dyn UserMemory,
}

impl IoctlCall<'_> {
    /// Reads the request's structure, lets `answer` fill it in, and writes it back, also on failure. A program with a
    /// shorter version of the structure passes and gets only that part of it.
    fn with_structure<T: Pod>(&self, answer: impl FnOnce(&mut T) -> Result<(), Errno>) -> Result<IoctlReply, Errno> {
        let mut value = T::zeroed();
        let known = self.request.bytes.min(size_of::<T>());
        if self.request.copies_in {
            let bytes = bytemuck::bytes_of_mut(&mut value);
            self.memory.read(self.arg, bytes.get_mut(..known).unwrap_or_default())?;
        }
        let done = answer(&mut value);
        if self.request.copies_out {
            let bytes = bytemuck::bytes_of(&value);
            self.memory.write(self.arg, bytes.get(..known).unwrap_or_default())?;
        }
        done.map(|()| IoctlReply::Done)
    }
}

fn get_capability(c: &mut uapi::GetCap) -> Result<(), Errno> {
    c.value = match c.capability {
        cap::SYNCOBJ | cap::TIMESTAMP_MONOTONIC => 1,
        // Objects stay in the process that created them, and there is one device.
        cap::PRIME | cap::SYNCOBJ_TIMELINE => 0,
        _ => return Err(Errno::OPNOTSUPP),
    };
    Ok(())
}

/// Writes a string to a program's buffer of `len` bytes at a host address, and stores the full length.
fn write_text(memory: &dyn UserMemory, text: &str, at: u64, len: &mut u64) -> Result<(), Errno> {
    let room = usize::try_from(*len).unwrap_or(usize::MAX).min(text.len());
    if at != 0 && room > 0 {
        memory.write(at, text.as_bytes().get(..room).unwrap_or_default())?;
    }
    *len = text.len() as u64;
    Ok(())
}

/// Reads an array of handles from the program, at a host address.
fn read_handles(memory: &dyn UserMemory, at: u64, count: u32) -> Result<Vec<u32>, Errno> {
    if count > MAX_HANDLES {
        return Err(Errno::NOMEM);
    }
    let mut bytes = vec![0; count as usize * 4];
    if count > 0 {
        memory.read(at, &mut bytes)?;
    }
    Ok(bytes
        .chunks_exact(4)
        .map(|c| c.try_into().map_or(0, u32::from_le_bytes))
        .collect())
}

/// Reads a zero-terminated string from the program, at a host address.
pub(crate) fn read_name(memory: &dyn UserMemory, at: u64) -> Result<String, Errno> {
    let mut bytes = Vec::new();
    let mut next = at;
    while bytes.len() < MAX_NAME_BYTES {
        let mut one = [0];
        memory.read(next, &mut one)?;
        match one {
            [0] => return Ok(String::from_utf8_lossy(&bytes).into_owned()),
            [b] => bytes.push(b),
        }
        next = next.checked_add(1).ok_or(Errno::FAULT)?;
    }
    Err(Errno::TOOBIG)
}
