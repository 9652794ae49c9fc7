//! The record types of valgrind's tool mmt and their fields. The facts come from the tool's output and from envytools'
//! decoder, older releases included.

/// A named field of a record, little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    /// 32 bits.
    Word(&'static str),
    /// 64 bits.
    Long(&'static str),
    /// A length of 8 bits, and as many bytes.
    Short,
    /// A length of 32 bits, and as many bytes.
    Bytes(&'static str),
    /// Like `Bytes`: text that ends with a zero byte.
    Text(&'static str),
}

/// The type of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A load from a mapped range, by range number and offset.
    Read,
    /// A store to a mapped range, by range number and offset.
    Write,
    /// A load from an address.
    ReadAt,
    /// A store to an address.
    WriteAt,
    /// Address of the instruction of the next load or store.
    Instruction,
    /// A file that was opened.
    Open,
    /// A file descriptor that was copied.
    Duplicate,
    /// A range was mapped.
    Map,
    /// A range was unmapped.
    Unmap,
    /// A range was moved.
    Remap,
    /// An ioctl before its execution.
    IoctlBefore,
    /// An ioctl after its return.
    IoctlAfter,
    /// Memory that an ioctl points at.
    Memory,
    /// Output of the program.
    Printed,
    /// Output of valgrind.
    Message,
    /// A marker for processes that wait for the tool.
    Sync,
    /// The tool's decoding of an ioctl of NVIDIA's driver or of nouveau.
    Nvidia,
}

impl Kind {
    /// Returns a description of the type.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "loads",
            Self::Write => "stores",
            Self::ReadAt => "loads by address",
            Self::WriteAt => "stores by address",
            Self::Instruction => "places of instructions",
            Self::Open => "files opened",
            Self::Duplicate => "descriptors copied",
            Self::Map => "ranges mapped",
            Self::Unmap => "ranges unmapped",
            Self::Remap => "ranges moved",
            Self::IoctlBefore => "ioctls before the call",
            Self::IoctlAfter => "ioctls after the call",
            Self::Memory => "memory of ioctls",
            Self::Printed => "output of the program",
            Self::Message => "messages of valgrind",
            Self::Sync => "synchronization marks",
            Self::Nvidia => "facts of NVIDIA's ioctls",
        }
    }
}

/// A record format.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    /// Its first byte, and the second byte of [`NVIDIA`] records.
    pub(super) code: (u8, Option<u8>),
    pub(super) kind: Kind,
    /// Its name in a note.
    pub(super) name: &'static str,
    pub(super) fields: &'static [Field],
}

/// First byte of records with a type in the second byte.
pub(super) const NVIDIA: u8 = b'n';
/// First bytes of lines of text.
pub(super) const TEXT: [u8; 2] = [b'=', b'-'];
/// Last byte of every record.
pub(super) const END: u8 = b'\n';

use Field::{Bytes, Long, Short, Text, Word};

const fn form(code: u8, kind: Kind, name: &'static str, fields: &'static [Field]) -> Form {
    Form {
        code: (code, None),
        kind,
        name,
        fields,
    }
}

const fn nvidia(code: u8, kind: Kind, name: &'static str, fields: &'static [Field]) -> Form {
    Form {
        code: (NVIDIA, Some(code)),
        kind,
        name,
        fields,
    }
}

const MAP: &[Field] = &[Long("offset"), Word("id"), Long("start"), Long("bytes")];
const MAP_OF_FILE: &[Field] = &[
    Long("offset"),
    Word("prot"),
    Word("flags"),
    Word("fd"),
    Word("id"),
    Long("start"),
    Long("bytes"),
];
const OBJECTS: &[Field] = &[Word("object1"), Word("object2")];

/// All record formats.
pub(super) const FORMS: &[Form] = &[
    form(b'r', Kind::Read, "load", &[Word("id"), Word("offset"), Short]),
    form(b'w', Kind::Write, "store", &[Word("id"), Word("offset"), Short]),
    form(b'R', Kind::ReadAt, "load", &[Long("address"), Short]),
    form(b'W', Kind::WriteAt, "store", &[Long("address"), Short]),
    form(b's', Kind::Instruction, "instruction", &[Text("at")]),
    form(b'x', Kind::Instruction, "instruction", &[Text("at")]),
    form(
        b'o',
        Kind::Open,
        "open",
        &[Word("flags"), Word("mode"), Word("fd"), Text("path")],
    ),
    form(b'd', Kind::Duplicate, "dup", &[Word("fd"), Word("as")]),
    form(b'm', Kind::Map, "mmap", MAP),
    form(b'M', Kind::Map, "mmap", MAP_OF_FILE),
    form(
        b'u',
        Kind::Unmap,
        "munmap",
        &[
            Long("offset"),
            Word("id"),
            Long("start"),
            Long("bytes"),
            Long("object1"),
            Long("object2"),
        ],
    ),
    form(
        b'e',
        Kind::Remap,
        "mremap",
        &[
            Long("offset"),
            Word("id"),
            Long("old_start"),
            Long("old_bytes"),
            Long("object1"),
            Long("object2"),
            Long("start"),
            Long("bytes"),
        ],
    ),
    form(
        b'i',
        Kind::IoctlBefore,
        "ioctl",
        &[Word("fd"), Word("id"), Bytes("data")],
    ),
    form(
        b'j',
        Kind::IoctlAfter,
        "ioctl done",
        &[Word("fd"), Word("id"), Long("result"), Long("error"), Bytes("data")],
    ),
    form(b'y', Kind::Memory, "memory", &[Long("address"), Bytes("data")]),
    form(b't', Kind::Printed, "write", &[Word("fd"), Text("text")]),
    form(b'S', Kind::Sync, "sync", &[Word("number")]),
    nvidia(
        b'i',
        Kind::IoctlBefore,
        "ioctl",
        &[Word("fd"), Word("id"), Bytes("data")],
    ),
    nvidia(
        b'j',
        Kind::IoctlAfter,
        "ioctl done",
        &[Word("fd"), Word("id"), Bytes("data")],
    ),
    nvidia(
        b'o',
        Kind::Memory,
        "memory",
        &[Long("address"), Text("name"), Bytes("data")],
    ),
    nvidia(
        b'm',
        Kind::Map,
        "mmap",
        &[
            Long("offset"),
            Word("id"),
            Long("start"),
            Long("bytes"),
            Long("object1"),
            Long("object2"),
        ],
    ),
    nvidia(
        b'M',
        Kind::Map,
        "mmap",
        &[
            Long("offset"),
            Word("prot"),
            Word("flags"),
            Word("fd"),
            Word("id"),
            Long("start"),
            Long("bytes"),
            Long("object1"),
            Long("object2"),
        ],
    ),
    nvidia(
        b'c',
        Kind::Nvidia,
        "create object",
        &[Word("object1"), Word("object2"), Word("class"), Text("name")],
    ),
    nvidia(b'd', Kind::Nvidia, "destroy object", OBJECTS),
    nvidia(b'l', Kind::Nvidia, "call method", OBJECTS),
    nvidia(
        b'p',
        Kind::Nvidia,
        "create mapped object",
        &[Word("object1"), Word("object2"), Word("type"), Long("mmap_offset")],
    ),
    nvidia(
        b't',
        Kind::Nvidia,
        "create dma object",
        &[Word("name"), Word("type"), Word("parent")],
    ),
    nvidia(
        b'a',
        Kind::Nvidia,
        "allocate map",
        &[Word("object1"), Word("object2"), Long("mmap_offset")],
    ),
    nvidia(
        b'g',
        Kind::Nvidia,
        "map for the GPU",
        &[
            Word("object1"),
            Word("object2"),
            Word("object3"),
            Word("gpu_start"),
            Word("bytes"),
        ],
    ),
    nvidia(
        b'G',
        Kind::Nvidia,
        "map for the GPU",
        &[
            Word("object1"),
            Word("object2"),
            Word("object3"),
            Long("gpu_start"),
            Word("bytes"),
        ],
    ),
    nvidia(
        b'h',
        Kind::Nvidia,
        "unmap for the GPU",
        &[Word("object1"), Word("object2"), Word("object3"), Word("gpu_start")],
    ),
    nvidia(
        b'H',
        Kind::Nvidia,
        "unmap for the GPU",
        &[Word("object1"), Word("object2"), Word("object3"), Long("gpu_start")],
    ),
    nvidia(b'b', Kind::Nvidia, "bind", OBJECTS),
    nvidia(
        b'e',
        Kind::Nvidia,
        "release map",
        &[Word("object1"), Word("object2"), Long("mmap_offset")],
    ),
    nvidia(
        b'r',
        Kind::Nvidia,
        "create driver object",
        &[Word("object1"), Word("object2"), Long("address")],
    ),
    nvidia(b'v', Kind::Nvidia, "create device object", &[Word("object1")]),
    nvidia(b'x', Kind::Nvidia, "create context object", &[Word("object1")]),
    nvidia(
        b'1',
        Kind::Nvidia,
        "data of a method",
        &[Word("count"), Long("tx"), Bytes("data")],
    ),
    nvidia(b'4', Kind::Nvidia, "ioctl 4d", &[Text("text")]),
    nvidia(b'k', Kind::Nvidia, "mmiotrace mark", &[Text("text")]),
    nvidia(b'P', Kind::Nvidia, "pushbuf", &[Bytes("data")]),
];
