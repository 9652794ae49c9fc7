//! The files of a database: loadable modules in place of bitcode, and launches with available memory.

use super::code::{self, KernelInfo, Loadable};
use super::database::{Launch, MAX_LAUNCHES, State, Variable};
use super::recording::{RecordingBuilder, format_path, kernel};
use crate::error::ImportError;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use trace_core::PAGE_SIZE;
use trace_core::finding::FindingKind;
use trace_core::recording::{CallModule, CodeKind, MemoryBuilder};

impl<'a> RecordingBuilder<'a> {
    /// Lists the modules: loadable ones with their code, the others with the reason why they have none.
    pub(super) fn modules(&mut self) -> Result<(), ImportError> {
        let database = self.database;
        for (n, files) in code::find_code_files(database).into_iter().enumerate() {
            let text = database.modules.get(n).map(String::as_str);
            let summary = text.map(|t| format_path(Path::new(t)));
            let mut found = None;
            let mut image = None;
            for file in files {
                // A file that replaces one module replaces no other: no file is read twice.
                if self.code.iter().flatten().any(|c| c.path == file) {
                    continue;
                }
                found = Loadable::read(&file)?;
                if found.is_some() {
                    break;
                }
                if file.is_file() && is_image(&file) {
                    image = Some(file);
                } else if file.is_file() {
                    let message = "it is not a cubin, a fatbin or PTX of a supported size; it was not used as the code";
                    self.note(FindingKind::NotUsed, format_path(&file), message);
                }
            }
            let module = match &found {
                None if image.is_some() => self.image_module(image.as_deref().unwrap_or(Path::new("")))?,
                Some(code) if is_image(&code.path) => self.module_of(code),
                Some(code) => {
                    let message = match &summary {
                        Some(bitcode) => format!("it is used as the code instead of {bitcode}, LLVM bitcode"),
                        None => "it is used as the code, because the database names none".to_owned(),
                    };
                    self.note(FindingKind::Assumed, format_path(&code.path), message);
                    self.module_of(code)
                }
                None => {
                    let (place, missing) = match summary {
                        Some(bitcode) => {
                            let why = format!(
                                "a driver cannot load the LLVM bitcode of {bitcode}; put a cubin, fatbin or PTX of the \
                                 same name next to the database to replay it"
                            );
                            (bitcode, why)
                        }
                        None => {
                            let why = "the database names no code; put a cubin, fatbin or PTX of its name next to it \
                                       to replay it";
                            (format_path(&database.path), why.to_owned())
                        }
                    };
                    self.note(FindingKind::NotRecorded, place.clone(), missing.clone());
                    CallModule {
                        origin: place,
                        kind: CodeKind::Unknown,
                        missing,
                        ..CallModule::default()
                    }
                }
            };
            self.metadata.modules.push(module);
            self.code.push(found);
        }
        Ok(())
    }

    /// Returns the module of code that a driver loads.
    fn module_of(&mut self, code: &Loadable) -> CallModule {
        CallModule {
            origin: format_path(&code.path),
            kind: code.kind,
            ..self.stored_module(&code.bytes)
        }
    }

    /// Returns the module of recorded code of a target that no replay loads.
    fn image_module(&mut self, file: &Path) -> Result<CallModule, ImportError> {
        let io = |e| ImportError::io(file, e);
        let mut bytes = Vec::new();
        let from = std::fs::File::open(file).map_err(io)?;
        std::io::Read::read_to_end(&mut std::io::Read::take(from, code::MAX_BYTES), &mut bytes).map_err(io)?;
        let missing = "the recorded code is for a target that no replay loads: it is not a cubin, a fatbin or PTX";
        self.note(FindingKind::NotUsed, format_path(file), missing);
        Ok(CallModule {
            origin: format_path(file),
            kind: CodeKind::Unknown,
            missing: missing.to_owned(),
            ..self.stored_module(&bytes)
        })
    }

    /// Stores code, and returns its size and place.
    fn stored_module(&mut self, bytes: &[u8]) -> CallModule {
        CallModule {
            bytes: bytes.len() as u64,
            digest: blake3::hash(bytes).to_hex().to_string(),
            pages: runs(&pages_of(&mut self.store, bytes)),
            ..CallModule::default()
        }
    }

    /// Lists launches with available memory, and their files.
    pub(super) fn list_available_launches(&mut self) -> Vec<(&'a Launch, PathBuf, Option<PathBuf>)> {
        let database = self.database;
        let mut used = BTreeSet::new();
        let mut out = Vec::new();
        for launch in database.launches.iter().take(MAX_LAUNCHES) {
            let name = kernel(launch);
            let before = database.file(&launch.before);
            if !before.is_file() {
                let message = format!(
                    "the launch of {name} was not imported: its memory before the launch is missing; put {:?} next to \
                     the database",
                    launch.before
                );
                self.note(FindingKind::NotRecorded, format_path(&before), message);
                continue;
            }
            // A file that is named again costs no more than once.
            if !used.insert(before.canonicalize().unwrap_or_else(|_| before.clone())) {
                let message =
                    format!("the launch of {name} was not imported: another launch uses the same memory file");
                self.note(FindingKind::NotUsed, format_path(&before), message);
                continue;
            }
            let after = database.file(&launch.after);
            let after = if launch.after.is_empty() || !after.is_file() {
                let place = if launch.after.is_empty() { &before } else { &after };
                let message = format!("the memory after the launch of {name} is missing, so its results are unknown");
                self.note(FindingKind::NotRecorded, format_path(place), message);
                None
            } else if used.insert(after.canonicalize().unwrap_or_else(|_| after.clone())) {
                Some(after)
            } else {
                let message = format!("the memory after the launch of {name} is in a file that another address uses");
                self.note(FindingKind::NotUsed, format_path(&after), message);
                None
            };
            out.push((launch, before, after));
        }
        let more = database.launches.len().saturating_sub(MAX_LAUNCHES);
        if more > 0 {
            let message = format!("{more} launches were not imported: there are more than {MAX_LAUNCHES}");
            self.note(FindingKind::NotUsed, format_path(&database.path), message);
        }
        out
    }

    /// Returns the module of a function, and its properties in the code.
    pub(super) fn code_of(&mut self, name: &Arc<str>) -> (u32, Option<KernelInfo>) {
        if let Some(known) = self.known.get(name) {
            return known.clone();
        }
        let mut all = (0..).zip(&self.code);
        let found = all.find_map(|(n, code)| Some((n, Some(code.as_ref()?.kernel(name)?))));
        // If no module has it, one that cannot be loaded may have it: then the replay lacks that module.
        let found = found.unwrap_or_else(|| {
            let lacking = self.code.iter().position(Option::is_none);
            (u32::try_from(lacking.unwrap_or(0)).unwrap_or(0), None)
        });
        self.known.insert(Arc::clone(name), found.clone());
        found
    }

    /// Returns variables of a launch that an available module does not have.
    pub(super) fn find_missing_variables(&self, module: u32, state: &State) -> BTreeSet<String> {
        let Some(Some(code)) = self.code.get(module as usize) else {
            return BTreeSet::new();
        };
        let lacks = |(name, v): &(&String, &Variable)| !code.has_variable(name, v.content.bytes);
        let lacking = state.variables.iter().filter(lacks);
        lacking.map(|(name, _)| name.clone()).collect()
    }
}

/// Whether a file is code that LLVM's offload library recorded.
fn is_image(file: &Path) -> bool {
    file.extension().is_some_and(|ending| ending == code::IMAGE)
}

/// Stores code in pages, the last one padded with zeros.
fn pages_of(store: &mut MemoryBuilder, code: &[u8]) -> Vec<u32> {
    let page = |part: &[u8]| {
        let mut image = [0; PAGE_SIZE];
        if let Some(to) = image.get_mut(..part.len()) {
            to.copy_from_slice(part);
        }
        store.add_page(&image).0
    };
    code.chunks(PAGE_SIZE).map(page).collect()
}

/// Returns pages as runs: first page and number of consecutive pages.
fn runs(pages: &[u32]) -> Vec<[u32; 2]> {
    let mut out: Vec<[u32; 2]> = Vec::new();
    for id in pages {
        match out.last_mut() {
            Some([first, count]) if *first + *count == *id => *count += 1,
            _ => out.push([*id, 1]),
        }
    }
    out
}
