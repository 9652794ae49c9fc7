//! Metadata of an API trace: device, address ranges, modules, functions, streams.

use crate::GpuVa;
use crate::recording::DriverTraceMetadata;
use serde::{Deserialize, Serialize};

/// The API whose calls a trace holds. Stored by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Api {
    /// NVIDIA's driver API.
    Cuda,
    /// System calls of the copies of a WebAssembly program.
    Wasm,
    /// An API that this version does not know, with its name; empty if the recording does not name it.
    Unknown(String),
}

impl Api {
    /// Returns the name in files and JSON.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Cuda => "cuda",
            Self::Wasm => "wasm",
            Self::Unknown(name) => name,
        }
    }
}

impl Default for Api {
    fn default() -> Self {
        Self::Unknown(String::new())
    }
}

impl From<String> for Api {
    fn from(name: String) -> Self {
        match name.as_str() {
            "cuda" => Self::Cuda,
            "wasm" => Self::Wasm,
            _ => Self::Unknown(name),
        }
    }
}

impl From<Api> for String {
    fn from(api: Api) -> Self {
        api.name().to_owned()
    }
}

/// Metadata of an API trace. Stored as JSON: fields are added, never changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ApiTraceMetadata {
    /// The API.
    pub api: Api,
    /// Version of the driver API: 13000 for CUDA 13.0.
    pub version: u32,
    /// The device.
    pub device: CallDevice,
    /// The address range of allocations; 0 bytes: none.
    pub window: CallWindow,
    /// The address range of the program's own reservations; 0 bytes: none.
    #[serde(skip_serializing_if = "CallWindow::is_empty")]
    pub reserved: CallWindow,
    /// Names of calls.
    pub names: Vec<String>,
    /// Names of the arguments of each call, in the order of [`Self::names`], eight bytes each; an empty name is not
    /// shown. Empty if the arguments have no names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub argument_names: Vec<Vec<String>>,
    /// Code that was loaded.
    pub modules: Vec<CallModule>,
    /// Functions that were launched or queried.
    pub functions: Vec<CallFunction>,
    /// Streams, in the order of the indices in rows.
    pub streams: Vec<CallStream>,
    /// Limits of the context that the program set, by driver number (0 stack of a thread, 1 room for kernel printf
    /// output, 2 heap of kernels), each with its largest value in bytes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<[u64; 2]>,
    /// The recorded process.
    #[serde(skip_serializing_if = "CallProcess::is_unknown")]
    pub process: CallProcess,
    /// The recorded part of the program: `whole`, `first 10 launches`, `marked`.
    pub range: String,
    /// The requests to the kernel driver, if they were recorded too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<Box<DriverTraceMetadata>>,
    /// Start of the event times on the machine's monotonic clock, nanoseconds, if the recorder states it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_start: Option<u64>,
}

/// The process of an API trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CallProcess {
    /// Process id on the recorded machine; 0: unknown.
    pub number: u32,
    /// Process id of its parent; 0: unknown.
    pub parent: u32,
    /// Its command line.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Whether it ended normally, so that nothing is missing.
    pub ended: bool,
}

impl CallProcess {
    /// Whether the recording does not name its process.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        *self == Self::default()
    }
}

/// The device of the calls.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CallDevice {
    /// Its name in the driver.
    pub name: String,
    /// Compute capability, major and minor.
    pub capability: [u32; 2],
    /// Number of multiprocessors.
    pub multiprocessors: u32,
    /// Size of its memory, bytes.
    pub memory: u64,
    /// UUID of the device.
    pub uuid: String,
}

/// A range of addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CallWindow {
    /// First address.
    pub base: GpuVa,
    /// Size, bytes.
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
    pub fn contains(&self, at: GpuVa, bytes: u64) -> bool {
        let end = at.checked_add(bytes);
        at >= self.base && end.is_some_and(|end| end <= self.base.saturating_add(self.bytes))
    }
}

/// The form of code. Stored by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CodeKind {
    /// Machine code in an ELF file (cubin).
    Cubin,
    /// PTX text for the driver's compiler.
    Ptx,
    /// A container of both (fatbin).
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
    /// Its origin: a file name, or `memory`.
    pub origin: String,
    /// Its form as stored here.
    pub kind: CodeKind,
    /// Size, bytes; 0 if it is not stored.
    pub bytes: u64,
    /// BLAKE3 of these bytes, in hexadecimal.
    pub digest: String,
    /// Pages with the code, as runs of first page and number of pages; the last one is padded with zeros.
    pub pages: Vec<[u32; 2]>,
    /// Device variables in it that were queried or are known.
    pub globals: Vec<CallGlobal>,
    /// The reason why it is not stored, if it is not.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub missing: String,
}

/// A variable in a module.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CallGlobal {
    /// Its mangled name.
    pub name: String,
    /// Its device address.
    pub at: GpuVa,
    /// Size, bytes.
    pub bytes: u64,
}

/// A function of the device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CallFunction {
    /// Its mangled name.
    pub name: String,
    /// Its source name; empty if equal or unknown.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub demangled: String,
    /// The module, an index into [`ApiTraceMetadata::modules`].
    pub module: Option<u32>,
    /// Offset and size of each parameter in the parameter buffer, in bytes.
    pub parameters: Vec<[u32; 2]>,
    /// Registers per thread.
    pub registers: u32,
    /// Size of its own shared memory, bytes.
    pub shared: u32,
    /// Size of local memory per thread, bytes.
    pub local: u32,
    /// Maximum number of threads per block.
    pub most_threads: u32,
    /// Attributes that the program set, by driver number, with their last values.
    pub attributes: Vec<[i32; 2]>,
}

impl CallFunction {
    /// Returns the name for display.
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
    /// Creation flags; 1: it does not wait for the default stream.
    pub flags: u32,
    /// Its priority; lower values run earlier.
    pub priority: i32,
}
