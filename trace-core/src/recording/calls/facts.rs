//! What a recording of calls tells beside its events: the device, the window, modules, functions, streams.

use serde::{Deserialize, Serialize};

/// Name of the extra that holds [`CallFacts`], as JSON.
pub const CALL_FACTS: &str = "calls";

/// What a recording of calls tells beside its events. Stored as JSON: fields are added, never changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CallFacts {
    /// The interface that the calls are of: `cuda`.
    pub api: String,
    /// Version of the driver's interface: 13000 for CUDA 13.0.
    pub version: u32,
    /// The device.
    pub device: CallDevice,
    /// The range of addresses that allocations were served from; 0 bytes: none.
    pub window: CallWindow,
    /// The range of addresses that the program's own reservations were served from; 0 bytes: none.
    #[serde(skip_serializing_if = "CallWindow::is_empty")]
    pub reserved: CallWindow,
    /// Names of calls.
    pub names: Vec<String>,
    /// Code that was loaded.
    pub modules: Vec<CallModule>,
    /// Functions that were launched or asked for.
    pub functions: Vec<CallFunction>,
    /// Streams, by the numbers that rows use.
    pub streams: Vec<CallStream>,
    /// Limits of the context that the program set, by the driver's numbers (0 stack of a thread, 1 room for what kernels
    /// print, 2 heap of kernels), each with the most that it was set to, in bytes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<[u64; 2]>,
    /// The process whose calls these are.
    #[serde(skip_serializing_if = "CallProcess::is_unknown")]
    pub process: CallProcess,
    /// What was recorded of the program: `whole`, `first 10 launches`, `marked`.
    pub range: String,
}

/// The process whose calls a recording holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CallProcess {
    /// Its number on the recorded machine; 0: not known.
    pub number: u32,
    /// Number of the process that started it; 0: not known.
    pub parent: u32,
    /// Its command line.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Whether it ended in good order, so that nothing of it is missing.
    pub ended: bool,
}

impl CallProcess {
    /// Whether the recording does not tell its process.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        *self == Self::default()
    }
}

/// The device that calls went to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CallDevice {
    /// Its name, as the driver tells it.
    pub name: String,
    /// Compute capability, major and minor.
    pub capability: [u32; 2],
    /// Multiprocessors.
    pub multiprocessors: u32,
    /// Bytes of memory.
    pub memory: u64,
    /// Whether the device's identity is known.
    pub uuid: String,
}

/// A range of addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CallWindow {
    /// First address.
    pub base: u64,
    /// Number of bytes.
    pub bytes: u64,
}

impl CallWindow {
    /// Returns whether the range has no addresses.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Returns whether all of `bytes` bytes from `at` on lie in the range.
    #[must_use]
    pub fn contains(&self, at: u64, bytes: u64) -> bool {
        let end = at.checked_add(bytes);
        at >= self.base && end.is_some_and(|end| end <= self.base.saturating_add(self.bytes))
    }
}

/// Form of code. Stored by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CodeKind {
    /// Machine code in an ELF file.
    Cubin,
    /// Text for the driver's compiler.
    Ptx,
    /// A container of both.
    Fatbin,
    /// Something else.
    #[default]
    #[serde(other)]
    Unknown,
}

/// Code that was loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CallModule {
    /// Where it came from: a file's name, or `memory`.
    pub origin: String,
    /// Its form as it is stored here.
    pub kind: CodeKind,
    /// Bytes of it; 0 when it is not stored.
    pub bytes: u64,
    /// BLAKE3 of these bytes, in hexadecimal.
    pub digest: String,
    /// Pages that hold it, as runs of first page and number of pages; the last one is filled up with zeros.
    pub pages: Vec<[u32; 2]>,
    /// Variables of the device in it, as far as they were asked for or are known.
    pub globals: Vec<CallGlobal>,
    /// Why it is not stored, where it is not.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub missing: String,
}

/// A variable in a module.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CallGlobal {
    /// Its mangled name.
    pub name: String,
    /// Where it lay.
    pub at: u64,
    /// Bytes of it.
    pub bytes: u64,
}

/// A function of the device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CallFunction {
    /// Its mangled name.
    pub name: String,
    /// Its name as its author wrote it; empty when it is the same or not known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub demangled: String,
    /// The module, an index into [`CallFacts::modules`].
    pub module: Option<u32>,
    /// Offset and size of each parameter in the parameter buffer, in bytes.
    pub parameters: Vec<[u32; 2]>,
    /// Registers a thread.
    pub registers: u32,
    /// Bytes of shared memory of its own.
    pub shared: u32,
    /// Bytes of local memory a thread.
    pub local: u32,
    /// Most threads a block.
    pub most_threads: u32,
    /// Attributes that the program set, by the driver's numbers, with their last values.
    pub attributes: Vec<[i32; 2]>,
}

impl CallFunction {
    /// The name for a person.
    #[must_use]
    pub fn display_name(&self) -> &str {
        if self.demangled.is_empty() {
            &self.name
        } else {
            &self.demangled
        }
    }
}

/// A stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CallStream {
    /// Its name: `default stream`, `stream 3`.
    pub name: String,
    /// Flags that it was made with; 1: it does not wait for the default stream.
    pub flags: u32,
    /// Its priority, the lower the sooner.
    pub priority: i32,
}
