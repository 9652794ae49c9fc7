//! The code of a function: the kind of its module, the resources of a launch, and its PTX if the module holds it.

use super::ApiTrace;
use crate::recording::{CallModule, CodeKind, Recording};
use cuda_code::cubin::Cubin;
use cuda_code::fatbin::{Compression, Entry, images};
use cuda_code::ptx::Ptx;
use cuda_code::{Capability, Form, Image, ImageKind};
use serde::Serialize;

/// Maximum number of container entries that are listed.
const MAX_ENTRIES: usize = 4096;
/// Maximum size of PTX that is shown, bytes.
const MAX_TEXT: usize = 64 << 20;

/// A code image in a container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CodeImage {
    /// Whether the image is machine code or PTX.
    #[serde(rename = "code")]
    pub kind: CodeKind,
    /// The architecture that the image was compiled for: `sm_90a`.
    pub arch: String,
    /// Stored size, bytes.
    pub bytes: u64,
    /// Whether the image is compressed.
    pub compressed: bool,
    /// Whether the driver selects this image on the recorded device.
    #[serde(rename = "taken")]
    pub selected: bool,
}

/// The resources that a launch of a function uses. Unknown values are `None`; sizes are in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    /// Registers per thread.
    pub registers: Option<u32>,
    /// Static shared memory per block.
    pub shared: Option<u64>,
    /// Local memory per thread.
    pub local: Option<u64>,
    /// The function's own constant memory.
    pub constant: Option<u64>,
    /// Maximum number of threads per block.
    pub max_threads: Option<u32>,
    /// Maximum block dimensions in threads, from the source.
    pub bound: Option<[u32; 3]>,
    /// Required block dimensions in threads.
    pub required: Option<[u32; 3]>,
    /// Cluster dimensions in blocks.
    pub cluster: Option<[u32; 3]>,
    /// Barriers per block.
    pub barriers: Option<u32>,
    /// Size of the instructions.
    pub code: Option<u64>,
}

/// The code of a function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelCode {
    /// The function, an index into the recording's list.
    pub function: u32,
    /// The kind of code that is stored for its module.
    pub kind: CodeKind,
    /// The architecture of the code that the driver selects: `sm_90`; empty if it is not known.
    pub arch: String,
    /// The images in the module, if it holds several.
    pub images: Vec<CodeImage>,
    /// The resources that a launch uses.
    pub resources: Resources,
    /// The PTX that holds the function, without the bytes after its last line.
    pub ptx: Option<String>,
    /// Line of the PTX on which the function starts, from 0.
    pub entry_line: usize,
    /// A message about what could not be read.
    pub problem: Option<String>,
    /// Start offset of each line of the PTX.
    lines: Vec<u32>,
}

impl KernelCode {
    /// Returns the number of lines of the PTX.
    #[must_use]
    pub fn lines(&self) -> usize {
        self.lines.len()
    }

    /// Returns a line of the PTX, counted from 0.
    #[must_use]
    pub fn line(&self, n: usize) -> &str {
        let text = self.ptx.as_deref().unwrap_or_default();
        let from = self.lines.get(n).map_or(text.len(), |l| *l as usize);
        let to = self.lines.get(n + 1).map_or(text.len(), |l| *l as usize);
        text.get(from..to).unwrap_or_default().trim_end_matches(['\n', '\r'])
    }

    fn take_ptx(&mut self, code: &[u8], name: &str) {
        let end = code.iter().position(|b| *b == 0).unwrap_or(code.len());
        let code = code.get(..end.min(MAX_TEXT)).unwrap_or_default();
        let text = String::from_utf8_lossy(code).trim_end().to_owned();
        self.lines = std::iter::once(0)
            .chain(text.match_indices('\n').map(|(at, _)| at as u32 + 1))
            .collect();
        let begin = text.match_indices(".entry").find_map(|(at, word)| {
            let rest = text.get(at + word.len()..)?.trim_start();
            let behind = rest.strip_prefix(name)?;
            let ends = !behind.starts_with(|c: char| c.is_alphanumeric() || c == '_' || c == '$');
            ends.then_some(at)
        });
        let line = begin.map_or(0, |at| self.lines.partition_point(|l| *l as usize <= at));
        self.entry_line = line.saturating_sub(1);
        self.ptx = Some(text);
    }
}

impl ApiTrace {
    /// Reads the code of a function. Reads its whole module, which may be many megabytes.
    #[must_use]
    pub fn kernel(&self, recording: &Recording, function: u32) -> KernelCode {
        let mut kernel_code = KernelCode {
            function,
            ..KernelCode::default()
        };
        let Some(f) = self.metadata().functions.get(function as usize) else {
            kernel_code.problem = Some("the recording does not list this function".to_owned());
            return kernel_code;
        };
        kernel_code.resources = Resources {
            registers: Some(f.registers).filter(|r| *r > 0),
            shared: (f.registers > 0).then_some(u64::from(f.shared)),
            local: (f.registers > 0).then_some(u64::from(f.local)),
            max_threads: Some(f.most_threads).filter(|t| *t > 0),
            ..Resources::default()
        };
        let Some(module) = f.module.and_then(|m| self.metadata().modules.get(m as usize)) else {
            kernel_code.problem = Some("the recording does not state the module of the function".to_owned());
            return kernel_code;
        };
        kernel_code.kind = module.kind;
        match recording.module_code(module) {
            Some(code) => self.read_code(&mut kernel_code, &code, &f.name),
            None => kernel_code.problem = Some(missing(module)),
        }
        kernel_code
    }

    fn read_code(&self, kernel_code: &mut KernelCode, code: &[u8], name: &str) {
        let [major, minor] = self.metadata().device.capability;
        let device = Capability::new(major, minor);
        let image = Image::detect(code);
        let mut problem = None;
        match image.kind {
            ImageKind::Ptx => {
                read_ptx(kernel_code, code, name, &mut problem);
            }
            ImageKind::Cubin => read_cubin(kernel_code, code, name, &mut problem),
            ImageKind::Fatbin => match image.find_kernel(name, device) {
                Ok(found) => {
                    kernel_code.images = list_images(code, found.entry);
                    match found.form {
                        Form::Ptx => read_ptx(kernel_code, &found.code, name, &mut problem),
                        Form::Machine => {
                            read_cubin(kernel_code, &found.code, name, &mut problem);
                            // The driver does not run the text stored with the machine code, but it is readable.
                            if let Some(text) = find_ptx_text(code, name) {
                                kernel_code.take_ptx(&text, name);
                            }
                        }
                    }
                }
                Err(e) => {
                    kernel_code.images = list_images(code, None);
                    problem = Some(e.to_string());
                }
            },
            ImageKind::Unknown => problem = Some("the format of the module is unknown".to_owned()),
        }
        kernel_code.problem = problem;
    }
}

/// Explains why the code of a module is missing.
fn missing(module: &CallModule) -> String {
    match (module.missing.as_str(), module.bytes) {
        ("", 0) => "the module's code is not in the recording".to_owned(),
        ("", _) => "the module's code is damaged".to_owned(),
        (why, _) => format!("the module's code is not in the recording: {why}"),
    }
}

fn read_ptx(kernel_code: &mut KernelCode, code: &[u8], name: &str, problem: &mut Option<String>) {
    kernel_code.take_ptx(code, name);
    match Ptx::parse(code) {
        Ok(ptx) => {
            kernel_code.arch = ptx.arch.to_string();
            match ptx.entry(name) {
                Some(entry) => {
                    let r = &mut kernel_code.resources;
                    r.bound = entry.max_threads;
                    r.required = entry.required_threads;
                    r.cluster = entry.cluster;
                }
                None => *problem = Some(format!("the module holds no function {name}")),
            }
        }
        Err(e) => *problem = Some(e.to_string()),
    }
}

fn read_cubin(kernel_code: &mut KernelCode, code: &[u8], name: &str, problem: &mut Option<String>) {
    let kernel = Cubin::parse(code).and_then(|cubin| {
        kernel_code.arch = cubin.arch().to_string();
        Ok(cubin.kernel(name)?.map(|k| {
            let r = &mut kernel_code.resources;
            r.registers = r.registers.or(k.registers);
            r.shared = r.shared.or(Some(k.static_shared_bytes));
            r.local = r.local.or(Some(k.stack_bytes.max(k.local_bytes)));
            r.constant = Some(k.banks.iter().map(|b| b.bytes).fold(0, u64::saturating_add));
            r.bound = k.max_threads;
            r.required = k.required_threads;
            r.cluster = k.cluster;
            r.barriers = Some(k.barriers);
            r.code = Some(k.code_bytes);
        }))
    });
    match kernel {
        Ok(Some(())) => {}
        Ok(None) => *problem = Some(format!("the module holds no function {name}")),
        Err(e) => *problem = Some(e.to_string()),
    }
}

/// Iterates over the entries of consecutive containers.
fn entries(code: &[u8]) -> impl Iterator<Item = Entry<'_>> {
    let images = images(code).map_while(Result::ok);
    images.flat_map(|i| i.entries()).map_while(Result::ok).take(MAX_ENTRIES)
}

fn list_images(code: &[u8], taken: Option<u64>) -> Vec<CodeImage> {
    let of = |e: Entry<'_>| CodeImage {
        kind: match e.form() {
            Some(Form::Machine) => CodeKind::Cubin,
            Some(Form::Ptx) => CodeKind::Ptx,
            None => CodeKind::Unknown,
        },
        arch: e.arch.to_string(),
        bytes: e.padded_bytes,
        compressed: e.compression() != Compression::None,
        selected: taken == Some(e.at),
    };
    entries(code).map(of).collect()
}

/// Finds the PTX in a container that holds a function.
fn find_ptx_text(code: &[u8], name: &str) -> Option<Vec<u8>> {
    let texts = entries(code).filter(|e| e.form() == Some(Form::Ptx));
    let unpacked = texts.filter_map(|e| e.code().ok().map(|c| c.into_owned()));
    unpacked
        .into_iter()
        .find(|c| Ptx::parse(c).is_ok_and(|p| p.entry(name).is_some()))
}
