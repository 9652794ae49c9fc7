//! The render node: what each request of a program does.

use crate::Errno;
use crate::error::NodeError;
use crate::file::{FileId, OpenFile};
use crate::gpu::{Gpu, Ran};
use crate::journal::Journal;
use crate::memory::{self, Inode, Pool};
use crate::params::Params;
use crate::sync::{SyncFiles, Syncobj};
use crate::told::{Labelled, Named, Place, Source, Told};
use crate::uapi::{self, Request, cap, family, flag, number};
use crate::user::UserMemory;
use bytemuck::Pod;
use driver_mali::SpaceId;
use replay_engine::device::Board;
use std::collections::BTreeMap;
use std::os::fd::{IntoRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use trace_core::recording::LostEvents;
use trace_core::{GpuVa, Recording};

/// What the driver says of itself: 1.2, which knows heaps, objects without shaders, and compressed framebuffers.
const VERSION: (i32, i32, i32) = (1, 2, 0);
const NAME: &str = "panfrost";
const DATE: &str = "20180908";
const DESCRIPTION: &str = "panfrost DRM";
/// The bus address of a device that is on no bus.
const UNIQUE: &str = "kinescope";
/// Most handles that a request may name.
const MOST_HANDLES: u32 = 1 << 16;
/// Longest name of a buffer object, and of a buffer, in bytes.
const LONGEST_NAME: usize = 4096;

/// What a recording is of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Name of the software device: `mali-g71`.
    pub device: String,
    /// What the program is called.
    pub program: String,
    /// Where what is recorded so far is kept while the program runs; nowhere without it.
    pub journal: Option<PathBuf>,
    /// Bytes, about, at which the recording ends; the program goes on. None without it.
    pub limit: Option<u64>,
}

/// What becomes of a request.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is done; this is what `ioctl` returns.
    Done,
    /// What is waited for is not there. To be asked again, until this time on the monotonic clock, in ns; then the
    /// error is [`Errno::TIME`].
    NotYet(i64),
}

/// The node as it was opened.
#[derive(Debug)]
pub struct Opened {
    /// The file.
    pub id: FileId,
    /// The descriptor for the program, which maps buffer objects by it.
    pub descriptor: OwnedFd,
    /// What tells that descriptor and its copies from others.
    pub inode: Inode,
    /// The descriptor that the node itself holds, by number.
    pub own: i32,
}

/// The GPU, from before its boot to after the recording's end.
enum Stage {
    /// Nothing was asked of it yet.
    Off(Box<dyn Board>),
    On(Box<Gpu>),
    /// Something went wrong: chains complete without running, and what was recorded is still to be handed over.
    Broken(Box<Gpu>),
    /// The recording is over: chains complete without running.
    Ended,
}

/// A render node and all that programs have of it.
pub struct Node {
    settings: Settings,
    params: Params,
    stage: Stage,
    files: BTreeMap<FileId, OpenFile>,
    next_file: u64,
    sync_files: SyncFiles,
    told_of: Told,
    journal: Option<Journal>,
    /// The recording reached its limit.
    full: bool,
    /// What a person should be told, not yet said.
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
    /// A node over the software device that the settings name. The device stays off until a program wants memory.
    ///
    /// # Errors
    /// When there is no such device.
    pub fn new(settings: Settings) -> Result<Self, NodeError> {
        let board = device_mali::factory(&settings.device);
        let mut board = board.ok_or_else(|| NodeError::NoDevice {
            name: settings.device.clone(),
        })?;
        Ok(Self {
            params: Params::read(&mut *board)?,
            settings,
            stage: Stage::Off(board),
            files: BTreeMap::new(),
            next_file: 0,
            sync_files: SyncFiles::default(),
            told_of: Told::default(),
            journal: None,
            full: false,
            messages: Vec::new(),
            submits: 0,
        })
    }

    /// Opens the node.
    ///
    /// # Errors
    /// When the system has no further files.
    pub fn open(&mut self, close_on_exec: bool) -> Result<Opened, Errno> {
        let pool = Pool::new().map_err(|e| {
            self.messages.push(format!("the render node cannot be opened: {e}"));
            Errno::NFILE
        })?;
        let opened = Opened {
            id: FileId(self.next_file),
            descriptor: pool.open_again(close_on_exec).map_err(|_| Errno::MFILE)?,
            inode: pool.inode(),
            own: pool.own_descriptor(),
        };
        self.next_file += 1;
        self.files.insert(opened.id, OpenFile::new(pool));
        Ok(opened)
    }

    /// The last descriptor of a file is gone: gives back what it held.
    pub fn close(&mut self, id: FileId) {
        if let Some(file) = self.files.remove(&id) {
            self.told_of.keep_labels(file.labels());
            file.end(match &mut self.stage {
                Stage::On(gpu) => Some(gpu),
                _ => None,
            });
        }
    }

    /// What a person should be told since the last call.
    pub fn take_told(&mut self) -> Vec<String> {
        std::mem::take(&mut self.messages)
    }

    /// Number of chains that were submitted.
    #[must_use]
    pub fn submits(&self) -> u64 {
        self.submits
    }

    /// Whether a program may map this range of the node: of one object, from its first byte on, and shared.
    ///
    /// # Errors
    /// [`Errno::INVAL`] when it may not.
    pub fn may_map(&self, id: FileId, offset: u64, bytes: u64, shared: bool) -> Result<(), Errno> {
        let file = self.files.get(&id).ok_or(Errno::BADF)?;
        let object = file.objects.values().find(|o| o.offset == offset && !o.heap);
        let fits = object.is_some_and(|o| bytes > 0 && bytes <= o.bytes);
        if fits && shared { Ok(()) } else { Err(Errno::INVAL) }
    }

    /// Does what a program asks of an open file. `arg` is the address of the request's structure.
    ///
    /// # Errors
    /// What the program sees as `errno`.
    pub fn ioctl(&mut self, id: FileId, raw: u32, arg: u64, memory: &dyn UserMemory) -> Result<Answer, Errno> {
        let request = Request::new(raw);
        if request.family != family::DRM {
            return Err(Errno::NOTTY);
        }
        let call = Call { request, arg, memory };
        match request.number {
            number::VERSION => call.with(|v: &mut uapi::Version| {
                (v.major, v.minor, v.patch) = VERSION;
                text(memory, NAME, v.name, &mut v.name_len)?;
                text(memory, DATE, v.date, &mut v.date_len)?;
                text(memory, DESCRIPTION, v.desc, &mut v.desc_len)
            }),
            number::GET_UNIQUE => call.with(|u: &mut uapi::Unique| text(memory, UNIQUE, u.at, &mut u.len)),
            number::GET_CAP => call.with(capability),
            number::GET_PARAM => call.with(|p: &mut uapi::GetParam| {
                if p.pad != 0 {
                    return Err(Errno::INVAL);
                }
                p.value = self.params.get(p.param).ok_or(Errno::INVAL)?;
                Ok(())
            }),
            number::GEM_CLOSE => call.with(|c: &mut uapi::GemClose| self.file_mut(id)?.close(c.handle)),
            number::CREATE_BO => call.with(|c: &mut uapi::CreateBo| self.create_bo(id, c)),
            number::MMAP_BO => call.with(|m: &mut uapi::MmapBo| {
                let object = self.file(id)?.object(m.handle)?;
                if m.flags != 0 || object.heap {
                    return Err(Errno::INVAL);
                }
                m.offset = object.offset;
                Ok(())
            }),
            number::GET_BO_OFFSET => call.with(|o: &mut uapi::GetBoOffset| {
                o.offset = self.file(id)?.object(o.handle)?.va.0;
                Ok(())
            }),
            number::WAIT_BO => call.with(|w: &mut uapi::WaitBo| {
                if w.pad != 0 {
                    return Err(Errno::INVAL);
                }
                // Work is done when its submit returns.
                self.file(id)?.object(w.handle).map(drop)
            }),
            number::MADVISE => call.with(|m: &mut uapi::Madvise| {
                self.file(id)?.object(m.handle)?;
                if ![flag::WILL_NEED, flag::DONT_NEED].contains(&m.madv) {
                    return Err(Errno::INVAL);
                }
                m.retained = 1;
                Ok(())
            }),
            number::SET_LABEL_BO => call.with(|l: &mut uapi::SetLabelBo| self.set_label(id, l, memory)),
            number::SUBMIT => call.with(|s: &mut uapi::Submit| self.submit(id, s, memory)),
            number::PERFCNT_ENABLE | number::PERFCNT_DUMP => Err(Errno::NOSYS),
            number::PRIME_HANDLE_TO_FD | number::PRIME_FD_TO_HANDLE => Err(Errno::OPNOTSUPP),
            number::SYNCOBJ_WAIT => self.syncobj_wait(id, &call),
            number::SYNCOBJ_CREATE..=number::SYNCOBJ_SIGNAL => self.syncobj(id, &call).map(|()| Answer::Done),
            _ => Err(Errno::INVAL),
        }
    }

    /// What a program asks of a file that it has for a fence.
    ///
    /// # Errors
    /// What the program sees as `errno`; [`Errno::NOTTY`] when the file is none.
    pub fn sync_file_ioctl(
        &mut self,
        inode: Inode,
        raw: u32,
        arg: u64,
        memory: &dyn UserMemory,
    ) -> Result<Answer, Errno> {
        let request = Request::new(raw);
        if request.family != family::SYNC_FILE || !self.sync_files.is_fence(inode) {
            return Err(Errno::NOTTY);
        }
        let call = Call { request, arg, memory };
        match request.number {
            number::SYNC_MERGE => call.with(|m: &mut uapi::SyncMerge| {
                let other = Inode::of_descriptor(m.other).ok_or(Errno::NOENT)?;
                if m.flags != 0 || m.pad != 0 || !self.sync_files.is_fence(other) {
                    return Err(Errno::INVAL);
                }
                let fd = self.sync_files.fence().map_err(|_| Errno::MFILE)?;
                m.fence = fd.into_raw_fd();
                Ok(())
            }),
            number::SYNC_FILE_INFO => call.with(|i: &mut uapi::SyncFileInfo| {
                (i.status, i.fences) = (1, 0);
                Ok(())
            }),
            _ => Err(Errno::NOTTY),
        }
    }

    /// Whether a descriptor is one for a fence.
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

    /// Switches the GPU on, where it is still off.
    fn boot(&mut self) {
        match std::mem::replace(&mut self.stage, Stage::Ended) {
            Stage::Off(board) => match Gpu::boot(board, &self.settings.program) {
                Ok(gpu) => self.stage = Stage::On(Box::new(gpu)),
                Err(e) => self.give_up(format!("the GPU does not come up: {e}")),
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
        c.offset = file.object(handle)?.va.0;
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
        for handle in handles(memory, s.in_syncs, s.in_sync_count)? {
            // What is waited for was signaled when its submit returned; a fence that is not there is an error.
            let ready = file.syncobjs.get(handle).is_some_and(Syncobj::signaled);
            if !ready {
                return Err(Errno::INVAL);
            }
        }
        for handle in handles(memory, s.bo_handles, s.bo_handle_count)? {
            file.object(handle)?;
        }
        self.boot();
        self.submits += 1;
        if let (Stage::On(gpu), Some(file)) = (&mut self.stage, self.files.get_mut(&id)) {
            let fragment = s.requirements & flag::FRAGMENT != 0;
            match file.run(gpu, GpuVa(s.jc), fragment) {
                Ok(ran) => {
                    if !self.full {
                        self.told_of.ran(GpuVa(s.jc), &ran);
                    }
                    // The recording shows it; the program learns of it as on a board, from what is not there.
                    self.messages.extend(complaint(s.jc, &ran));
                }
                Err(e) => self.give_up(format!("the chain at {:#x}: {e}", s.jc)),
            }
        }
        if let Some(out) = out {
            out.signal();
        }
        self.look_at_limit();
        self.keep();
        Ok(())
    }

    fn syncobj_wait(&mut self, id: FileId, call: &Call<'_>) -> Result<Answer, Errno> {
        let mut answer = Answer::Done;
        call.with(|w: &mut uapi::SyncobjWait| {
            let known = flag::WAIT_ALL | flag::WAIT_FOR_SUBMIT;
            if w.flags & !known != 0 || w.count == 0 {
                return Err(Errno::INVAL);
            }
            let file = self.file(id)?;
            let mut ready = Vec::new();
            for handle in handles(call.memory, w.handles, w.count)? {
                ready.push(file.syncobjs.get(handle).ok_or(Errno::NOENT)?.signaled());
            }
            let first = ready.iter().position(|r| *r);
            let all = w.flags & flag::WAIT_ALL != 0;
            if w.flags & flag::WAIT_FOR_SUBMIT == 0 && ready.contains(&false) {
                return Err(Errno::INVAL);
            }
            if all && ready.contains(&false) || first.is_none() {
                answer = Answer::NotYet(w.timeout_ns);
                return Ok(());
            }
            w.first = first.and_then(|n| u32::try_from(n).ok()).unwrap_or(0);
            Ok(())
        })?;
        Ok(answer)
    }

    fn syncobj(&mut self, id: FileId, call: &Call<'_>) -> Result<(), Errno> {
        let done = match call.request.number {
            number::SYNCOBJ_CREATE => call.with(|s: &mut uapi::Syncobj| {
                if s.flags & !flag::CREATE_SIGNALED != 0 {
                    return Err(Errno::INVAL);
                }
                let object = Syncobj::default();
                if s.flags & flag::CREATE_SIGNALED != 0 {
                    object.signal();
                }
                s.handle = self.file_mut(id)?.syncobjs.add(object)?;
                Ok(())
            }),
            number::SYNCOBJ_DESTROY => call.with(|s: &mut uapi::Syncobj| {
                if s.flags != 0 {
                    return Err(Errno::INVAL);
                }
                self.file_mut(id)?.syncobjs.remove(s.handle)
            }),
            number::SYNCOBJ_HANDLE_TO_FD => call.with(|f: &mut uapi::SyncobjFile| self.syncobj_to_file(id, f)),
            number::SYNCOBJ_FD_TO_HANDLE => call.with(|f: &mut uapi::SyncobjFile| self.file_to_syncobj(id, f)),
            number::SYNCOBJ_RESET | number::SYNCOBJ_SIGNAL => call.with(|a: &mut uapi::SyncobjArray| {
                if a.pad != 0 || a.count == 0 {
                    return Err(Errno::INVAL);
                }
                let file = self.file(id)?;
                let all = handles(call.memory, a.handles, a.count)?;
                let all: Option<Vec<_>> = all.into_iter().map(|h| file.syncobjs.get(h)).collect();
                let signal = call.request.number == number::SYNCOBJ_SIGNAL;
                for object in all.ok_or(Errno::NOENT)? {
                    if signal { object.signal() } else { object.reset() }
                }
                Ok(())
            }),
            _ => Err(Errno::INVAL),
        };
        done.map(drop)
    }

    fn syncobj_to_file(&mut self, id: FileId, f: &mut uapi::SyncobjFile) -> Result<(), Errno> {
        if f.pad != 0 || f.flags & !flag::SYNC_FILE != 0 {
            return Err(Errno::INVAL);
        }
        let object = self.file(id)?.syncobjs.get(f.handle).ok_or(Errno::INVAL)?.clone();
        let fd = if f.flags & flag::SYNC_FILE == 0 {
            self.sync_files.export(object)
        } else if object.signaled() {
            self.sync_files.fence()
        } else {
            return Err(Errno::INVAL);
        };
        f.fd = fd.map_err(|_| Errno::MFILE)?.into_raw_fd();
        Ok(())
    }

    fn file_to_syncobj(&mut self, id: FileId, f: &mut uapi::SyncobjFile) -> Result<(), Errno> {
        if f.pad != 0 || f.flags & !flag::SYNC_FILE != 0 {
            return Err(Errno::INVAL);
        }
        let inode = Inode::of_descriptor(f.fd).ok_or(Errno::INVAL)?;
        if f.flags & flag::SYNC_FILE == 0 {
            let object = self.sync_files.import(inode).ok_or(Errno::INVAL)?;
            f.handle = self.file_mut(id)?.syncobjs.add(object)?;
        } else {
            let fence = self.sync_files.is_fence(inode);
            let object = self.file(id)?.syncobjs.get(f.handle).filter(|_| fence);
            object.ok_or(Errno::INVAL)?.signal();
        }
        Ok(())
    }

    /// Names the buffer object's bytes that lie at an address of the program.
    ///
    /// # Errors
    /// [`Errno::FAULT`] when the address is in no mapping of a buffer object, [`Errno::INVAL`] when the range leaves
    /// the object, or the name is empty.
    pub fn name_buffer(&mut self, address: u64, bytes: u64, named: Named) -> Result<(), Errno> {
        let mapping = memory::mapping_at(address).ok_or(Errno::FAULT)?;
        let mut files = self.files.values_mut();
        let file = files.find(|f| f.inode() == mapping.inode).ok_or(Errno::FAULT)?;
        let at = mapping.offset + (address - mapping.addresses.start);
        let object = file
            .objects
            .values_mut()
            .find(|o| o.range().contains(&at))
            .ok_or(Errno::FAULT)?;
        let inside = at.checked_add(bytes).is_some_and(|end| end <= object.range().end);
        let (Some(space), true, false) = (file.space, inside && bytes > 0, named.name.is_empty()) else {
            return Err(Errno::INVAL);
        };
        let place = Place {
            va: GpuVa(object.va.0 + (at - object.offset)),
            space,
            bytes,
        };
        object.named = true;
        if !self.full {
            self.told_of.name(named, place);
        }
        Ok(())
    }

    /// Something went wrong that is not the program's fault: the recording ends here, and the program goes on with
    /// chains that do nothing.
    fn give_up(&mut self, why: String) {
        self.messages.push(format!(
            "{why}; the recording ends here, and the program's further GPU work completes without running"
        ));
        if let Stage::On(gpu) = std::mem::replace(&mut self.stage, Stage::Ended) {
            self.stage = Stage::Broken(gpu);
        }
        self.told_of.trouble.get_or_insert(why);
    }

    /// Whether something was recorded that is not handed over yet.
    #[must_use]
    pub fn has_recording(&self) -> bool {
        matches!(self.stage, Stage::On(_) | Stage::Broken(_))
    }

    /// Ends the recording. From here on chains complete without running. `None` when nothing was recorded.
    ///
    /// # Errors
    /// When the device fails on its way down.
    pub fn finish(&mut self) -> Result<Option<Recording>, NodeError> {
        let gpu = match std::mem::replace(&mut self.stage, Stage::Ended) {
            Stage::On(gpu) | Stage::Broken(gpu) => gpu,
            other => {
                self.stage = other;
                return Ok(None);
            }
        };
        self.retain_names(&gpu);
        let labels = self.labels();
        // What stands in the file is complete up to its last commit; the rest is the caller's to write.
        self.journal = None;
        let mut recording = gpu.finish()?;
        let (events, source) = (recording.events.len() as u64, Source::now(&self.settings.program));
        self.told_of.tell(&mut recording.facts, &source, events, labels);
        recording.extras.extend(self.told_of.extras());
        Ok(Some(recording))
    }

    /// Names from a file whose space went to another one are of nothing any more.
    fn retain_names(&mut self, gpu: &Gpu) {
        let current: Vec<SpaceId> = self.files.values().filter_map(|f| f.space).collect();
        self.told_of
            .retain(|space| current.contains(&space) || gpu.is_free(space));
    }

    fn labels(&self) -> Vec<Labelled> {
        if self.full {
            return Vec::new();
        }
        self.files.values().flat_map(OpenFile::labels).collect()
    }

    /// Ends the recording where it has become too large. The program's work goes on.
    fn look_at_limit(&mut self) {
        let (Stage::On(gpu), Some(limit), false) = (&mut self.stage, self.settings.limit, self.full) else {
            return;
        };
        if gpu.weight() <= limit {
            return;
        }
        let why = format!("it has reached its limit of {limit} bytes");
        let labels: Vec<Labelled> = self.files.values().flat_map(OpenFile::labels).collect();
        let done = gpu.end_recording();
        self.full = true;
        self.told_of.keep_labels(labels);
        match done {
            Ok(()) => {
                self.messages.push(format!(
                    "the recording ends here: {why}; the program goes on, and what it does from here on is not recorded"
                ));
                self.told_of.trouble = Some(why);
            }
            Err(e) => self.give_up(format!("{why}, and its memory cannot be taken down: {e}")),
        }
    }

    /// Writes what has come since the last time to the disk, where it is time to: for a program that ends without
    /// anybody's having a chance to. A failure is told, and is none of the program's.
    pub fn keep(&mut self) {
        let (Stage::On(gpu) | Stage::Broken(gpu), Some(path)) = (&self.stage, &self.settings.journal) else {
            return;
        };
        let events = gpu.events();
        if self.submits == 0 || self.journal.as_ref().is_some_and(|j| !j.is_due(events)) {
            return;
        }
        if let Err(e) = self.write_journal(&path.clone(), events) {
            let held = self.journal.take().map_or(0, |j| j.events());
            self.settings.journal = None;
            self.messages.push(format!(
                "what is recorded cannot be kept on the disk while the program runs: {e}; {held} events are safe, the \
                 others are written when the program ends, if they can be"
            ));
        }
    }

    fn write_journal(&mut self, path: &Path, events: u64) -> Result<(), NodeError> {
        let labels = self.labels();
        let (Stage::On(gpu) | Stage::Broken(gpu)) = &self.stage else {
            return Ok(());
        };
        let journal = match &mut self.journal {
            Some(journal) => journal,
            None => self.journal.insert(Journal::begin(path)?),
        };
        let source = Source::now(&self.settings.program);
        let told = &self.told_of;
        journal.commit(events, &told.extras(), |writer| {
            gpu.append_to(writer, |facts| {
                told.tell(facts, &source, events, labels);
                if told.trouble.is_none() {
                    facts.lost.push(LostEvents {
                        before_event: events,
                        count: None,
                        reason: UNFINISHED.to_owned(),
                    });
                }
            })
        })
    }

    /// The file that is written while the program runs, and the descriptor that it is written by.
    #[must_use]
    pub fn journal(&self) -> Option<(&Path, i32)> {
        self.journal.as_ref().map(|j| (j.path(), j.descriptor()))
    }

    /// This process is a child of the one that records: what is on the disk is its parent's.
    pub fn forget_journal(&mut self) {
        // Closing it properly would end the parent's hold on it.
        std::mem::forget(self.journal.take());
        self.settings.journal = None;
    }
}

/// What a recording says of itself whose program ended before it was written.
const UNFINISHED: &str = "the program was ended before the recording was finished: what it did last is missing, and so \
                          is what jobs left in memory";

/// What a person should know of a chain's end; nothing of one that is done.
fn complaint(head: u64, ran: &Ran) -> Option<String> {
    let status = ran.end.status;
    let why = ran.report.reason.as_deref();
    Some(match (ran.end.fault_address, why) {
        _ if ran.end.is_done() => return None,
        (Some(at), _) => format!("the chain at {head:#x} failed: {at} (status {status:#x})"),
        (None, Some(why)) => format!("the chain at {head:#x} failed with status {status:#x}: {why}"),
        (None, None) => format!("the chain at {head:#x} failed with status {status:#x}"),
    })
}

/// A request with what it takes to answer it.
struct Call<'a> {
    request: Request,
    arg: u64,
    memory: &'a dyn UserMemory,
}

impl Call<'_> {
    /// Fetches the request's structure, lets `answer` fill it in, and gives it back, also when it fails. A program
    /// that knows less of the structure than this node gives and gets that much of it.
    fn with<T: Pod>(&self, answer: impl FnOnce(&mut T) -> Result<(), Errno>) -> Result<Answer, Errno> {
        let mut value = T::zeroed();
        let known = self.request.bytes.min(size_of::<T>());
        if self.request.takes {
            let bytes = bytemuck::bytes_of_mut(&mut value);
            self.memory.read(self.arg, bytes.get_mut(..known).unwrap_or_default())?;
        }
        let done = answer(&mut value);
        if self.request.gives {
            let bytes = bytemuck::bytes_of(&value);
            self.memory.write(self.arg, bytes.get(..known).unwrap_or_default())?;
        }
        done.map(|()| Answer::Done)
    }
}

fn capability(c: &mut uapi::GetCap) -> Result<(), Errno> {
    c.value = match c.capability {
        cap::SYNCOBJ | cap::TIMESTAMP_MONOTONIC => 1,
        // Objects stay in the process that made them, and there is one device.
        cap::PRIME | cap::SYNCOBJ_TIMELINE => 0,
        _ => return Err(Errno::OPNOTSUPP),
    };
    Ok(())
}

/// Gives a text to a program that made room for `len` bytes, and tells the whole length.
fn text(memory: &dyn UserMemory, text: &str, at: u64, len: &mut u64) -> Result<(), Errno> {
    let room = usize::try_from(*len).unwrap_or(usize::MAX).min(text.len());
    if at != 0 && room > 0 {
        memory.write(at, text.as_bytes().get(..room).unwrap_or_default())?;
    }
    *len = text.len() as u64;
    Ok(())
}

/// Handles of an array of the program.
fn handles(memory: &dyn UserMemory, at: u64, count: u32) -> Result<Vec<u32>, Errno> {
    if count > MOST_HANDLES {
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

/// A text of the program that ends in zero.
pub(crate) fn read_name(memory: &dyn UserMemory, at: u64) -> Result<String, Errno> {
    let mut bytes = Vec::new();
    let mut next = at;
    while bytes.len() < LONGEST_NAME {
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
