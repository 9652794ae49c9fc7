//! Importers of foreign formats, one file each, in one table; [`open`] reads every format in the table.

mod bytes;
pub mod chains;
mod counting_reader;
mod decompress;
mod error;
pub(crate) mod generated_tables;
pub mod gpureplay;
pub mod kernels;
pub mod mmt;
pub mod panfrostdump;
pub mod processes;
pub mod raw_memory;
pub mod rd;
pub mod trace;
mod unknown_format;

pub use decompress::MAX_UNPACKED_BYTES;
pub use error::{FilePosition, ImportError};
pub use unknown_format::recordings_in;

use crate::container::{self, KineFile};
use crate::progress::Progress;
use crate::recording::Recording;
use crate::registers::RegisterMap;
use crate::timeline::{self, Pyramid, StoredTimeline};
use std::path::{Path, PathBuf};

/// One format that [`open`] can read.
pub struct Importer {
    /// Short name, as identities and messages give it.
    pub name: &'static str,
    /// The path that users must give, for the message when no importer fits.
    pub takes: &'static str,
    /// Whether a path looks like this format. Looks at names and first bytes only.
    pub fits: fn(&Path) -> bool,
    /// The function that lists the files of the recording besides the path itself, including missing ones that would be
    /// read.
    pub parts: fn(&Path) -> Vec<PathBuf>,
    /// How the format is imported.
    pub reads: ImportMethod,
}

/// How a format becomes a recording.
pub enum ImportMethod {
    /// The path is a recording.
    Recording(fn(&Path, &Progress) -> Result<Recording, ImportError>),
    /// The path is work that was not executed yet, read by [`chains::read`]: a GPU must run it to make a recording.
    Chains,
}

/// The formats that [`open`] tries, in order. A new importer needs one file and one line here.
pub const IMPORTERS: &[Importer] = &[
    Importer {
        name: "kine",
        takes: "a .kine recording",
        fits: is_kine,
        parts: |_| Vec::new(),
        reads: ImportMethod::Recording(read_kine),
    },
    Importer {
        name: "gpureplay",
        takes: "a folder with gr_io_history (and gr_pgt, gr_mem_contents, gr_sync_as)",
        fits: gpureplay::fits,
        parts: gpureplay::parts,
        reads: ImportMethod::Recording(|path, progress| {
            gpureplay::import(path, &gpureplay::Options::default(), progress)
        }),
    },
    Importer {
        name: "panfrost",
        takes: "a folder of job chains with spec.json (and submitNNN.json, buffer images)",
        fits: chains::fits,
        parts: chains::parts,
        reads: ImportMethod::Chains,
    },
    Importer {
        name: "panfrostdump",
        takes: "a device core dump of the Linux driver panfrost (*.panfrostdump, /sys/class/devcoredump/devcd*/data)",
        fits: panfrostdump::fits,
        parts: |_| Vec::new(),
        reads: ImportMethod::Recording(panfrostdump::import),
    },
    Importer {
        name: "freedreno-rd",
        takes: "a recording of freedreno's tools for Adreno GPUs (*.rd, *.rd.gz)",
        fits: rd::fits,
        parts: |_| Vec::new(),
        reads: ImportMethod::Recording(rd::import),
    },
    Importer {
        name: "processes",
        takes: "the index of a recorded program's processes (F.processes.json)",
        fits: processes::fits,
        parts: processes::parts,
        reads: ImportMethod::Recording(processes::import),
    },
    Importer {
        name: "record-replay",
        takes: "a database of RecordReplay (its JSON file, with the snapshots that it names)",
        fits: kernels::record_replay::fits,
        parts: kernels::record_replay::parts,
        reads: ImportMethod::Recording(kernels::record_replay::import),
    },
    Importer {
        name: "mneme",
        takes: "a database of Mneme (its JSON file, with the snapshots that it names)",
        fits: kernels::mneme::fits,
        parts: kernels::mneme::parts,
        reads: ImportMethod::Recording(kernels::mneme::import),
    },
    Importer {
        name: "valgrind-mmt",
        takes: "a log of valgrind's tool mmt, plain or packed by gzip",
        fits: mmt::fits,
        parts: |_| Vec::new(),
        reads: ImportMethod::Recording(mmt::import),
    },
    Importer {
        name: "gpureplay-v3d",
        takes: "an ftrace log of GPUReplay's recorder for Broadcom's V3D",
        fits: trace::v3d::fits,
        parts: |_| Vec::new(),
        reads: ImportMethod::Recording(trace::v3d::import),
    },
    Importer {
        name: "trace",
        takes: "a text log of register accesses, plain or packed by gzip: mmiotrace, ftrace (rwmmio events, probes of a driver's accessors), QEMU's memory_region_ops trace",
        fits: trace::fits,
        parts: trace::parts,
        reads: ImportMethod::Recording(|path, progress| trace::import(path, &trace::Options::default(), progress)),
    },
    // It searches far into a text, so it comes after importers that check the first lines.
    Importer {
        name: "kbase-regs-history",
        takes: "the register history of Arm's kernel driver for Mali GPUs (regs_history in debugfs), or a kernel log with it, plain or packed by gzip",
        fits: trace::regs_history::fits,
        parts: |_| Vec::new(),
        reads: ImportMethod::Recording(|path, progress| {
            trace::regs_history::import(path, &trace::regs_history::Options::default(), progress)
        }),
    },
];

fn is_kine(path: &Path) -> bool {
    let named = path.extension().is_some_and(|e| e.eq_ignore_ascii_case("kine"));
    path.is_file() && (named || crate::unfinished_files::is_unfinished_kine(path))
}

fn read_kine(path: &Path, progress: &Progress) -> Result<Recording, ImportError> {
    container::open_with(path, progress).map_err(|e| ImportError::container(path, e))
}

/// Lists the formats of [`IMPORTERS`] and those that need more than a path, for users.
#[must_use]
pub fn list_formats() -> Vec<&'static str> {
    let mut names: Vec<&str> = IMPORTERS.iter().map(|i| i.takes).collect();
    names.push("a raw memory dump, with its base address, page-table root and format given (--raw)");
    names
}

/// Opens a `.kine`, or imports any known format into memory.
///
/// # Errors
///
/// When the path does not exist, no importer knows it (the error describes its content), it holds job chains that no
/// GPU has run, its contents are too damaged, or the work was cancelled.
pub fn open(path: &Path, progress: &Progress) -> Result<Recording, ImportError> {
    std::fs::metadata(path).map_err(|e| ImportError::io(path, e))?;
    match IMPORTERS.iter().find(|i| (i.fits)(path)).map(|i| &i.reads) {
        Some(ImportMethod::Recording(read)) => read(path, progress),
        Some(ImportMethod::Chains) => Err(ImportError::NotRun { path: path.to_owned() }),
        None => Err(ImportError::unknown(path)),
    }
}

/// Whether an importer knows a path, by names and first bytes.
#[must_use]
pub fn fits(path: &Path) -> bool {
    IMPORTERS.iter().any(|i| (i.fits)(path))
}

/// Returns the files of a recording besides the path itself: writing one of them changes the recording. Includes
/// missing files that would be read.
#[must_use]
pub fn parts(path: &Path) -> Vec<PathBuf> {
    let importer = IMPORTERS.iter().find(|i| (i.fits)(path));
    importer.map_or_else(Vec::new, |i| (i.parts)(path))
}

/// Imports `source`, computes the derived data, and writes both to `dest` as one commit. Returns the recording.
///
/// # Errors
///
/// Same as [`open`], and when `dest` cannot be written; an existing file of that name is then unchanged.
pub fn import_file_to_kine(source: &Path, dest: &Path, progress: &Progress) -> Result<Recording, ImportError> {
    let recording = open(source, progress)?;
    timeline::write(&recording, dest, progress).map_err(|e| ImportError::container(dest, e))?;
    Ok(recording)
}

/// A recording, and the derived data stored in its file.
pub struct OpenedRecording {
    /// The recording.
    pub recording: Recording,
    /// Its timeline, if the file holds a valid one.
    pub timeline: Option<StoredTimeline>,
    /// Its event counts, if the file holds valid ones.
    pub pyramid: Option<Pyramid>,
}

/// Same as [`open`], with the derived data stored in the file.
///
/// # Errors
///
/// Same as [`open`].
pub fn open_with_derived(source: &Path, progress: &Progress) -> Result<OpenedRecording, ImportError> {
    if !(is_kine(source) && source.exists()) {
        return Ok(OpenedRecording {
            recording: open(source, progress)?,
            timeline: None,
            pyramid: None,
        });
    }
    let opened = || {
        let file = KineFile::open_with(source, progress)?;
        progress.check()?;
        let recording = file.recording()?;
        let map = RegisterMap::built_in_for(&recording);
        Ok(OpenedRecording {
            timeline: StoredTimeline::read_section(&file)?,
            pyramid: Pyramid::stored(&file, &recording, map)?,
            recording,
        })
    };
    opened().map_err(|e| ImportError::container(source, e))
}
