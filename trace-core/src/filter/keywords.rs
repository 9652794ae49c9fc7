//! Keywords of the filter language: fields of an event, kinds of events, and their meanings.

use crate::recording::EventKind;

/// A keyword of the language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keyword {
    /// The keyword.
    pub name: &'static str,
    /// Alternative spellings.
    pub aliases: &'static [&'static str],
    /// The meaning.
    pub meaning: Meaning,
    /// A description of the meaning.
    pub doc: &'static str,
}

/// The meaning of a keyword.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// A numeric field of an event.
    Number(Number),
    /// A name or text field of an event.
    Name(Name),
    /// A kind of event.
    Kind(Kind),
    /// `references`, before an address, a buffer, a register or a pixel.
    References,
    /// `and`, `or`, `not`, `in`.
    Operator,
}

/// A numeric field of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// Index of the event.
    Event,
    /// Time on the recorder's clock, nanoseconds.
    Time,
    /// Thread.
    Thread,
    /// Offset in the space, bytes.
    Offset,
    /// Width of the access, bytes.
    Width,
    /// Value read or written.
    Value,
    /// Index of the job.
    Job,
    /// Interrupt line.
    Line,
    /// Interrupt status.
    Status,
    /// Address in an event that is not an access.
    Address,
    /// Size in an event that is not an access, bytes.
    Bytes,
    /// Result of a call.
    CallResult,
    /// Number of the input of a copy.
    Input,
}

/// A name or text field of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// Register.
    Register,
    /// Block of registers.
    Block,
    /// Space.
    Space,
    /// Kind of event.
    Kind,
    /// Text of a mark.
    Text,
    /// Name of a call.
    Call,
    /// Input of a copy.
    Input,
}

/// A kind of event in the language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A kind of event in the recording.
    Stored(EventKind),
    /// A read or a write.
    Access,
    /// A kind that this version does not know.
    Unknown,
    /// An interrupt that was recorded, or found in the accesses.
    Interrupt,
    /// Work submitted to the GPU, recorded as such or found in the accesses.
    Submit,
    /// A part of a poll.
    Poll,
}

const fn number(name: &'static str, also: &'static [&'static str], n: Number, doc: &'static str) -> Keyword {
    Keyword {
        name,
        aliases: also,
        meaning: Meaning::Number(n),
        doc,
    }
}

const fn name(name: &'static str, also: &'static [&'static str], n: Name, doc: &'static str) -> Keyword {
    Keyword {
        name,
        aliases: also,
        meaning: Meaning::Name(n),
        doc,
    }
}

const fn kind(name: &'static str, also: &'static [&'static str], k: Kind, doc: &'static str) -> Keyword {
    Keyword {
        name,
        aliases: also,
        meaning: Meaning::Kind(k),
        doc,
    }
}

const fn operator(name: &'static str, also: &'static [&'static str], doc: &'static str) -> Keyword {
    Keyword {
        name,
        aliases: also,
        meaning: Meaning::Operator,
        doc,
    }
}

/// All keywords of the language. Case is ignored.
pub const KEYWORDS: &[Keyword] = &[
    name("reg", &["register"], Name::Register, "name of the accessed register"),
    name("block", &[], Name::Block, "block of the register in the register map"),
    number("value", &[], Number::Value, "value read or written"),
    number("offset", &[], Number::Offset, "byte offset in the space"),
    number("width", &[], Number::Width, "bytes of the access: 1, 2, 4 or 8"),
    name(
        "space",
        &[],
        Name::Space,
        "where the access goes: a register block, a BAR, ports",
    ),
    number(
        "job",
        &[],
        Number::Job,
        "job that the event prepares, or that runs at it; from 0",
    ),
    number("event", &[], Number::Event, "index of the event, from 0"),
    number(
        "time",
        &[],
        Number::Time,
        "time in nanoseconds, or with a unit: 10us, 1.5ms, 2s",
    ),
    number(
        "thread",
        &[],
        Number::Thread,
        "thread on the recorded machine; 0 when unknown",
    ),
    number(
        "irq.line",
        &["interrupt.line"],
        Number::Line,
        "line of an interrupt: job, mmu, gpu, or its number",
    ),
    number(
        "irq.status",
        &["interrupt.status"],
        Number::Status,
        "status bits of an interrupt",
    ),
    number(
        "address",
        &[],
        Number::Address,
        "address of a submitted chain, of memory that the CPU wrote, or of a DMA mapping",
    ),
    number(
        "bytes",
        &[],
        Number::Bytes,
        "bytes that the CPU wrote, or bytes of a DMA mapping",
    ),
    name("text", &[], Name::Text, "text of a mark"),
    name(
        "call.name",
        &[],
        Name::Call,
        "name of a call: fd_write, cuCtxSynchronize",
    ),
    number(
        "call.result",
        &["errno"],
        Number::CallResult,
        "result of a call: 0 for success, or its error number",
    ),
    name(
        "input",
        &["input.name"],
        Name::Input,
        "input of the copy of a WebAssembly program that the event belongs to",
    ),
    number(
        "input.number",
        &["copy.number"],
        Number::Input,
        "position of that input, from 0",
    ),
    name("kind", &[], Name::Kind, "kind of the event, as in kind = write"),
    kind("read", &[], Kind::Stored(EventKind::Read), "a read"),
    kind("write", &[], Kind::Stored(EventKind::Write), "a write"),
    kind("access", &[], Kind::Access, "a read or a write"),
    kind(
        "interrupt",
        &["irq"],
        Kind::Interrupt,
        "an interrupt: recorded, or where a handler begins",
    ),
    kind("submit", &[], Kind::Submit, "a job is submitted to the GPU"),
    kind(
        "poll",
        &[],
        Kind::Poll,
        "part of a run of reads that waits for a condition",
    ),
    kind(
        "mark",
        &["note"],
        Kind::Stored(EventKind::Mark),
        "a note of the recorder or a person",
    ),
    kind(
        "host-write",
        &["hostwrite", "host_write"],
        Kind::Stored(EventKind::HostWrite),
        "the CPU wrote memory",
    ),
    kind(
        "undecoded",
        &[],
        Kind::Stored(EventKind::Undecoded),
        "an access whose value was not recorded",
    ),
    kind(
        "dma-map",
        &["dma_map", "dmamap", "dma"],
        Kind::Stored(EventKind::DmaMap),
        "memory was mapped for the device",
    ),
    kind(
        "launch",
        &[],
        Kind::Stored(EventKind::Launch),
        "a kernel was launched on the device",
    ),
    kind(
        "copy",
        &["memcpy"],
        Kind::Stored(EventKind::Copy),
        "a call copied memory",
    ),
    kind(
        "fill",
        &["memset"],
        Kind::Stored(EventKind::Fill),
        "a call set memory to a value",
    ),
    kind(
        "order",
        &[],
        Kind::Stored(EventKind::Order),
        "a call ordered streams, events and the host",
    ),
    kind(
        "allocation",
        &["alloc"],
        Kind::Stored(EventKind::Allocation),
        "a call allocated or freed memory",
    ),
    kind("call", &[], Kind::Stored(EventKind::Call), "any other call of a driver"),
    kind(
        "object",
        &[],
        Kind::Stored(EventKind::Object),
        "an object of the kernel driver was created, freed, mapped or unmapped",
    ),
    kind(
        "ring-entry",
        &["ring_entry", "gpfifo"],
        Kind::Stored(EventKind::RingEntry),
        "an entry of a channel's ring",
    ),
    kind(
        "saved-memory",
        &["saved_memory"],
        Kind::Stored(EventKind::SavedMemory),
        "the recorder saved memory",
    ),
    kind(
        "unknown",
        &[],
        Kind::Unknown,
        "an event of a kind that this version does not support",
    ),
    Keyword {
        name: "references",
        aliases: &["xref"],
        meaning: Meaning::References,
        doc: "a reference to an address, a buffer, a register or a pixel: references 0x7f00_1000, references JS1_CONFIG",
    },
    operator("and", &["&&"], "both"),
    operator("or", &["||"], "either"),
    operator("not", &["!"], "the opposite"),
    operator(
        "in",
        &[],
        "in a range or a list: job in 4..=9 (4..9 excludes 9), value in {1, 2, 3}",
    ),
];

impl Keyword {
    /// Finds the keyword with this name, ignoring case.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Self> {
        let same = |n: &&str| n.eq_ignore_ascii_case(name);
        KEYWORDS.iter().find(|w| same(&w.name) || w.aliases.iter().any(same))
    }
}
