//! Folders of job chains that Mesa's driver for Mali wrote: a checked reader.
//!
//! | file | holds |
//! |---|---|
//! | `spec.json` | the program, its GPU, its named buffers, the list of its submits |
//! | one a submit, `submitNNN.json` | the chain's head, and the driver's buffer objects with address, size and image |
//! | images | the contents of a buffer object before the submit, as the CPU left it |
//!
//! Nothing in such a folder was executed. It becomes a recording when a GPU runs the chains, through the project's own
//! driver. Each image shows the state before its submit and holds no results, not even of earlier submits. Where two
//! images of an object differ, the CPU wrote in between. Where they are equal, the GPU left the bytes, or the CPU wrote
//! the same bytes again; the two cases cannot be distinguished.

mod folder;
#[cfg(test)]
mod tests;

use super::error::ImportError;
use folder::Folder;
use serde::Deserialize;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;
use trace_core::finding::{Finding, FindingKind};
use trace_core::mmu::VA_BITS;
use trace_core::recording::{BufferRole, ElementType};
use trace_core::{GpuVa, PAGE_SIZE};

/// File name of a folder's list.
const LIST: &str = "spec.json";
/// Maximum size of a text file, and of all buffer objects of a submit together, bytes.
const MAX_TEXT: u64 = 4 << 20;
const MAX_OBJECTS: u64 = 256 << 20;
/// Maximum number of submits, and maximum number of buffer objects of all of them together.
const MAX_SUBMITS: usize = 4096;
const MAX_LISTED: usize = 1 << 16;
/// Size of a heap that grows on demand: as much as Linux maps at the first fault.
const HEAP_BYTES: u64 = 2 << 20;
const PAGE: u64 = PAGE_SIZE as u64;

/// The work of a folder. Images are read on request: [`Chains::image`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chains {
    /// The folder.
    pub path: PathBuf,
    /// Name of the program.
    pub program: String,
    /// Names of GPU and driver in GLES; empty if the folder has none.
    pub renderer: String,
    /// Versions of GLES and of the driver; empty if the folder has none.
    pub gl_version: String,
    /// The GPU id register: the product in the upper half, no revision.
    pub gpu_id: u32,
    /// The program's buffers, in list order. Each lies in buffer objects of some submit.
    pub buffers: Vec<NamedBuffer>,
    /// Shaders in the list: address and size in bytes.
    pub shaders: Vec<(GpuVa, u64)>,
    /// Submits, in order.
    pub submits: Vec<Submit>,
    /// List entries that could not be used, with the reason.
    pub findings: Vec<Finding>,
    /// The temporary folder of an unpacked archive.
    unpacked: UnpackedFolder,
}

/// A temporary folder that exists as long as the chains, whose images lie in it.
#[derive(Clone, Debug, Default)]
struct UnpackedFolder(#[expect(dead_code, reason = "the folder is removed when it is dropped")] Option<Arc<TempDir>>);

impl PartialEq for UnpackedFolder {
    /// Chains are the same wherever their archive was unpacked.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for UnpackedFolder {}

/// A memory range that the program names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedBuffer {
    /// Name, unique in a folder.
    pub name: String,
    /// First byte.
    pub va: GpuVa,
    /// Bytes, not 0.
    pub bytes: u64,
    /// Type of its elements.
    pub element: ElementType,
    /// Its role, if the list gives a role or expected contents.
    pub role: Option<BufferRole>,
}

/// A chain, and memory at its submission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submit {
    /// Name of its file in the folder.
    pub file: String,
    /// Head of the chain.
    pub head: GpuVa,
    /// Whether it is fragment work, which has its own slot.
    pub fragment: bool,
    /// The driver's buffer objects, by ascending address; none covers another.
    pub objects: Vec<Object>,
}

/// A buffer object at a submit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// The driver's handle, which may be reused after release; 0 if unknown.
    pub handle: u64,
    /// First byte, page-aligned.
    pub va: GpuVa,
    /// Size of the backed part in whole pages, bytes: the whole object, or the start of a heap that grows on demand.
    pub bytes: u64,
    /// Whether shaders may run from it.
    pub executable: bool,
    /// Whether the submit names it.
    pub used: bool,
    /// Name of the file with its image; `None`: all zero.
    pub file: Option<String>,
}

impl Object {
    /// Whether it is the same object at another submit.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        let of = |o: &Self| (o.handle, o.va, o.bytes, o.executable);
        of(self) == of(other)
    }

    /// Returns the address after its last byte.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.va.get().saturating_add(self.bytes)
    }
}

#[derive(Deserialize)]
struct Spec {
    program: String,
    #[serde(default)]
    renderer: String,
    #[serde(default)]
    gl_version: String,
    #[serde(default)]
    buffers: Vec<BufferEntry>,
    gpu_id: String,
    submits: Vec<SubmitEntry>,
}

#[derive(Deserialize)]
struct BufferEntry {
    name: String,
    bytes: u64,
    #[serde(rename = "type", default)]
    element: String,
    role: Option<String>,
    expected: Option<String>,
    gpu_va: Option<String>,
}

#[derive(Deserialize)]
struct SubmitEntry {
    submit: String,
    #[serde(default)]
    jobs: Vec<JobEntry>,
}

#[derive(Deserialize)]
struct JobEntry {
    rsd: Option<StateEntry>,
}

#[derive(Deserialize)]
struct StateEntry {
    shader: Option<String>,
    file: Option<String>,
}

#[derive(Deserialize)]
struct SubmitFile {
    jc: String,
    requirements: u32,
    bos: Vec<ObjectEntry>,
}

#[derive(Deserialize)]
struct ObjectEntry {
    #[serde(default)]
    handle: u64,
    va: String,
    size: u64,
    noexec: bool,
    heap: bool,
    in_submit: bool,
    file: Option<String>,
}

/// Whether a path looks like such a folder.
#[must_use]
pub fn fits(path: &Path) -> bool {
    path.join(LIST).is_file()
}

/// Describes a folder that has submits but not their list.
pub(crate) fn describe_close(path: &Path) -> Option<String> {
    let is_close = path.is_dir() && path.join("submit000.json").is_file() && !path.join(LIST).exists();
    is_close.then(|| {
        format!("a folder of job chains of Mesa's panfrost driver, but {LIST} is missing: it lists submits and buffers")
    })
}

/// Returns the files of a folder that are read: the list and all files that it leads to, as far as it is readable.
#[must_use]
pub fn parts(path: &Path) -> Vec<PathBuf> {
    let folder = Folder { path };
    let mut names = BTreeSet::from([LIST.to_owned()]);
    if let Ok(spec) = folder.json::<Spec>(LIST) {
        for entry in spec.submits.into_iter().take(MAX_SUBMITS) {
            if let Ok(submit) = folder.json::<SubmitFile>(&entry.submit) {
                names.extend(submit.bos.into_iter().filter_map(|o| o.file));
            }
            let state = entry.jobs.into_iter().filter_map(|j| j.rsd);
            names.extend(state.filter_map(|s| s.file));
            names.insert(entry.submit);
        }
    }
    names.iter().filter_map(|n| folder.file(LIST, n).ok()).collect()
}

/// Reads the list of a folder and of each of its submits, and checks presence and size of the images.
///
/// # Errors
///
/// When a file is missing, does not match its description in another file, or is inconsistent; the error names the
/// file.
pub fn read(path: &Path) -> Result<Chains, ImportError> {
    let folder = Folder { path };
    let spec: Spec = folder.json(LIST)?;
    let product = folder.hex(LIST, "gpu_id", &spec.gpu_id)?;
    let gpu_id = u32::try_from(product).ok().filter(|p| *p <= 0xffff).map(|p| p << 16);
    let gpu_id = gpu_id.ok_or_else(|| folder.malformed(LIST, format!("gpu_id is {product:#x}, more than 16 bits")))?;
    if spec.submits.is_empty() || spec.submits.len() > MAX_SUBMITS {
        let n = spec.submits.len();
        return Err(folder.malformed(LIST, format!("it lists {n} submits (expected 1 to {MAX_SUBMITS})")));
    }
    let mut listed = 0usize;
    let mut submits = Vec::new();
    for entry in &spec.submits {
        let submit = folder.submit(&entry.submit)?;
        listed = listed.saturating_add(submit.objects.len());
        if listed > MAX_LISTED {
            return Err(folder.malformed(
                &entry.submit,
                format!("the files up to this one have more than {MAX_LISTED} buffer objects"),
            ));
        }
        submits.push(submit);
    }
    let mut chains = Chains {
        path: path.to_owned(),
        shaders: shaders(&folder, &spec)?,
        buffers: Vec::new(),
        program: spec.program,
        renderer: spec.renderer,
        gl_version: spec.gl_version,
        gpu_id,
        submits,
        findings: Vec::new(),
        unpacked: UnpackedFolder::default(),
    };
    let mut names = BTreeSet::new();
    for entry in spec.buffers {
        if !names.insert(entry.name.clone()) {
            return Err(folder.malformed(LIST, format!("two buffers are called {:?}", entry.name)));
        }
        chains.take_buffer(&folder, entry)?;
    }
    chains.shaders.retain(|(va, bytes)| {
        let submits = &chains.submits;
        is_covered(submits, *va, *bytes)
    });
    Ok(chains)
}

impl Chains {
    /// Keeps the temporary folder of an unpacked archive as long as the chains.
    pub(crate) fn keep_folder(mut self, folder: Option<&Arc<TempDir>>) -> Self {
        self.unpacked = UnpackedFolder(folder.cloned());
        self
    }

    /// Returns the image of a buffer object: as many bytes as the object has, or none if it is zero.
    ///
    /// # Errors
    ///
    /// When its file cannot be read, or its size changed in the meantime.
    pub fn image(&self, submit: &Submit, object: &Object) -> Result<Vec<u8>, ImportError> {
        let folder = Folder { path: &self.path };
        let Some(name) = &object.file else {
            return Ok(Vec::new());
        };
        let bytes = folder.bytes(&submit.file, name, object.bytes)?;
        if bytes.len() as u64 == object.bytes {
            Ok(bytes)
        } else {
            Err(folder.other_size(&submit.file, name, bytes.len() as u64, object.bytes))
        }
    }

    fn take_buffer(&mut self, folder: &Folder<'_>, entry: BufferEntry) -> Result<(), ImportError> {
        let role = match entry.role.as_deref() {
            Some("input") => Some(BufferRole::Input),
            Some("output") => Some(BufferRole::Output),
            Some("weights") => Some(BufferRole::Weights),
            Some("shared") => Some(BufferRole::Shared),
            _ => entry.expected.is_some().then_some(BufferRole::Output),
        };
        let va = match &entry.gpu_va {
            Some(va) => GpuVa::new(folder.hex(LIST, "gpu_va", va)?),
            None => {
                self.note_unused(&entry.name, "the list does not state its address");
                return Ok(());
            }
        };
        if va.get().checked_add(entry.bytes).is_none_or(|end| end > 1 << VA_BITS) {
            let what = format!("buffer {:?} of {} bytes at {va} is too large", entry.name, entry.bytes);
            return Err(folder.malformed(LIST, what));
        }
        if entry.bytes == 0 || !is_covered(&self.submits, va, entry.bytes) {
            let why = format!(
                "{} bytes at {va} are not all in buffer objects of one submit",
                entry.bytes
            );
            self.note_unused(&entry.name, &why);
            return Ok(());
        }
        self.buffers.push(NamedBuffer {
            name: entry.name,
            va,
            bytes: entry.bytes,
            element: element(&entry.element),
            role,
        });
        Ok(())
    }

    fn note_unused(&mut self, buffer: &str, why: &str) {
        let message = format!("buffer {buffer:?} was not imported: {why}");
        self.findings.push(Finding::new(FindingKind::NotUsed, LIST, message));
    }
}

/// Whether a range lies in the objects of a submit.
fn is_covered(submits: &[Submit], va: GpuVa, bytes: u64) -> bool {
    let end = va.get().saturating_add(bytes);
    submits.iter().any(|s| {
        let mut at = va.get();
        for o in &s.objects {
            if at < end && o.va.get() <= at && at < o.end() {
                at = o.end();
            }
        }
        at >= end
    })
}

/// Returns the element type at the start of a description or in it: `f32x4`, `std140 f32[9]`.
fn element(text: &str) -> ElementType {
    ElementType::ALL
        .into_iter()
        .find(|t| text.contains(t.name()))
        .unwrap_or(ElementType::U8)
}

/// Returns the shaders that the jobs of a list name, each with its size, by ascending address.
fn shaders(folder: &Folder<'_>, spec: &Spec) -> Result<Vec<(GpuVa, u64)>, ImportError> {
    let mut all = BTreeMap::new();
    let states = spec.submits.iter().flat_map(|s| &s.jobs).filter_map(|j| j.rsd.as_ref());
    for state in states {
        let (Some(va), Some(file)) = (&state.shader, &state.file) else {
            continue;
        };
        let va = folder.hex(LIST, "shader", va)?;
        if let Entry::Vacant(free) = all.entry(va) {
            free.insert(folder.size(LIST, file)?);
        }
    }
    let within = |(va, bytes): &(u64, u64)| *bytes > 0 && *bytes <= MAX_TEXT && va.checked_add(*bytes).is_some();
    Ok(all
        .into_iter()
        .filter(within)
        .map(|(va, bytes)| (GpuVa::new(va), bytes))
        .collect())
}
