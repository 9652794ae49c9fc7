//! `RM_ALLOC` and `RM_ALLOC_MEMORY`.

use crate::caller::Caller;
use crate::card;
use crate::files::State;
use crate::gpu::address_space::{AddressSpace, DEFAULT_SPACE_BASE, PAGE_BYTES, SPACE_END};
use crate::gpu::channel::{ChannelRequest, UserData};
use crate::gpu::kernels::is_hopper_class;
use crate::gpu::memory::{Memory, MemoryKind};
use crate::gpu::{ENGINE_GR0, Group};
use crate::objects::{Body, Object};
use crate::record::{Record, allocation_bytes};
use crate::shared_memory::SharedMemory;
use crate::status::{RmResult, RmStatus};
use nvidia_channel::GpuVa;
use std::os::fd::RawFd;
use std::sync::Arc;

const ROOT: u32 = 0x41;
const DEVICE: u32 = 0x80;
const SUBDEVICE: u32 = 0x2080;
const MEMORY_LOCAL: u32 = 0x40;
const MEMORY_SYSTEM: u32 = 0x3e;
const MEMORY_PROGRAM: u32 = 0x71;
const MEMORY_VIRTUAL: u32 = 0x70;
const NV50_MEMORY_VIRTUAL: u32 = 0x50a0;
const ADDRESS_SPACE: u32 = 0x90f1;
const CHANNEL_GROUP: u32 = 0xa06c;
const CONTEXT_SHARE: u32 = 0x9067;
const DEBUGGER: u32 = 0x83de;
const THIRD_PARTY_P2P: u32 = 0x503c;
const EVENT: u32 = 0x79;
/// Data about the GPU that the driver keeps current.
const USER_SHARED_DATA: u32 = 0xde;

/// Fields of the memory attributes.
const ATTR_PAGE_SIZE: u64 = 3 << 23;
const ATTR_PAGE_SIZE_4K: u64 = 1 << 23;
const ATTR_PAGE_SIZE_HUGE: u64 = 3 << 23;
const ATTR_PHYSICALITY: u64 = 3 << 27;
const ATTR_NONCONTIGUOUS: u64 = 1 << 27;
const ATTR_CONTIGUOUS: u64 = 2 << 27;
const ATTR_LOCATION: u64 = 3 << 25;
const ATTR_LOCATION_PCI: u64 = 1 << 25;
const ATTR2_ZBC: u64 = 1;
const ATTR2_CACHEABLE: u64 = 3 << 2;
const ATTR2_CACHEABLE_YES: u64 = 1 << 2;
const ATTR2_CACHEABLE_NO: u64 = 2 << 2;
const ATTR2_HUGE_2M: u64 = 1 << 20;
/// Bytes of a huge page.
const HUGE_PAGE_BYTES: u64 = 0x20_0000;
/// Attributes of a range of virtual memory.
const VIRTUAL_MEMORY_ATTR: u64 = 0x1600_0000;
/// Storage format that the driver chooses.
const FORMAT_GENERIC: u64 = 6;
/// The flag that the driver sets in each channel.
const CHANNEL_FLAG: u64 = 0x20;
/// Number that the driver gives to each context share.
const SUBCONTEXT: u64 = 63;
/// Bytes of a channel's user data.
const USER_DATA_BYTES: u64 = 512;

/// Returns whether a class is that of a channel.
fn is_channel(class: u32) -> bool {
    matches!(class, 0xc36f | 0xc46f | 0xc56f | 0xc86f)
}

/// Returns whether a class is that of the user-mode page.
fn is_user_mode(class: u32) -> bool {
    matches!(class, 0xc361 | 0xc461 | 0xc561 | 0xc661)
}

/// Returns whether a class is that of a compute engine.
fn is_compute(class: u32) -> bool {
    is_engine(class) && class & 0xff == 0xc0
}

/// Returns whether a class is that of an engine that channels have.
fn is_engine(class: u32) -> bool {
    class > 0x9000 && matches!(class & 0xff, 0x97 | 0xb5 | 0xc0 | 0x2d | 0x40)
}

/// Returns whether objects of a class may have no parameters.
fn has_optional_parameters(class: u32) -> bool {
    matches!(class, ROOT | DEVICE | SUBDEVICE | THIRD_PARTY_P2P) || is_user_mode(class) || is_engine(class)
}

impl State {
    /// Answers `RM_ALLOC`.
    pub(super) fn allocate(&mut self, caller: Caller, fd: RawFd, argument: &mut Record) -> RmResult {
        let class = argument.word("hClass");
        self.settings.check_allocation(class)?;
        let handle = argument.word("hObjectNew");
        if matches!(class, 0 | 1 | ROOT) {
            let client = self.create_client(fd, handle)?;
            argument.set("hObjectNew", u64::from(client));
            return Ok(());
        }
        let client = argument.word("hRoot");
        let parent = argument.word("hObjectParent");
        self.check_new_object(client, parent, handle, class)?;
        let address = argument.get("pAllocParms");
        let mut parameters = self.read_parameters(caller, class, address, argument.get("paramsSize"))?;
        let body = self.create_body(client, parent, class, parameters.as_mut())?;
        let handle = self.insert_object(client, handle, Object { parent, class, body })?;
        argument.set("hObjectNew", u64::from(handle));
        if let Some(parameters) = parameters {
            let written = caller.write(address, parameters.bytes());
            written.map_err(|_| RmStatus::INVALID_ADDRESS)?;
        }
        Ok(())
    }

    /// Checks client, handle, class and parent of a new object.
    fn check_new_object(&self, client: u32, parent: u32, handle: u32, class: u32) -> RmResult {
        let owner = self.client(client)?;
        if !is_hopper_class(class) {
            return Err(RmStatus::INVALID_CLASS);
        }
        if handle != 0 && (handle == client || owner.objects.contains_key(&handle)) {
            return Err(RmStatus::DUPLICATE_NAME);
        }
        let parent_class = match owner.object(parent) {
            Some(object) => object.class,
            None if parent == client => ROOT,
            None => return Err(RmStatus::INVALID_OBJECT_PARENT),
        };
        let fits = match class {
            DEVICE => parent_class == ROOT,
            SUBDEVICE | ADDRESS_SPACE | CHANNEL_GROUP | DEBUGGER => parent_class == DEVICE,
            MEMORY_LOCAL | MEMORY_SYSTEM | MEMORY_PROGRAM | MEMORY_VIRTUAL | NV50_MEMORY_VIRTUAL => {
                parent_class == DEVICE
            }
            THIRD_PARTY_P2P => parent_class == SUBDEVICE,
            CONTEXT_SHARE => parent_class == CHANNEL_GROUP,
            class if is_user_mode(class) => parent_class == SUBDEVICE,
            class if is_channel(class) => parent_class == CHANNEL_GROUP,
            class if is_engine(class) => is_channel(parent_class),
            _ => true,
        };
        fits.then_some(()).ok_or(RmStatus::INVALID_OBJECT_PARENT)
    }

    /// Reads the parameters of an allocation. `size` 0 stands for the size of the class.
    fn read_parameters(&self, caller: Caller, class: u32, address: u64, size: u64) -> RmResult<Option<Record>> {
        let branch = self.settings.branch;
        let Some(expected) = allocation_bytes(branch, class) else {
            return Ok(None);
        };
        if address == 0 {
            let optional = has_optional_parameters(class) && size == 0;
            return optional.then_some(None).ok_or(RmStatus::INVALID_ARGUMENT);
        }
        if size != 0 && size != expected as u64 {
            return Err(RmStatus::INVALID_PARAM_STRUCT);
        }
        let bytes = caller.read_vec(address, expected);
        let bytes = bytes.map_err(|_| RmStatus::INVALID_ADDRESS)?;
        let record = Record::allocation(branch, class, bytes);
        record.map(Some).map_err(|_| RmStatus::INVALID_PARAM_STRUCT)
    }

    /// Stores an object. `handle` 0 lets the driver choose.
    fn insert_object(&mut self, client: u32, handle: u32, object: Object) -> RmResult<u32> {
        let (parent, class) = (object.parent, object.class);
        let channel = match self.object(client, parent).map(|parent| &parent.body) {
            Ok(Body::Channel(channel)) => Some(*channel),
            _ => None,
        };
        let owner = self.clients.get_mut(&client).ok_or(RmStatus::INVALID_CLIENT)?;
        let handle = match handle {
            0 => owner.choose_handle(),
            handle => handle,
        };
        owner.objects.insert(handle, object);
        if class == CHANNEL_GROUP {
            // The driver makes an object of its own below each group.
            let _ = owner.choose_handle();
        }
        let channel = channel.and_then(|channel| self.gpu.channels.get_mut(&channel));
        if let Some(channel) = channel.filter(|_| is_engine(class)) {
            channel.objects.insert(handle, class);
        }
        Ok(handle)
    }

    /// Creates what an object of a class is on the device, and fills in what the driver returns.
    fn create_body(&mut self, client: u32, parent: u32, class: u32, parameters: Option<&mut Record>) -> RmResult<Body> {
        if is_user_mode(class) {
            let registers = Arc::clone(&self.gpu.registers);
            let in_window = parameters.is_some_and(|parameters| parameters.get("bBar1Mapping") != 0);
            let address = match in_window {
                true => card::USER_MODE_WINDOW_ADDRESS,
                false => card::USER_MODE_ADDRESS,
            };
            let memory = Memory::new(MemoryKind::Registers, address, registers);
            return Ok(Body::Memory(Arc::new(memory)));
        }
        if class == USER_SHARED_DATA {
            let memory = SharedMemory::new(c"nvidia-shared", PAGE_BYTES).map_err(|_| RmStatus::NO_MEMORY)?;
            let memory = Memory::new(MemoryKind::System, 0, Arc::new(memory));
            return Ok(Body::Memory(Arc::new(memory)));
        }
        if is_compute(class) {
            return Ok(Body::Compute(Arc::new(Memory::scheduler_page())));
        }
        let Some(parameters) = parameters else {
            return Ok(Body::Plain);
        };
        match class {
            DEVICE => {
                let only = parameters.get("deviceId") == 0;
                only.then_some(Body::Plain).ok_or(RmStatus::INVALID_ARGUMENT)
            }
            SUBDEVICE => {
                let only = parameters.get("subDeviceId") == 0;
                only.then_some(Body::Plain).ok_or(RmStatus::INVALID_ARGUMENT)
            }
            ADDRESS_SPACE => {
                if parameters.get("vaBase") == 0 {
                    parameters.set("vaBase", DEFAULT_SPACE_BASE.0);
                }
                let base = GpuVa(parameters.get("vaBase"));
                if base.0 >= SPACE_END {
                    return Err(RmStatus::INVALID_ARGUMENT);
                }
                if parameters.get("vaSize") == 0 {
                    parameters.set("vaSize", SPACE_END - base.0);
                }
                let id = self.gpu.allocate_id();
                self.gpu.spaces.insert(id, AddressSpace::new(base));
                Ok(Body::AddressSpace(id))
            }
            MEMORY_VIRTUAL => {
                let space = self.space(client, parameters.word("hVASpace"))?;
                if parameters.get("limit") == 0 {
                    parameters.set("limit", SPACE_END - 1);
                }
                Ok(Body::VirtualMemory(space))
            }
            NV50_MEMORY_VIRTUAL => self.create_virtual_range(client, parameters),
            MEMORY_LOCAL | MEMORY_SYSTEM => self.create_memory(class, parameters),
            CHANNEL_GROUP => {
                let space = match parameters.word("hVASpace") {
                    0 => None,
                    handle => Some(self.space(client, handle)?),
                };
                let id = self.gpu.allocate_id();
                let group = Group {
                    space,
                    engine: parameters.word("engineType").max(ENGINE_GR0),
                    scheduled: false,
                    dead: false,
                    mmu_faults: Vec::new(),
                    warp_error: None,
                };
                self.gpu.groups.insert(id, group);
                Ok(Body::Group(id))
            }
            CONTEXT_SHARE => {
                let space = self.space(client, parameters.word("hVASpace"))?;
                parameters.set("subctxId", SUBCONTEXT);
                Ok(Body::ContextShare(space))
            }
            DEBUGGER => {
                let (owner, object) = (parameters.word("hAppClient"), parameters.word("hClass3dObject"));
                let target = self.object(owner, object)?;
                match is_engine(target.class) {
                    true => Ok(Body::Debugger { client: owner, object }),
                    false => Err(RmStatus::INVALID_OBJECT),
                }
            }
            EVENT => {
                parameters.set("hSrcResource", u64::from(parent));
                Ok(Body::Plain)
            }
            class if is_channel(class) => self.create_channel(client, parent, class, parameters),
            _ => Ok(Body::Plain),
        }
    }

    /// Creates a range of virtual memory with an address of its own.
    fn create_virtual_range(&mut self, client: u32, parameters: &mut Record) -> RmResult<Body> {
        let space = self.space(client, parameters.word("hVASpace"))?;
        let (offset, size) = (parameters.get("offset"), parameters.get("size"));
        let limit = offset.checked_add(size).and_then(|end| end.checked_sub(1));
        let limit = limit.ok_or(RmStatus::INVALID_LIMIT)?;
        parameters.set("attr", VIRTUAL_MEMORY_ATTR);
        parameters.set("attr2", ATTR2_HUGE_2M | ATTR2_CACHEABLE_YES | ATTR2_ZBC);
        parameters.set("format", FORMAT_GENERIC);
        parameters.set("rangeLo", offset);
        parameters.set("rangeHi", limit);
        parameters.set("alignment", HUGE_PAGE_BYTES);
        parameters.set("limit", size.saturating_sub(1));
        Ok(Body::VirtualMemory(space))
    }

    /// Creates video or system memory.
    fn create_memory(&mut self, class: u32, parameters: &mut Record) -> RmResult<Body> {
        let size = parameters.get("size");
        let (attr, attr2) = (parameters.get("attr"), parameters.get("attr2"));
        let video = class == MEMORY_LOCAL;
        let page = if video { HUGE_PAGE_BYTES } else { PAGE_BYTES };
        let alignment = parameters.get("alignment").max(page);
        let size = size.checked_next_multiple_of(page).filter(|size| *size > 0);
        let size = size.ok_or(RmStatus::INVALID_ARGUMENT)?;
        let address = match video {
            true => {
                let total = self.settings.memory;
                let address = self.gpu.reserve_memory(size, alignment, total);
                address.ok_or(RmStatus::NO_MEMORY)?
            }
            false => 0,
        };
        let (kind, name) = match video {
            true => (MemoryKind::Video, c"nvidia-video"),
            false => (MemoryKind::System, c"nvidia-system"),
        };
        let Ok(memory) = SharedMemory::new(name, size) else {
            if video {
                self.gpu.release_memory(size);
            }
            return Err(RmStatus::NO_MEMORY);
        };
        let (attr, attr2) = match video {
            true => (
                attr & !(ATTR_PAGE_SIZE | ATTR_PHYSICALITY | ATTR_LOCATION) | ATTR_PAGE_SIZE_HUGE | ATTR_CONTIGUOUS,
                attr2 & !ATTR2_CACHEABLE | ATTR2_CACHEABLE_YES | ATTR2_ZBC | ATTR2_HUGE_2M,
            ),
            false => {
                let cacheable = match attr2 & ATTR2_CACHEABLE {
                    0 => ATTR2_CACHEABLE_NO,
                    chosen => chosen,
                };
                let kept = attr & !(ATTR_PAGE_SIZE | ATTR_PHYSICALITY | ATTR_LOCATION);
                (
                    kept | ATTR_PAGE_SIZE_4K | ATTR_NONCONTIGUOUS | ATTR_LOCATION_PCI,
                    attr2 & !ATTR2_CACHEABLE | cacheable | ATTR2_ZBC,
                )
            }
        };
        for (name, value) in [
            ("attr", attr),
            ("attr2", attr2),
            ("format", FORMAT_GENERIC),
            ("alignment", alignment),
            ("size", size),
            ("offset", address),
            ("limit", size - 1),
        ] {
            parameters.set(name, value);
        }
        Ok(Body::Memory(Arc::new(Memory::new(kind, address, Arc::new(memory)))))
    }

    /// Creates a channel of a group.
    fn create_channel(&mut self, client: u32, parent: u32, class: u32, parameters: &mut Record) -> RmResult<Body> {
        let Body::Group(group) = self.object(client, parent)?.body else {
            return Err(RmStatus::INVALID_OBJECT_PARENT);
        };
        let space = match parameters.word("hContextShare") {
            0 => match parameters.word("hVASpace") {
                0 => self.gpu.groups.get(&group).and_then(|group| group.space),
                handle => Some(self.space(client, handle)?),
            },
            handle => match self.object(client, handle)?.body {
                Body::ContextShare(space) => Some(space),
                _ => return Err(RmStatus::INVALID_OBJECT),
            },
        };
        let user_data = UserData {
            memory: Arc::clone(self.memory(client, parameters.word("hUserdMemory"))?),
            offset: parameters.get("userdOffset"),
        };
        let end = user_data.offset.checked_add(USER_DATA_BYTES);
        if end.is_none_or(|end| end > user_data.memory.bytes) || !user_data.offset.is_multiple_of(4) {
            return Err(RmStatus::INVALID_ARGUMENT);
        }
        let notifier = match parameters.word("hObjectError") {
            0 => None,
            handle => Some(Arc::clone(self.memory(client, handle)?)),
        };
        let entries = parameters.word("gpFifoEntries");
        if entries < 2 {
            return Err(RmStatus::INVALID_ARGUMENT);
        }
        let id = self.gpu.create_channel(ChannelRequest {
            class: class as u16,
            group,
            space,
            ring: GpuVa(parameters.get("gpFifoOffset")),
            entries,
            user_data,
            notifier,
        });
        parameters.set("flags", parameters.get("flags") | CHANNEL_FLAG);
        parameters.set("cid", u64::from(id));
        Ok(Body::Channel(id))
    }

    /// Answers `RM_ALLOC_MEMORY`, which registers memory of the program.
    pub(super) fn allocate_program_memory(&mut self, caller: Caller, argument: &mut Record) -> RmResult {
        let class = argument.word("hClass");
        self.settings.check_allocation(class)?;
        let (client, handle) = (argument.word("hRoot"), argument.word("hObjectNew"));
        let parent = argument.word("hObjectParent");
        if class != MEMORY_PROGRAM {
            return Err(RmStatus::INVALID_CLASS);
        }
        if handle == 0 {
            return Err(RmStatus::INVALID_OBJECT_HANDLE);
        }
        self.check_new_object(client, parent, handle, class)?;
        let address = argument.get("pMemory");
        let bytes = argument.get("limit").checked_add(1).ok_or(RmStatus::INVALID_LIMIT)?;
        let last = address.checked_add(bytes - 1).ok_or(RmStatus::INVALID_ADDRESS)?;
        let readable = |at: u64| caller.read(at, &mut [0]).is_ok();
        if !readable(address) || !readable(last) {
            return Err(RmStatus::INVALID_ADDRESS);
        }
        let memory = Memory::from_program(caller, address, bytes);
        let body = Body::Memory(Arc::new(memory));
        self.insert_object(client, handle, Object { parent, class, body })?;
        Ok(())
    }
}
