//! The user's register maps: files of a folder and one next to a recording, loaded, applied, and reloaded when they
//! change.
//!
//! In the folder, a map is a file `NAME.map.toml`, or a folder `NAME.map` of `.toml` files. Next to a recording
//! `F.kine` it is `F.map.toml`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::SystemTime;
use trace_core::recording::Recording;
use trace_core::registers::{self, MapScope, RegisterMap};

/// Suffix of map file names.
pub const SUFFIX: &str = ".map.toml";
/// Suffix of the names of map folders.
const FOLDER_SUFFIX: &str = ".map";
/// Maximum size of a map's files, bytes. Reading needs some thirty times as much memory.
pub(crate) const MAX_BYTES: u64 = 16 << 20;
/// Maximum size of the files of all maps together, bytes.
const MAX_ALL_BYTES: u64 = 64 << 20;
/// Maximum memory of all maps of a folder and the one next to a recording, bytes.
const MAX_BUILT: u64 = 256 << 20;
/// Maximum memory of all map versions read since the program started, bytes: none is ever freed.
const MAX_KEPT: u64 = 1 << 30;
/// Maximum number of maps of a folder, and maximum number of files of a map.
const MAX_MAPS: usize = 256;
const MAX_FILES: usize = 256;
/// Maximum number of names of a folder that are read.
const MAX_LISTED: usize = 16_384;

/// A map of the user.
#[derive(Clone, Debug)]
pub struct UserMap {
    /// Its file or folder.
    pub path: PathBuf,
    /// Whether it is next to the recording and applies to that recording only.
    pub beside: bool,
    /// The map, or the reason why it is not used, with file and line.
    pub map: Result<&'static RegisterMap, String>,
}

/// Returns the path of the map next to a recording: `F.map.toml` for `F.kine` and for a folder `F`. For a file of
/// another format the whole name is kept: `F.log.map.toml`.
#[must_use]
pub fn sibling_map_path(recording: &Path) -> PathBuf {
    let full = std::path::absolute(recording).unwrap_or_else(|_| recording.to_owned());
    let name = full
        .file_name()
        .map(|n| n.to_string_lossy().into_owned())
        .unwrap_or_default();
    let stem = name.strip_suffix(".kine").unwrap_or(&name);
    full.with_file_name(format!("{stem}{SUFFIX}"))
}

/// Returns the path that identifies a recording opened from a file.
fn opened_from(file: &Path) -> Arc<Path> {
    std::path::absolute(file).unwrap_or_else(|_| file.to_owned()).into()
}

/// Metadata of a file when it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stamp {
    modified: Option<SystemTime>,
    bytes: u64,
    digest: Option<blake3::Hash>,
}

impl Stamp {
    fn read_metadata(path: &Path) -> Option<(Option<SystemTime>, u64)> {
        let metadata = std::fs::metadata(path).ok()?;
        Some((metadata.modified().ok(), metadata.len()))
    }
}

/// Files with a check for changes since they were read. Time and length are compared first; if they differ, the content
/// decides. A file that was only touched has not changed.
#[derive(Debug, Default)]
pub struct WatchedFiles {
    /// Relevant files, missing ones included.
    files: BTreeMap<PathBuf, Option<Stamp>>,
    /// Folders whose lists of maps matter, with their contents.
    folders: BTreeMap<PathBuf, Vec<PathBuf>>,
}

impl WatchedFiles {
    /// Whether a file changed, appeared or disappeared since it was read. Reads files whose time or length changed, so
    /// do not call it on the UI thread.
    pub fn has_changed(&mut self) -> bool {
        let lists = self.folders.iter().any(|(folder, had)| entries(folder) != *had);
        let mut any = lists;
        for (path, had) in &mut self.files {
            match (Stamp::read_metadata(path), had.as_mut()) {
                (None, None) => {}
                (Some((modified, bytes)), Some(stamp)) if stamp.modified == modified && stamp.bytes == bytes => {}
                (Some((modified, bytes)), Some(stamp)) => {
                    let digest = read(path).ok().map(|text| blake3::hash(text.as_bytes()));
                    if digest == stamp.digest && digest.is_some() {
                        (stamp.modified, stamp.bytes) = (modified, bytes);
                    } else {
                        any = true;
                    }
                }
                _ => any = true,
            }
        }
        any
    }

    /// Reads a file and records its metadata.
    fn read(&mut self, path: &Path) -> Result<String, String> {
        // Metadata first: a change between the two reads is then detected at the next check.
        let metadata = Stamp::read_metadata(path);
        let text = read(path);
        let stamp = metadata.map(|(modified, bytes)| Stamp {
            modified,
            bytes,
            digest: text.as_ref().ok().map(|t| blake3::hash(t.as_bytes())),
        });
        self.files.insert(path.to_owned(), stamp);
        text
    }

    fn list(&mut self, folder: &Path) -> Vec<PathBuf> {
        let list = entries(folder);
        self.folders.insert(folder.to_owned(), list.clone());
        list
    }
}

fn read(path: &Path) -> Result<String, String> {
    let describe = |e: std::io::Error| format!("{}: {e}", path.display());
    // Checked before the file is opened: opening a pipe would block until somebody writes into it.
    if !std::fs::metadata(path).map_err(describe)?.is_file() {
        return Err(format!("{}: it is not a regular file", path.display()));
    }
    let file = std::fs::File::open(path).map_err(describe)?;
    let mut text = String::new();
    let n = file.take(MAX_BYTES + 1).read_to_string(&mut text).map_err(describe)?;
    if n as u64 > MAX_BYTES {
        return Err(format!("{}: the file has more than {MAX_BYTES} bytes", path.display()));
    }
    Ok(text)
}

/// Returns the maps of a folder, or the files of a map folder, by name.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let own = |name: &str, is_folder: bool| {
        if is_folder {
            name.ends_with(FOLDER_SUFFIX)
        } else {
            name.ends_with(SUFFIX)
        }
    };
    let in_map = folder
        .file_name()
        .is_some_and(|n| n.to_string_lossy().ends_with(FOLDER_SUFFIX));
    let list = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut all: Vec<PathBuf> = list
        .filter(|e| {
            let name = e.file_name().to_string_lossy().into_owned();
            let is_folder = e.path().is_dir();
            let fits = if in_map {
                !is_folder && name.ends_with(".toml")
            } else {
                own(&name, is_folder)
            };
            fits && !name.starts_with('.')
        })
        .map(|e| e.path())
        .take(MAX_LISTED)
        .collect();
    all.sort();
    all
}

/// Sources in use, so that sources that disappear can be removed.
static IN_USE: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Maps read since the program started, by the content of their files: the same content gives the same map.
#[derive(Default)]
struct MapCache {
    by_content: BTreeMap<[u8; 32], &'static RegisterMap>,
    bytes: u64,
}

static KEPT: LazyLock<Mutex<MapCache>> = LazyLock::new(Mutex::default);

/// Returns the map of files with this content. Builds it if needed and keeps it as long as the program runs.
fn cached_map(
    content: blake3::Hash,
    make: impl FnOnce() -> Result<RegisterMap, String>,
) -> Result<&'static RegisterMap, String> {
    let mut all = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = all.by_content.get(content.as_bytes()) {
        return Ok(known);
    }
    let made = make()?;
    let bytes = all.bytes.saturating_add(made.built_bytes());
    if bytes > MAX_KEPT {
        return Err(format!(
            "maps changed so often that all their versions take more than {} MiB; start the program again to use this \
             version",
            MAX_KEPT >> 20
        ));
    }
    all.bytes = bytes;
    let made: &'static RegisterMap = Box::leak(Box::new(made));
    all.by_content.insert(*content.as_bytes(), made);
    Ok(made)
}

/// The maps of the user's folder and the map next to a recording.
#[derive(Debug, Default)]
pub struct UserMaps {
    /// All maps found, those next to the recording first. If a folder has too many maps, one entry for the folder gives
    /// the reason.
    pub maps: Vec<UserMap>,
    /// The files that they were read from.
    pub files: WatchedFiles,
    /// Size of the files of all maps, and memory of the maps, bytes.
    read: u64,
    built: u64,
}

impl UserMaps {
    /// Reads the maps of a folder and applies them in this program. Maps whose file is gone or damaged are no longer
    /// applied. A missing folder holds none.
    #[must_use]
    pub fn open_folder(folder: Option<&Path>) -> Self {
        let mut all = Self::default();
        let Some(folder) = folder else { return all };
        let list = all.files.list(folder);
        let mut seen = BTreeSet::new();
        let more = list.len().saturating_sub(MAX_MAPS);
        if let Some(first) = list.get(MAX_MAPS) {
            let name = first.file_name().unwrap_or_default().display();
            let at_least = if list.len() >= MAX_LISTED { "at least " } else { "" };
            all.maps.push(UserMap {
                path: folder.to_owned(),
                beside: false,
                map: Err(format!(
                    "{}: the folder has more than {MAX_MAPS} maps; {at_least}{more} of them, from {name} on, are not \
                     used",
                    folder.display()
                )),
            });
        }
        for path in list.into_iter().take(MAX_MAPS) {
            let source = path.display().to_string();
            let map = all.take(&path, &source, || MapScope::ItsDevices);
            seen.insert(source);
            all.maps.push(UserMap {
                path,
                beside: false,
                map,
            });
        }
        let mut used = IN_USE.lock().unwrap_or_else(PoisonError::into_inner);
        for gone in used.difference(&seen) {
            registers::choose(gone, None);
        }
        *used = seen;
        all
    }

    /// Reads the map next to a recording too and applies it to that recording only. The recording is marked with its
    /// path, so that another recording of the same device does not get this map.
    pub fn add_sibling(&mut self, file: &Path, recording: &mut Recording) {
        recording.opened_from = Some(opened_from(file));
        self.refresh_sibling(file);
    }

    /// Same as [`UserMaps::add_sibling`], for a recording that was already marked.
    pub fn refresh_sibling(&mut self, file: &Path) {
        let (path, from) = (sibling_map_path(file), opened_from(file));
        let source = path.display().to_string();
        let there = path.exists();
        let map = self.take(&path, &source, || MapScope::Recording(from));
        if there {
            self.maps.insert(
                0,
                UserMap {
                    path,
                    beside: true,
                    map,
                },
            );
        }
    }

    /// Returns the errors of maps that are not used, each with its file and line.
    pub fn errors(&self) -> impl Iterator<Item = &str> {
        self.maps
            .iter()
            .filter_map(|f| f.map.as_ref().err().map(String::as_str))
    }

    fn take(
        &mut self,
        path: &Path,
        source: &str,
        of: impl FnOnce() -> MapScope,
    ) -> Result<&'static RegisterMap, String> {
        let made = self.read(path);
        match made {
            Ok(map) => {
                registers::choose(source, Some((map, of())));
                Ok(map)
            }
            Err(e) => {
                registers::choose(source, None);
                Err(e)
            }
        }
    }

    fn read(&mut self, path: &Path) -> Result<&'static RegisterMap, String> {
        let files = if path.is_dir() {
            self.files.list(path)
        } else {
            vec![path.to_owned()]
        };
        if files.len() > MAX_FILES {
            return Err(format!("{}: the map has more than {MAX_FILES} files", path.display()));
        }
        let mut texts = Vec::with_capacity(files.len());
        let mut content = blake3::Hasher::new();
        let (mut left, mut of_all) = (MAX_BYTES, MAX_ALL_BYTES.saturating_sub(self.read));
        for file in files {
            let text = self.files.read(&file)?;
            let bytes = text.len() as u64;
            self.read = self.read.saturating_add(bytes);
            left = left.checked_sub(bytes).ok_or_else(|| {
                format!(
                    "{}: the files of the map have more than {MAX_BYTES} bytes",
                    path.display()
                )
            })?;
            of_all = of_all.checked_sub(bytes).ok_or_else(|| {
                format!(
                    "{}: your maps together have more than {MAX_ALL_BYTES} bytes; this one is not used",
                    path.display()
                )
            })?;
            content.update(&bytes.to_le_bytes()).update(text.as_bytes());
            texts.push((file.display().to_string(), text));
        }
        let files: Vec<(&str, &str)> = texts.iter().map(|(f, t)| (f.as_str(), t.as_str())).collect();
        let map = cached_map(content.finalize(), || {
            RegisterMap::parse(&files).map_err(|e| describe_error(&e, &files))
        })?;
        self.built = self.built.saturating_add(map.built_bytes());
        if self.built > MAX_BUILT {
            return Err(format!(
                "{}: your maps together take more than {} MiB of memory; this one is not used",
                path.display(),
                MAX_BUILT >> 20
            ));
        }
        Ok(map)
    }
}

/// Formats an error of the map reader with its line: if it names a register, the line of its name.
fn describe_error(e: &registers::RegisterMapError, files: &[(&str, &str)]) -> String {
    let named = format!("name = {}", toml::Value::String(e.place.clone()));
    let table = format!("[{}", e.place);
    for (file, text) in files {
        if !e.file.is_empty() && e.file != *file {
            continue;
        }
        let line = text.lines().position(|l| l.contains(&named));
        let line = line.or_else(|| text.lines().position(|l| l.trim_start().starts_with(&table)));
        if let Some(n) = line {
            return format!("{file}:{}: {}: {}", n + 1, e.place, e.reason);
        }
    }
    match (e.file.as_str(), files.first()) {
        ("", Some((file, _))) => format!("{file}: {}: {}", e.place, e.reason),
        _ => e.to_string(),
    }
}
