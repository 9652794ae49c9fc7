//! Folders of job chains that Mesa's driver made: buffer images, chain heads, named buffers. Each becomes a recording
//! of this driver submitting them.
//!
//! A folder holds `spec.json` (the program, its named buffers, its submits) and for every submit a `submitNNN.json`
//! with the buffer objects that it names, each with its address and, unless it is all zero, a file with its image
//! from before the submit. Every submit gets an address space of its own. A page whose image the CPU changed between
//! two submits is another page in each; all others, and all pages of named buffers, are the same memory in both, so
//! that what one submit computes the next one finds.

use crate::driver::Driver;
use crate::error::DriverError;
use crate::layout::SpaceId;
use crate::recorder::Recorder;
use replay_engine::device::Board;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use trace_core::mmu::Rights;
use trace_core::recording::{BufferRole, ElementType, MmuFormat, Page, ZERO_PAGE};
use trace_core::{GpuVa, PAGE_SIZE, Recording};

/// Most bytes of a text file, and of all buffer objects of a folder together.
const MAX_TEXT: u64 = 4 << 20;
const MAX_OBJECTS: u64 = 256 << 20;
/// What is mapped of a heap that grows on demand: as much as Linux maps at the first fault.
const HEAP_BYTES: u64 = 2 << 20;
/// Products are compared, revisions are not.
const PRODUCT_MASK: u32 = 0xf00f;
const PAGE: u64 = PAGE_SIZE as u64;

#[derive(Deserialize)]
struct Spec {
    program: String,
    #[serde(default)]
    renderer: String,
    #[serde(default)]
    gl_version: String,
    #[serde(default)]
    buffers: Vec<NamedBuffer>,
    gpu_id: String,
    submits: Vec<SubmitSpec>,
}

#[derive(Deserialize)]
struct NamedBuffer {
    name: String,
    bytes: u64,
    #[serde(rename = "type", default)]
    element: String,
    expected: Option<String>,
    gpu_va: Option<String>,
}

#[derive(Deserialize)]
struct SubmitSpec {
    submit: String,
    #[serde(default)]
    jobs: Vec<JobEntry>,
}

#[derive(Deserialize)]
struct JobEntry {
    rsd: Option<RendererEntry>,
}

#[derive(Deserialize)]
struct RendererEntry {
    shader: Option<String>,
    file: Option<String>,
}

#[derive(Deserialize)]
struct Submit {
    jc: String,
    requirements: u32,
    bos: Vec<Object>,
}

#[derive(Deserialize)]
struct Object {
    va: String,
    size: u64,
    noexec: bool,
    heap: bool,
    in_submit: bool,
    file: Option<String>,
}

/// A folder that is being read.
struct Folder<'a> {
    path: &'a Path,
}

fn source(place: impl std::fmt::Display, reason: impl std::fmt::Display) -> DriverError {
    DriverError::Source {
        place: place.to_string(),
        reason: reason.to_string(),
    }
}

impl Folder<'_> {
    /// A file of the folder itself; names that lead elsewhere are refused.
    fn file(&self, name: &str) -> Result<PathBuf, DriverError> {
        let plain = Path::new(name).file_name().is_some_and(|f| f == name);
        if plain {
            Ok(self.path.join(name))
        } else {
            Err(source(self.path.display(), format!("{name:?} is no file name")))
        }
    }

    fn bytes(&self, name: &str, most: u64) -> Result<Vec<u8>, DriverError> {
        let path = self.file(name)?;
        let told = |e: std::io::Error| source(path.display(), e);
        let len = std::fs::metadata(&path).map_err(told)?.len();
        if len > most {
            return Err(source(
                path.display(),
                format!("{len} bytes are more than the {most} expected"),
            ));
        }
        std::fs::read(&path).map_err(told)
    }

    fn json<T: DeserializeOwned>(&self, name: &str) -> Result<T, DriverError> {
        serde_json::from_slice(&self.bytes(name, MAX_TEXT)?).map_err(|e| source(self.path.join(name).display(), e))
    }

    fn hex(&self, name: &str, what: &str, text: &str) -> Result<u64, DriverError> {
        let digits = text.strip_prefix("0x").unwrap_or(text);
        u64::from_str_radix(digits, 16)
            .map_err(|e| source(self.path.join(name).display(), format!("{what} is {text:?}: {e}")))
    }
}

fn element(text: &str) -> ElementType {
    ElementType::ALL
        .into_iter()
        .find(|t| text.contains(t.name()))
        .unwrap_or(ElementType::U8)
}

/// Pages of one submit: image and rights by page number.
struct Pages {
    pages: BTreeMap<u64, (Box<Page>, Rights)>,
}

impl Pages {
    fn read(folder: &Folder<'_>, name: &str, submit: &Submit) -> Result<Self, DriverError> {
        let mut pages = BTreeMap::new();
        let mut total = 0u64;
        for object in submit.bos.iter().filter(|o| o.in_submit) {
            let va = folder.hex(name, "va", &object.va)?;
            let place = || folder.path.join(name).display().to_string();
            let bytes = if object.heap {
                object.size.min(HEAP_BYTES)
            } else {
                object.size
            };
            total = total.saturating_add(bytes);
            if va % PAGE != 0 || bytes % PAGE != 0 || va.checked_add(bytes).is_none() {
                return Err(source(
                    place(),
                    format!("the object at {va:#x} is not made of whole pages"),
                ));
            }
            if total > MAX_OBJECTS {
                return Err(source(
                    place(),
                    format!("its objects take more than {MAX_OBJECTS} bytes"),
                ));
            }
            let image = match &object.file {
                Some(file) => folder.bytes(file, bytes)?,
                None => Vec::new(),
            };
            if object.file.is_some() && image.len() as u64 != bytes {
                return Err(source(
                    place(),
                    format!("the image of {va:#x} has {} bytes, not {bytes}", image.len()),
                ));
            }
            let rights = if object.noexec { Rights::RW } else { Rights::RX };
            for n in 0..bytes / PAGE {
                let mut page = Box::new(ZERO_PAGE);
                if let Some(part) = image.get((n * PAGE) as usize..).and_then(|i| i.get(..PAGE_SIZE)) {
                    page.copy_from_slice(part);
                }
                pages.insert(va / PAGE + n, (page, rights));
            }
        }
        Ok(Self { pages })
    }
}

/// Records a folder's submits on a device.
///
/// # Errors
/// When the folder cannot be read, is for another GPU, or the device fails.
pub fn record_folder(path: &Path, board: &mut dyn Board) -> Result<Recording, DriverError> {
    let folder = Folder { path };
    let spec: Spec = folder.json("spec.json")?;
    let product = folder.hex("spec.json", "gpu_id", &spec.gpu_id)? as u32;
    let target = board.info();
    if product & PRODUCT_MASK != target.gpu_id >> 16 & PRODUCT_MASK {
        let reason = format!(
            "its chains are for GPU {product:#x}, the device is a {}",
            target.gpu_name
        );
        return Err(source(path.display(), reason));
    }
    let title = format!("{} by {}, {}", spec.program, spec.renderer, spec.gl_version);
    let mut driver = Driver::boot(board, Recorder::new(&title))?;
    let shared = shared_pages(&folder, &spec)?;
    let mut chains = Vec::new();
    // The latest space that has a page, and the image that it was laid out from.
    let mut latest: BTreeMap<u64, (SpaceId, Box<Page>)> = BTreeMap::new();
    for entry in &spec.submits {
        let submit: Submit = folder.json(&entry.submit)?;
        let head = GpuVa(folder.hex(&entry.submit, "jc", &submit.jc)?);
        let space = driver.new_space(MmuFormat::MaliLpae)?;
        for (page, (image, rights)) in Pages::read(&folder, &entry.submit, &submit)?.pages {
            let va = GpuVa(page * PAGE);
            match latest.get(&page) {
                Some((from, before)) if shared.contains(&page) || *before == image => {
                    driver.share(*from, space, va, PAGE)?;
                }
                _ => {
                    driver.map(space, va, PAGE, rights)?;
                    if *image != ZERO_PAGE {
                        driver.write(space, va, &image[..])?;
                    }
                }
            }
            latest.insert(page, (space, image));
        }
        // Fragment work has a slot of its own; all other work shares one.
        chains.push((space, u8::from(submit.requirements & 1 == 0), head));
    }
    name_buffers(&folder, &spec, &latest, &mut driver)?;
    for (space, slot, head) in chains {
        driver.run_chain(space, slot, head)?;
    }
    driver.finish()
}

/// Pages of named buffers, which are the same memory in every submit.
fn shared_pages(folder: &Folder<'_>, spec: &Spec) -> Result<BTreeSet<u64>, DriverError> {
    let mut pages = BTreeSet::new();
    let mut total = 0u64;
    for b in &spec.buffers {
        let Some(va) = &b.gpu_va else { continue };
        let va = folder.hex("spec.json", "gpu_va", va)?;
        total = total.saturating_add(b.bytes);
        let end = va.checked_add(b.bytes).filter(|_| total <= MAX_OBJECTS);
        let Some(end) = end else {
            let reason = format!("buffer {:?} of {} bytes at {va:#x} is too large", b.name, b.bytes);
            return Err(source(folder.path.join("spec.json").display(), reason));
        };
        pages.extend(va / PAGE..end.div_ceil(PAGE));
    }
    Ok(pages)
}

/// Names what the program calls its buffers, and the shaders.
fn name_buffers(
    folder: &Folder<'_>,
    spec: &Spec,
    latest: &BTreeMap<u64, (SpaceId, Box<Page>)>,
    driver: &mut Driver<'_>,
) -> Result<(), DriverError> {
    for b in &spec.buffers {
        let Some(va) = &b.gpu_va else { continue };
        let va = folder.hex("spec.json", "gpu_va", va)?;
        let Some((space, _)) = latest.get(&(va / PAGE)) else {
            continue;
        };
        let role = if b.expected.is_some() {
            BufferRole::Output
        } else {
            BufferRole::Input
        };
        driver.name_buffer(&b.name, role, *space, GpuVa(va), b.bytes, element(&b.element));
    }
    let mut shaders = BTreeMap::new();
    for r in spec.submits.iter().flat_map(|s| &s.jobs).filter_map(|j| j.rsd.as_ref()) {
        let (Some(va), Some(file)) = (&r.shader, &r.file) else {
            continue;
        };
        let va = folder.hex("spec.json", "shader", va)?;
        shaders.insert(va, folder.bytes(file, MAX_TEXT)?.len() as u64);
    }
    for (n, (va, bytes)) in shaders.into_iter().enumerate() {
        let Some((space, _)) = latest.get(&(va / PAGE)) else {
            continue;
        };
        driver.name_buffer(
            &format!("shader{n}"),
            BufferRole::Shader,
            *space,
            GpuVa(va),
            bytes,
            ElementType::U64,
        );
    }
    Ok(())
}
