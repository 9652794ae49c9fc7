//! Sync objects: what a program waits for and exports to others as files.

use super::*;

impl Node {
    pub(super) fn syncobj_wait(&mut self, id: FileId, call: &IoctlCall<'_>) -> Result<IoctlReply, Errno> {
        let mut answer = IoctlReply::Done;
        call.with_structure(|w: &mut uapi::SyncobjWait| {
            let known = flag::WAIT_ALL | flag::WAIT_FOR_SUBMIT;
            if w.flags & !known != 0 || w.count == 0 {
                return Err(Errno::INVAL);
            }
            let file = self.file(id)?;
            let mut ready = Vec::new();
            for handle in read_handles(call.memory, w.handles, w.count)? {
                ready.push(file.syncobjs.get(handle).ok_or(Errno::NOENT)?.is_signaled());
            }
            let first = ready.iter().position(|r| *r);
            let all = w.flags & flag::WAIT_ALL != 0;
            if w.flags & flag::WAIT_FOR_SUBMIT == 0 && ready.contains(&false) {
                return Err(Errno::INVAL);
            }
            if all && ready.contains(&false) || first.is_none() {
                answer = IoctlReply::NotYet(w.timeout_ns);
                return Ok(());
            }
            w.first = first.and_then(|n| u32::try_from(n).ok()).unwrap_or(0);
            Ok(())
        })?;
        Ok(answer)
    }

    pub(super) fn syncobj(&mut self, id: FileId, call: &IoctlCall<'_>) -> Result<(), Errno> {
        let done = match call.request.number {
            number::SYNCOBJ_CREATE => call.with_structure(|s: &mut uapi::Syncobj| {
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
            number::SYNCOBJ_DESTROY => call.with_structure(|s: &mut uapi::Syncobj| {
                if s.flags != 0 {
                    return Err(Errno::INVAL);
                }
                self.file_mut(id)?.syncobjs.remove(s.handle)
            }),
            number::SYNCOBJ_HANDLE_TO_FD => {
                call.with_structure(|f: &mut uapi::SyncobjFile| self.syncobj_to_file(id, f))
            }
            number::SYNCOBJ_FD_TO_HANDLE => {
                call.with_structure(|f: &mut uapi::SyncobjFile| self.file_to_syncobj(id, f))
            }
            number::SYNCOBJ_RESET | number::SYNCOBJ_SIGNAL => call.with_structure(|a: &mut uapi::SyncobjArray| {
                if a.pad != 0 || a.count == 0 {
                    return Err(Errno::INVAL);
                }
                let file = self.file(id)?;
                let all = read_handles(call.memory, a.handles, a.count)?;
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

    pub(super) fn syncobj_to_file(&mut self, id: FileId, f: &mut uapi::SyncobjFile) -> Result<(), Errno> {
        if f.pad != 0 || f.flags & !flag::SYNC_FILE != 0 {
            return Err(Errno::INVAL);
        }
        let object = self.file(id)?.syncobjs.get(f.handle).ok_or(Errno::INVAL)?.clone();
        let fd = if f.flags & flag::SYNC_FILE == 0 {
            self.sync_files.export(object)
        } else if object.is_signaled() {
            self.sync_files.create_fence()
        } else {
            return Err(Errno::INVAL);
        };
        f.fd = fd.map_err(|_| Errno::MFILE)?.into_raw_fd();
        Ok(())
    }

    pub(super) fn file_to_syncobj(&mut self, id: FileId, f: &mut uapi::SyncobjFile) -> Result<(), Errno> {
        if f.pad != 0 || f.flags & !flag::SYNC_FILE != 0 {
            return Err(Errno::INVAL);
        }
        let inode = Inode::from_descriptor(f.fd).ok_or(Errno::INVAL)?;
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
}
