//! The code of a database: LLVM bitcode, which no driver loads, or a loadable module next to it.

use super::database::{Database, MAX_LAUNCHES};
use crate::error::ImportError;
use cuda_code::cubin::Cubin;
use cuda_code::fatbin::images;
use cuda_code::ptx::Ptx;
use cuda_code::{Form, Image, ImageKind};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use trace_core::recording::CodeKind;

/// Maximum size of a module, bytes.
pub(super) const MAX_BYTES: u64 = 256 << 20;
/// Maximum unpacked size of all code in a module, bytes.
const MAX_UNPACKED: u64 = 512 << 20;
/// File name extensions of loadable modules.
const ENDINGS: [&str; 4] = ["cubin", "fatbin", "ptx", IMAGE];
/// File name extension of the code that LLVM's offload library records, for any target.
pub(super) const IMAGE: &str = "image";

/// Suffix of the names of kernels that were made internal to their module.
const INTERNAL: &str = "__intern__";

/// Returns all files that belong to a database.
pub(super) fn list_files(database: &Database) -> Vec<PathBuf> {
    let snapshots = database
        .launches
        .iter()
        .take(MAX_LAUNCHES)
        .flat_map(|l| [&l.before, &l.after]);
    let named = snapshots
        .filter(|message| !message.is_empty())
        .map(|text| database.file(text));
    let mut all: Vec<PathBuf> = named.collect();
    all.extend(find_code_files(database).into_iter().flatten());
    all.sort();
    all.dedup();
    all
}

/// Returns the name of a kernel before it was made internal, or `None` if it was not.
pub(super) fn before_internal(name: &str) -> Option<&str> {
    name.split_once(INTERNAL).map(|(plain, _)| plain)
}

/// Returns the candidate files of each module of a database, and of one more if it names none. The order is: next to
/// the bitcode, next to the database, and for a single module a file with the database's name.
pub(super) fn find_code_files(database: &Database) -> Vec<Vec<PathBuf>> {
    let folder = database.path.parent().unwrap_or(Path::new(""));
    let own = |only: bool| if only { database.path.file_stem() } else { None };
    let mut all = Vec::new();
    for message in &database.modules {
        let report = Path::new(message);
        let mut files = Vec::new();
        if let Some(stem) = report.file_stem() {
            let apart = folder.join(report).parent().map(Path::to_owned);
            for place in apart.iter().map(PathBuf::as_path).chain([folder]) {
                files.extend(named(place, stem));
            }
        }
        files.extend(
            own(database.modules.len() == 1)
                .into_iter()
                .flat_map(|s| named(folder, s)),
        );
        files.dedup();
        all.push(files);
    }
    if database.modules.is_empty() {
        all.push(own(true).into_iter().flat_map(|s| named(folder, s)).collect());
    }
    all
}

/// Returns the files of a stem in a folder.
fn named(folder: &Path, stem: &std::ffi::OsStr) -> Vec<PathBuf> {
    let file = |ending: &str| {
        let mut name = stem.to_owned();
        name.push(".");
        name.push(ending);
        folder.join(name)
    };
    ENDINGS.iter().map(|e| file(e)).collect()
}

/// A module that a driver can load.
pub(super) struct Loadable {
    /// Its file.
    pub path: PathBuf,
    /// Its form.
    pub kind: CodeKind,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// The code in it, unpacked if it is a container of several.
    codes: Vec<(Form, Vec<u8>)>,
    /// Variables in any of its code, with their size in bytes if known.
    variables: BTreeMap<String, Option<u64>>,
}

/// Properties of a kernel in code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct KernelInfo {
    /// The kernel's name in the module.
    pub name: String,
    /// Offset and size of each parameter.
    pub parameters: Vec<[u32; 2]>,
    /// Registers per thread; 0: unknown.
    pub registers: u32,
    /// Size of its own shared memory, bytes.
    pub shared: u32,
    /// Size of local memory per thread, bytes.
    pub local: u32,
}

impl Loadable {
    /// Reads the module in a file. Returns `None` if the file is no module or missing.
    pub fn read(path: &Path) -> Result<Option<Self>, ImportError> {
        if !path.is_file() {
            return Ok(None);
        }
        let io = |e| ImportError::io(path, e);
        let mut bytes = Vec::new();
        let file = File::open(path).map_err(io)?;
        file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(io)?;
        let (kind, codes) = match Image::detect(&bytes).kind {
            _ if bytes.len() as u64 > MAX_BYTES => return Ok(None),
            ImageKind::Cubin => (CodeKind::Cubin, Vec::new()),
            ImageKind::Ptx => (CodeKind::Ptx, Vec::new()),
            ImageKind::Fatbin => (CodeKind::Fatbin, unpacked(&bytes)),
            ImageKind::Unknown => return Ok(None),
        };
        let mut module = Self {
            path: path.to_owned(),
            kind,
            bytes,
            codes,
            variables: BTreeMap::new(),
        };
        let variables = module.all().into_iter().flat_map(|(form, code)| match form {
            Form::Machine => variables_of_cubin(code),
            Form::Ptx => variables_of_ptx(code),
        });
        module.variables = variables.collect();
        Ok(Some(module))
    }

    /// Returns the code in it.
    fn all(&self) -> Vec<(Form, &[u8])> {
        let own = match self.kind {
            CodeKind::Cubin => Some((Form::Machine, self.bytes.as_slice())),
            CodeKind::Ptx => Some((Form::Ptx, self.bytes.as_slice())),
            _ => None,
        };
        let packed = self.codes.iter().map(|(form, code)| (*form, code.as_slice()));
        own.into_iter().chain(packed).collect()
    }

    /// Whether the module has a variable of this name and size.
    pub fn has_variable(&self, name: &str, bytes: u64) -> bool {
        let known = self.variables.get(name);
        known.is_some_and(|size| size.is_none_or(|s| s == bytes))
    }

    /// Returns the properties of a kernel, or `None` if the module has none of the name. A kernel that was made
    /// internal for a recording is also searched by its earlier name.
    pub fn kernel(&self, name: &str) -> Option<KernelInfo> {
        let all = self.all();
        let names = [Some(name), before_internal(name)];
        let mut found = names.iter().flatten().flat_map(|n| all.iter().map(move |c| (n, c)));
        found.find_map(|(name, (form, code))| match form {
            Form::Machine => find_in_cubin(code, name),
            Form::Ptx => find_in_ptx(code, name),
        })
    }
}

/// Returns the code of a fatbin; code that does not unpack is left out, the driver reports more about it.
fn unpacked(bytes: &[u8]) -> Vec<(Form, Vec<u8>)> {
    let mut left = MAX_UNPACKED;
    let mut codes = Vec::new();
    let entries = images(bytes).map_while(Result::ok).flat_map(|image| image.entries());
    for entry in entries.map_while(Result::ok) {
        let size = entry.unpacked_bytes.max(entry.padded_bytes);
        let Some(form) = entry.form().filter(|_| size <= left) else {
            continue;
        };
        left -= size;
        if let Ok(code) = entry.code() {
            codes.push((form, code.into_owned()));
        }
    }
    codes
}

fn variables_of_cubin(code: &[u8]) -> Vec<(String, Option<u64>)> {
    let variables = Cubin::parse(code).and_then(|c| c.variables()).unwrap_or_default();
    variables.iter().map(|v| (v.name.to_owned(), Some(v.bytes))).collect()
}

fn variables_of_ptx(code: &[u8]) -> Vec<(String, Option<u64>)> {
    let variables = Ptx::parse(code).map(|p| p.variables).unwrap_or_default();
    variables.iter().map(|v| (v.name.to_owned(), v.bytes)).collect()
}

fn find_in_cubin(code: &[u8], name: &str) -> Option<KernelInfo> {
    let kernel = Cubin::parse(code).ok()?.kernel(name).ok()??;
    let small = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    let parameters = kernel.parameters.iter();
    Some(KernelInfo {
        name: name.to_owned(),
        parameters: parameters.map(|p| [p.offset.into(), p.bytes.into()]).collect(),
        registers: kernel.registers.unwrap_or(0),
        shared: small(kernel.static_shared_bytes),
        local: small(kernel.stack_bytes),
    })
}

fn find_in_ptx(code: &[u8], name: &str) -> Option<KernelInfo> {
    let ptx = Ptx::parse(code).ok()?;
    let parameters = ptx.entry(name)?.parameters.iter();
    let small = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    Some(KernelInfo {
        name: name.to_owned(),
        parameters: parameters.map(|p| [small(p.offset), small(p.bytes)]).collect(),
        ..KernelInfo::default()
    })
}

/// The parameter buffer of a launch: values at the offsets from the code, or by the sizes alone if the code has no
/// offsets that fit.
pub(super) struct ParameterBuffer {
    /// Offset and size of each parameter.
    pub parameters: Vec<[u32; 2]>,
    /// The buffer.
    pub bytes: Vec<u8>,
    /// A note about assumed or skipped data.
    pub note: Option<&'static str>,
}

/// Lays out values in a parameter buffer.
pub(super) fn lay_out(values: &[Vec<u8>], info: Option<&KernelInfo>) -> ParameterBuffer {
    let sizes = || values.iter().map(|v| v.len() as u64);
    let fitting = info.filter(|t| {
        let same = t.parameters.iter().map(|p| u64::from(p[1])).eq(sizes());
        // Hostile code may give parameters any location.
        same && t.parameters.iter().all(|p| u64::from(p[0]) < u64::from(u16::MAX))
    });
    let (parameters, note) = match (fitting, info) {
        (Some(t), _) => (t.parameters.clone(), None),
        (None, info) => {
            let mut at = 0u64;
            let mut parameters = Vec::new();
            for size in sizes() {
                // A number is aligned to its own size, other values to that of their largest number.
                let aligned = at.next_multiple_of(alignment(size));
                parameters.push([aligned as u32, size as u32]);
                at = aligned + size;
            }
            let numbers = sizes().all(|s| matches!(s, 1 | 2 | 4 | 8));
            let note = match (info, numbers) {
                (Some(_), _) => {
                    Some("the module states other parameters than those recorded; they were laid out by size")
                }
                (None, false) => Some(
                    "the database does not state how arguments are aligned; each was put at a multiple of what divides \
                     its size, eight at most",
                ),
                (None, true) => None,
            };
            (parameters, note)
        }
    };
    let end = parameters.iter().map(|[at, size]| at + size).max().unwrap_or(0);
    let mut bytes = vec![0; end as usize];
    for (value, [at, _]) in values.iter().zip(&parameters) {
        let at = *at as usize;
        if let Some(to) = bytes.get_mut(at..at + value.len()) {
            to.copy_from_slice(value);
        }
    }
    ParameterBuffer {
        parameters,
        bytes,
        note,
    }
}

/// Returns the greatest power of two up to eight that divides a size.
fn alignment(size: u64) -> u64 {
    1 << size.trailing_zeros().min(3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn argument_layout_falls_back_to_sizes() {
        let values = [vec![1; 4], vec![2; 8], vec![3; 1], vec![4; 2]];
        let layout = lay_out(&values, None);
        assert_eq!(layout.parameters, [[0, 4], [8, 8], [16, 1], [18, 2]]);
        assert_eq!(layout.note, None);
        assert_eq!(
            layout.bytes,
            [1, 1, 1, 1, 0, 0, 0, 0, 2, 2, 2, 2, 2, 2, 2, 2, 3, 0, 4, 4]
        );
        // 12 bytes may be three words, or a value aligned to 16.
        let layout = lay_out(&[vec![1; 1], vec![2; 12]], None);
        assert_eq!(layout.parameters, [[0, 1], [4, 12]]);
        assert!(layout.note.is_some());
        assert_eq!((alignment(0), alignment(24), alignment(6)), (8, 8, 2));
        assert!(lay_out(&[], None).bytes.is_empty());
    }

    #[test]
    fn matching_code_gives_the_argument_layout() {
        let values = [vec![1; 4], vec![2; 12]];
        let info = KernelInfo {
            parameters: vec![[0, 4], [16, 12]],
            ..KernelInfo::default()
        };
        let layout = lay_out(&values, Some(&info));
        assert_eq!(
            (layout.parameters.as_slice(), layout.note),
            (&[[0, 4], [16, 12]][..], None)
        );
        assert_eq!((layout.bytes.len(), layout.bytes[15], layout.bytes[16]), (28, 0, 2));
        for invalid in [vec![[0, 4]], vec![[0, 4], [16, 8]], vec![[0, 4], [1 << 30, 12]]] {
            let info = KernelInfo {
                parameters: invalid,
                ..KernelInfo::default()
            };
            let layout = lay_out(&values, Some(&info));
            assert_eq!(layout.parameters, [[0, 4], [4, 12]]);
            assert!(layout.note.is_some_and(|n| n.contains("other parameters")));
        }
    }
}
