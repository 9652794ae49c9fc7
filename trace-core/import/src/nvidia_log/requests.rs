//! Ioctls: a call each, and the objects that they create, free, map and unmap.

use super::arguments::{call_name, request_name, text, word};
use super::events::Import;
use super::mappings::{Mapping, MappingOwner};
use super::objects::{KnownObject, kind_of_class};
use super::problems::Problem;
use super::records::{Header, Ioctl};
use nvidia_channel::rm::{Argument, DriverBranch};
use trace_core::GpuVa;
use trace_core::recording::{CallRow, ObjectAction, ObjectKind, ObjectRow};

/// Class of a part of an address space; mappings name it instead of the address space.
const MEMORY_VIRTUAL: u32 = 0x70;
/// Class of a part of an address space that the driver chooses.
const RESERVED_MEMORY_VIRTUAL: u32 = 0x50a0;
/// Class of memory in the GPU.
const LOCAL_MEMORY: u32 = 0x40;
/// Classes of memory of the host: allocated by the driver, and memory of the program.
const HOST_MEMORY: [u32; 2] = [0x3e, 0x71];
/// Command that returns the name of a GPU.
const GET_NAME_STRING: u32 = 0x2080_0110;
/// Command that returns the version of the driver.
const GET_BUILD_VERSION_V2: u32 = 0x13e;

/// An ioctl that succeeded, with what its objects need.
struct Request<'a> {
    header: &'a Header,
    ioctl: &'a Ioctl<'a>,
    /// Index of its name.
    name: u32,
}

impl Import {
    /// Adds an ioctl, and the objects that it means.
    pub(super) fn take_ioctl(&mut self, header: &Header, ioctl: &Ioctl<'_>) {
        let argument = self.decoder.argument(ioctl);
        let status = argument.as_ref().and_then(Argument::status).unwrap_or(0);
        let result = match ioctl.returned {
            0.. => status,
            // A failed call has an errno.
            _ => ioctl.errno.max(1),
        };
        let name = self.add_name(header, call_name(ioctl));
        let arguments = store_arguments(ioctl);
        let row = CallRow {
            arguments_at: self.events.call_bytes(&arguments),
            arguments: u32::try_from(arguments.len()).unwrap_or(u32::MAX),
            name,
            about: ioctl.fd,
            result,
            took: u32::try_from(ioctl.took).unwrap_or(u32::MAX),
            flags: 0,
        };
        self.stored_bytes += arguments.len() as u64;
        self.events.call(header.time, header.thread, row);
        if result == 0 {
            let request = Request { header, ioctl, name };
            self.follow(&request, argument.as_ref());
        }
    }

    /// Adds the objects that a successful request means, and notes what it tells about the GPU and the driver.
    fn follow(&mut self, request: &Request<'_>, argument: Option<&Argument>) {
        let Some(name) = request_name(request.ioctl) else {
            return;
        };
        type Follow = fn(&mut Import, &Request<'_>, &Argument);
        let follow: Follow = match name {
            "RM_ALLOC" => Self::create,
            "RM_ALLOC_MEMORY" => Self::create_memory,
            "RM_DUP_OBJECT" => Self::duplicate,
            "RM_FREE" => Self::free,
            "RM_MAP_MEMORY_DMA" => Self::map,
            "RM_UNMAP_MEMORY_DMA" => Self::unmap,
            "UVM_REGISTER_GPU_VASPACE" => Self::register_space,
            "UVM_CREATE_EXTERNAL_RANGE" => Self::reserve_range,
            "UVM_MAP_EXTERNAL_ALLOCATION" => Self::map_range,
            "UVM_UNMAP_EXTERNAL" | "UVM_FREE" => Self::unmap_range,
            "RM_CONTROL" => Self::read_control,
            "CARD_INFO" => Self::read_card_info,
            "CHECK_VERSION_STR" => Self::read_version,
            "RM_ALLOC_OBJECT" | "RM_VID_HEAP_CONTROL" | "RM_ALLOC_CONTEXT_DMA2" | "RM_IMPORT_OBJECT_FROM_FD" => {
                self.problems.add(Problem::UnfollowedRequest, request.header.at);
                return;
            }
            _ => return,
        };
        match argument {
            Some(argument) => follow(self, request, argument),
            None => self.problems.add(Problem::UnknownArgument, request.header.at),
        }
    }

    fn add_object(&mut self, request: &Request<'_>, row: ObjectRow) {
        let row = ObjectRow {
            caller: request.name,
            ..row
        };
        self.events.object(request.header.time, request.header.thread, row);
    }

    fn create(&mut self, request: &Request<'_>, argument: &Argument) {
        let class = word(argument, "hClass");
        let kind = kind_of_class(class);
        let handle = word(argument, "hObjectNew");
        let (client, parent) = match kind {
            ObjectKind::Client => (handle, 0),
            _ => (word(argument, "hRoot"), word(argument, "hObjectParent")),
        };
        let mut row = ObjectRow {
            client,
            parent,
            handle,
            class,
            action: ObjectAction::Create as u32,
            kind: kind as u32,
            ..ObjectRow::default()
        };
        let parameters = request.ioctl.nested_after;
        let decoded = self.decoder.allocation(class, parameters);
        if let Some(parameters) = &decoded {
            self.read_parameters(&mut row, kind, parameters);
        } else if !parameters.is_empty() && has_parameters(kind) {
            self.problems.add(Problem::UnknownParameters, request.header.at);
        }
        if HOST_MEMORY.contains(&class) {
            row.flags |= ObjectRow::HOST_MEMORY;
        } else if class == LOCAL_MEMORY && row.flags == 0 {
            row.flags |= ObjectRow::VIDEO_MEMORY;
        }
        self.remember(&row, kind);
        self.add_object(request, row);
    }

    fn remember(&mut self, row: &ObjectRow, kind: ObjectKind) {
        let object = KnownObject {
            parent: row.parent,
            class: row.class,
            kind,
            bytes: row.bytes,
            space: match kind {
                ObjectKind::AddressSpace => row.handle,
                _ => row.space,
            },
            flags: row.flags,
        };
        self.objects.add(row.client, row.handle, object);
    }

    /// Reads size, addresses and address space from the parameters of an allocation.
    fn read_parameters(&self, row: &mut ObjectRow, kind: ObjectKind, parameters: &Argument) {
        let number = |name: &str| parameters.number(name);
        row.space = word(parameters, "hVASpace");
        match (kind, row.class) {
            (ObjectKind::AddressSpace, _) => {
                row.bytes = number("vaSize").unwrap_or(ObjectRow::UNKNOWN);
                row.address = number("vaBase").map_or(ObjectRow::UNKNOWN_ADDRESS, GpuVa::new);
            }
            (ObjectKind::Channel, _) => {
                row.second = number("gpFifoOffset").unwrap_or(ObjectRow::UNKNOWN);
                if row.space == 0 {
                    row.space = self.objects.space_of(row.client, word(parameters, "hContextShare"));
                }
                if row.space == 0 {
                    row.space = self.objects.space_of(row.client, row.parent);
                }
            }
            (ObjectKind::Buffer, _) => {
                row.bytes = number("size").unwrap_or(ObjectRow::UNKNOWN);
                let location = word(parameters, "attr") >> 25 & 3;
                row.flags = match location {
                    0 => ObjectRow::VIDEO_MEMORY,
                    1 => ObjectRow::HOST_MEMORY,
                    _ => 0,
                };
            }
            (_, RESERVED_MEMORY_VIRTUAL) => {
                row.bytes = number("size").unwrap_or(ObjectRow::UNKNOWN);
                row.address = number("offset").map_or(ObjectRow::UNKNOWN_ADDRESS, GpuVa::new);
            }
            (_, MEMORY_VIRTUAL) => {
                let (first, last) = (number("offset").unwrap_or(0), number("limit").unwrap_or(0));
                // The limit 0 stands for the whole address space.
                if let Some(bytes) = last
                    .checked_sub(first)
                    .and_then(|n| n.checked_add(1))
                    .filter(|_| last != 0)
                {
                    (row.address, row.bytes) = (GpuVa::new(first), bytes);
                }
            }
            _ => {}
        }
    }

    fn create_memory(&mut self, request: &Request<'_>, argument: &Argument) {
        let class = word(argument, "hClass");
        let kind = kind_of_class(class);
        let last = argument.number("limit").and_then(|last| last.checked_add(1));
        let row = ObjectRow {
            bytes: last.unwrap_or(ObjectRow::UNKNOWN),
            client: word(argument, "hRoot"),
            parent: word(argument, "hObjectParent"),
            handle: word(argument, "hObjectNew"),
            class,
            action: ObjectAction::Create as u32,
            kind: kind as u32,
            flags: match class {
                LOCAL_MEMORY => ObjectRow::VIDEO_MEMORY,
                _ if HOST_MEMORY.contains(&class) => ObjectRow::HOST_MEMORY,
                _ => 0,
            },
            ..ObjectRow::default()
        };
        self.remember(&row, kind);
        self.add_object(request, row);
    }

    fn duplicate(&mut self, request: &Request<'_>, argument: &Argument) {
        let (owner, source) = (word(argument, "hClientSrc"), word(argument, "hObjectSrc"));
        let source = self.objects.get(owner, source).copied();
        let kind = source.map_or(ObjectKind::Other, |s| s.kind);
        let row = ObjectRow {
            bytes: source.map_or(ObjectRow::UNKNOWN, |s| s.bytes),
            client: word(argument, "hClient"),
            parent: word(argument, "hParent"),
            handle: word(argument, "hObject"),
            class: source.map_or(0, |s| s.class),
            action: ObjectAction::Create as u32,
            kind: kind as u32,
            flags: source.map_or(0, |s| s.flags),
            ..ObjectRow::default()
        };
        self.remember(&row, kind);
        self.add_object(request, row);
    }

    fn free(&mut self, request: &Request<'_>, argument: &Argument) {
        let (client, handle) = (word(argument, "hRoot"), word(argument, "hObjectOld"));
        let Some(object) = self.objects.remove(client, handle) else {
            // The driver also accepts handles of objects that never existed.
            self.problems.add(Problem::UnknownObject, request.header.at);
            return;
        };
        let row = ObjectRow {
            bytes: object.bytes,
            client,
            parent: object.parent,
            handle,
            class: object.class,
            action: ObjectAction::Free as u32,
            kind: object.kind as u32,
            flags: object.flags,
            ..ObjectRow::default()
        };
        self.add_object(request, row);
    }

    fn map(&mut self, request: &Request<'_>, argument: &Argument) {
        let (client, memory) = (word(argument, "hClient"), word(argument, "hDma"));
        let mapping = Mapping {
            client,
            handle: word(argument, "hMemory"),
            va: GpuVa::new(argument.number("dmaOffset").unwrap_or(0)),
            bytes: argument.number("length").unwrap_or(0),
            offset: argument.number("offset").unwrap_or(0),
            space: self.objects.space_of(client, memory),
        };
        self.mappings.add(MappingOwner::Rm { client, memory }, mapping);
        self.add_mapping(request, &mapping, ObjectAction::Map);
    }

    fn unmap(&mut self, request: &Request<'_>, argument: &Argument) {
        let (client, memory) = (word(argument, "hClient"), word(argument, "hDma"));
        let va = GpuVa::new(argument.number("dmaOffset").unwrap_or(0));
        let known = self.mappings.remove(MappingOwner::Rm { client, memory }, va);
        let size = argument.number("size").filter(|size| *size != 0);
        let mapping = Mapping {
            client,
            handle: word(argument, "hMemory"),
            va,
            bytes: size.or(known.map(|m| m.bytes)).unwrap_or(ObjectRow::UNKNOWN),
            offset: known.map_or(ObjectRow::UNKNOWN, |m| m.offset),
            space: self.objects.space_of(client, memory),
        };
        self.add_mapping(request, &mapping, ObjectAction::Unmap);
    }

    fn add_mapping(&mut self, request: &Request<'_>, mapping: &Mapping, action: ObjectAction) {
        let object = self.objects.get(mapping.client, mapping.handle).copied();
        let row = ObjectRow {
            bytes: mapping.bytes,
            address: mapping.va,
            second: mapping.offset,
            client: mapping.client,
            parent: object.map_or(0, |o| o.parent),
            handle: mapping.handle,
            class: object.map_or(0, |o| o.class),
            space: mapping.space,
            action: action as u32,
            kind: object.map_or(ObjectKind::Buffer, |o| o.kind) as u32,
            flags: object.map_or(0, |o| o.flags),
            ..ObjectRow::default()
        };
        self.add_object(request, row);
    }

    /// Notes the address space that unified memory fills. With more than one, its mappings have no known space.
    fn register_space(&mut self, _: &Request<'_>, argument: &Argument) {
        let space = word(argument, "hVaSpace");
        self.uvm_space = match self.uvm_space {
            Some(other) if other != space => Some(0),
            _ => Some(space),
        };
    }

    fn reserve_range(&mut self, _: &Request<'_>, argument: &Argument) {
        if let (Some(va), Some(bytes)) = (argument.number("base"), argument.number("length")) {
            self.mappings.reserve(GpuVa::new(va), bytes);
        }
    }

    fn map_range(&mut self, request: &Request<'_>, argument: &Argument) {
        let mapping = Mapping {
            client: word(argument, "hClient"),
            handle: word(argument, "hMemory"),
            va: GpuVa::new(argument.number("base").unwrap_or(0)),
            bytes: argument.number("length").unwrap_or(0),
            offset: argument.number("offset").unwrap_or(0),
            space: self.uvm_space.unwrap_or(0),
        };
        self.mappings.add(MappingOwner::Uvm, mapping);
        self.add_mapping(request, &mapping, ObjectAction::Map);
    }

    /// Unmaps a range. Since 595, a free states only its start: the size is that of the reservation.
    fn unmap_range(&mut self, request: &Request<'_>, argument: &Argument) {
        let Some(va) = argument.number("base").map(GpuVa::new) else {
            return;
        };
        let reserved = match argument.name.as_str() {
            "UVM_FREE" => self.mappings.release(va),
            _ => None,
        };
        let bytes = argument.number("length").or(reserved).unwrap_or(1);
        for mapping in self.mappings.remove_range(MappingOwner::Uvm, va, bytes) {
            self.add_mapping(request, &mapping, ObjectAction::Unmap);
        }
    }

    fn read_control(&mut self, request: &Request<'_>, argument: &Argument) {
        let command = word(argument, "cmd");
        if command != GET_NAME_STRING && command != GET_BUILD_VERSION_V2 {
            return;
        }
        let Some(parameters) = self.decoder.control(command, request.ioctl.nested_after) else {
            self.problems.add(Problem::UnknownParameters, request.header.at);
            return;
        };
        if command == GET_BUILD_VERSION_V2 {
            self.set_version(text(&parameters, &["driverVersionBuffer"]));
        } else if self.gpu_name.is_none() {
            self.gpu_name = text(&parameters, &["gpuNameString", "gpuNameString.ascii"]);
        }
    }

    /// Notes the ids of the GPU, if the machine has one kind of GPU.
    fn read_card_info(&mut self, _: &Request<'_>, argument: &Argument) {
        let field = |element: usize, name: &str| {
            let mut values = argument.values.iter();
            let value = values.find(|v| v.element == element && v.field.name == name)?;
            match value.value {
                nvidia_channel::rm::Value::Unsigned(n) => Some(n),
                _ => None,
            }
        };
        let cards = argument
            .values
            .iter()
            .map(|v| v.element)
            .max()
            .map_or(0, |last| last + 1);
        let present = (0..cards).filter(|card| field(*card, "valid").is_some_and(|valid| valid != 0));
        let ids =
            present.filter_map(|card| Some((field(card, "pci_info.vendor_id")?, field(card, "pci_info.device_id")?)));
        let mut ids: Vec<(u64, u64)> = ids.collect();
        ids.dedup();
        if let [(vendor, device)] = ids[..] {
            self.pci_name = Some(format!("PCI {vendor:04x}:{device:04x}"));
        }
    }

    fn read_version(&mut self, _: &Request<'_>, argument: &Argument) {
        self.set_version(text(argument, &["versionString"]));
    }

    /// Sets the version of the driver, if it is the first one.
    pub(super) fn set_version(&mut self, version: Option<String>) {
        let Some(version) = version.filter(|_| self.driver_version.is_empty()) else {
            return;
        };
        self.decoder.branch = DriverBranch::from_version(&version);
        self.driver_version = version;
    }
}

/// Whether the parameters of a kind of object hold sizes, addresses or an address space.
fn has_parameters(kind: ObjectKind) -> bool {
    use ObjectKind as K;
    matches!(
        kind,
        K::AddressSpace | K::ChannelGroup | K::Context | K::Channel | K::Buffer
    )
}

/// Returns the stored form of an ioctl's arguments: `u64 request, u32 bytes of the argument, u32 bytes of the parameters`,
/// then the argument before and after the call, and the parameters before and after it.
fn store_arguments(ioctl: &Ioctl<'_>) -> Vec<u8> {
    let (size, nested) = (ioctl.before.len() as u32, ioctl.nested_before.len() as u32);
    [
        &ioctl.request.to_le_bytes()[..],
        &size.to_le_bytes(),
        &nested.to_le_bytes(),
        ioctl.before,
        ioctl.after,
        ioctl.nested_before,
        ioctl.nested_after,
    ]
    .concat()
}
