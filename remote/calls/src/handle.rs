//! Handles: numbers in messages, and how programs see them.

/// Kinds of objects with handles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum HandleKind {
    /// A context.
    Context = 1,
    /// A module.
    Module,
    /// A library.
    Library,
    /// A function of a module.
    Function,
    /// A kernel of a library. Calls on functions accept it too.
    Kernel,
    /// A stream.
    Stream,
    /// An event.
    Event,
    /// A graph.
    Graph,
    /// A node of a graph.
    GraphNode,
    /// An executable graph.
    GraphExec,
    /// A memory pool.
    MemPool,
    /// An array of texels.
    Array,
    /// A link in progress.
    LinkState,
    /// Physical memory.
    Memory,
    /// A mipmapped array of texels.
    MipmappedArray,
}

impl HandleKind {
    /// All kinds, by their numbers.
    const ALL: [Self; 15] = [
        Self::Context,
        Self::Module,
        Self::Library,
        Self::Function,
        Self::Kernel,
        Self::Stream,
        Self::Event,
        Self::Graph,
        Self::GraphNode,
        Self::GraphExec,
        Self::MemPool,
        Self::Array,
        Self::LinkState,
        Self::Memory,
        Self::MipmappedArray,
    ];

    const fn number(self) -> u32 {
        self as u32
    }
}

/// Number of a handle in messages: the kind in the upper 4 bits, the end that made it in bit 27, and an index.
/// 0 is the null handle; for streams, 1 and 2 are the driver's default streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HandleNumber(u32);

/// First bit of the kind.
const KIND_SHIFT: u32 = 28;
/// Bit of handles that the worker made.
const WORKER_BIT: u32 = 1 << 27;
/// Programs see handle numbers as addresses above this one, where no program has memory by itself.
const FIRST_ADDRESS: u64 = 0x6b00_0000_0000;
/// Distance of two handles as programs see them: they look like addresses of aligned objects.
const ADDRESS_SHIFT: u32 = 4;

impl HandleNumber {
    /// The null handle. For streams, it is the default stream of the program's interface.
    pub const NULL: Self = Self(0);
    /// The default stream that waits for all other streams.
    pub const STREAM_LEGACY: Self = Self(1);
    /// The default stream of a thread.
    pub const STREAM_PER_THREAD: Self = Self(2);
    /// Maximum index of a handle.
    pub const MAX_INDEX: u32 = WORKER_BIT - 1;

    /// Returns the handle of an object that the client creates, or `None` for an index above [`Self::MAX_INDEX`].
    #[must_use]
    pub const fn from_client(kind: HandleKind, index: u32) -> Option<Self> {
        if index > Self::MAX_INDEX {
            return None;
        }
        Some(Self(kind.number() << KIND_SHIFT | index))
    }

    /// Returns the handle of an object that the worker names, or `None` for an index above [`Self::MAX_INDEX`].
    #[must_use]
    pub const fn from_worker(kind: HandleKind, index: u32) -> Option<Self> {
        if index > Self::MAX_INDEX {
            return None;
        }
        Some(Self(kind.number() << KIND_SHIFT | WORKER_BIT | index))
    }

    /// Returns the number in messages.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Returns the handle with this number in messages. Any number is possible; users look it up.
    #[must_use]
    pub const fn from_message(number: u32) -> Self {
        Self(number)
    }

    /// Returns the kind, or `None` for null, a default stream, or a number without a kind.
    #[must_use]
    pub fn kind(self) -> Option<HandleKind> {
        let kind = self.0 >> KIND_SHIFT;
        HandleKind::ALL.into_iter().find(|known| known.number() == kind)
    }

    /// Returns the index, unique for the kind and the end that made the handle.
    #[must_use]
    pub const fn index(self) -> u32 {
        self.0 & (WORKER_BIT - 1)
    }

    /// Returns whether the worker made the handle.
    #[must_use]
    pub const fn is_of_worker(self) -> bool {
        self.0 & WORKER_BIT != 0
    }

    /// Returns the handle as a program sees it: an address without memory, or the small number of a default stream.
    #[must_use]
    pub fn as_address(self) -> u64 {
        if self.kind().is_none() {
            return self.0.into();
        }
        FIRST_ADDRESS + (u64::from(self.0) << ADDRESS_SHIFT)
    }

    /// Returns the handle that a program passes as this address, or `None` if no handle has it.
    #[must_use]
    pub fn from_address(address: u64) -> Option<Self> {
        if address <= u64::from(Self::STREAM_PER_THREAD.0) {
            return Some(Self(address as u32));
        }
        let offset = address.checked_sub(FIRST_ADDRESS)?;
        let number = u32::try_from(offset >> ADDRESS_SHIFT).ok()?;
        let handle = Self(number);
        (handle.kind().is_some() && handle.as_address() == address).then_some(handle)
    }
}

impl crate::Scalar for HandleNumber {
    const BYTES: usize = 4;

    fn append_to(self, bytes: &mut Vec<u8>) {
        self.0.append_to(bytes);
    }

    fn read_from(decoder: &mut crate::Decoder<'_>) -> Result<Self, crate::MessageError> {
        decoder.read().map(Self)
    }
}
