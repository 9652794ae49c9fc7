//! One open file of the node: its handles, its memory, its addresses.

use crate::Errno;
use crate::gpu::{ChainResult, Gpu};
use crate::memory::{Inode, Pool};
use crate::metadata::{GpuRange, LabelledObject};
use crate::object::{Object, TransferError};
use crate::sync::{Syncobjs, free_handle};
use crate::va::VaAllocator;
use driver_mali::SpaceId;
use std::collections::BTreeMap;
use trace_core::GpuVa;

/// Granularity of objects whose memory is allocated on GPU access, bytes.
const HEAP_PAGE: u64 = 2 << 20;
const PAGE: u64 = trace_core::PAGE_SIZE as u64;

/// An open file of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub(crate) u64);

/// State of an open file.
#[derive(Debug)]
pub(crate) struct OpenFile {
    pub pool: Pool,
    pub objects: BTreeMap<u32, Object>,
    pub syncobjs: Syncobjs,
    addresses: VaAllocator,
    /// The address space, once the file has an object.
    pub space: Option<SpaceId>,
    /// Mappings of named objects that were released.
    kept: Vec<(GpuVa, u64)>,
    /// Mappings of other released objects, and their labels.
    gone: Vec<(GpuVa, u64, Option<String>)>,
}

impl OpenFile {
    pub(crate) fn new(pool: Pool) -> Self {
        Self {
            pool,
            objects: BTreeMap::new(),
            syncobjs: Syncobjs::default(),
            addresses: VaAllocator::default(),
            space: None,
            kept: Vec::new(),
            gone: Vec::new(),
        }
    }

    pub(crate) fn inode(&self) -> Inode {
        self.pool.inode()
    }

    pub(crate) fn object(&self, handle: u32) -> Result<&Object, Errno> {
        self.objects.get(&handle).ok_or(Errno::NOENT)
    }

    /// Creates an object and returns its handle. `gpu` is absent once the recording has ended: then no work runs any
    /// more, and only memory is available.
    pub(crate) fn create(
        &mut self,
        gpu: Option<&mut Gpu>,
        size: u32,
        executable: bool,
        heap: bool,
    ) -> Result<u32, Errno> {
        let unit = if heap { HEAP_PAGE } else { PAGE };
        let bytes = u64::from(size).next_multiple_of(unit);
        if bytes == 0 {
            return Err(Errno::INVAL);
        }
        let handle = free_handle(&self.objects).ok_or(Errno::NOMEM)?;
        let mut gpu = gpu;
        let mut taken = self.take(gpu.as_deref_mut(), bytes, executable, heap);
        if let (Err(_), Some(gpu), Some(space)) = (&taken, gpu, self.space) {
            // Mappings of released objects can be what fills the space.
            self.unmap_gone(gpu, space).map_err(|_| Errno::NOMEM)?;
            taken = self.take(Some(gpu), bytes, executable, heap);
        }
        let (va, offset) = taken?;
        self.objects.insert(handle, Object::new(offset, bytes, va, heap));
        Ok(handle)
    }

    /// Allocates GPU addresses, device memory and a range of the memory file.
    fn take(&mut self, gpu: Option<&mut Gpu>, bytes: u64, executable: bool, heap: bool) -> Result<(GpuVa, u64), Errno> {
        let va = self.addresses.allocate(bytes, executable).ok_or(Errno::NOSPC)?;
        let mapped = match gpu {
            Some(gpu) if !heap => self.map(gpu, va, bytes, executable),
            _ => Ok(()),
        };
        let offset = mapped.and_then(|()| self.pool.allocate(bytes).ok_or(Errno::NOMEM));
        offset
            .map(|offset| (va, offset))
            .inspect_err(|_| self.addresses.release(va))
    }

    fn map(&mut self, gpu: &mut Gpu, va: GpuVa, bytes: u64, executable: bool) -> Result<(), Errno> {
        let space = match self.space {
            Some(space) => space,
            None => *self.space.insert(gpu.take_space().map_err(|_| Errno::NOMEM)?),
        };
        gpu.map(space, va, bytes, executable).map_err(|_| Errno::NOMEM)
    }

    /// Releases a handle. Mappings of the object stay as they are.
    ///
    /// The GPU's mapping is removed before the next chain runs, which is the first that could notice. A recording that
    /// ends with its program therefore shows memory as the last job left it. An object that the program named stays, so
    /// that its content is readable at the recording's end.
    pub(crate) fn close(&mut self, handle: u32) -> Result<(), Errno> {
        let object = self.objects.remove(&handle).ok_or(Errno::INVAL)?;
        self.pool.release(object.range());
        match (object.heap, object.named) {
            (true, _) => self.addresses.release(object.va),
            (false, true) => self.kept.push((object.va, object.bytes)),
            (false, false) => self.gone.push((object.va, object.bytes, object.label)),
        }
        Ok(())
    }

    /// Removes the mappings of released objects.
    fn unmap_gone(&mut self, gpu: &mut Gpu, space: SpaceId) -> Result<(), TransferError> {
        while let Some((va, bytes, _)) = self.gone.pop() {
            gpu.unmap(space, va, bytes)?;
            self.addresses.release(va);
        }
        Ok(())
    }

    /// Runs a chain: copies the program's bytes to the device, and the device's bytes back.
    pub(crate) fn run(&mut self, gpu: &mut Gpu, head: GpuVa, fragment: bool) -> Result<ChainResult, TransferError> {
        let space = match self.space {
            Some(space) => space,
            None => *self.space.insert(gpu.take_space()?),
        };
        self.unmap_gone(gpu, space)?;
        for object in self.objects.values_mut() {
            object.upload(&self.pool, gpu, space)?;
        }
        let end = gpu.run(space, head, fragment)?;
        for object in self.objects.values_mut() {
            object.download(&self.pool, gpu, space)?;
        }
        Ok(end)
    }

    /// Returns the labels of objects that the GPU has mapped.
    pub(crate) fn labels(&self) -> Vec<LabelledObject> {
        let Some(space) = self.space else { return Vec::new() };
        let open = self.objects.values().filter(|o| !o.heap);
        let open = open.map(|o| (o.va, o.bytes, o.label.as_deref()));
        let gone = self
            .gone
            .iter()
            .map(|(va, bytes, label)| (*va, *bytes, label.as_deref()));
        open.chain(gone)
            .filter_map(|(va, bytes, label)| {
                Some(LabelledObject {
                    place: GpuRange { space, va, bytes },
                    label: label.filter(|l| !l.is_empty())?.to_owned(),
                })
            })
            .collect()
    }

    /// Releases everything.
    pub(crate) fn end(self, gpu: Option<&mut Gpu>) {
        if let (Some(gpu), Some(space)) = (gpu, self.space) {
            let mut mapped = self.kept;
            mapped.extend(self.gone.into_iter().map(|(va, bytes, _)| (va, bytes)));
            mapped.extend(self.objects.values().filter(|o| !o.heap).map(|o| (o.va, o.bytes)));
            gpu.release_space(space, mapped);
        }
    }
}
