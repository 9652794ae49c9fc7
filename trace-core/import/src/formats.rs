//! The table of formats: each with its importer, and how it is detected.

use super::error::ImportError;
use super::opened::{Opened, OpenedRecording};
use super::{chains, driver_log, gpureplay, kernels, mmt, nvidia_log, panfrostdump, processes, rd, trace};
use std::path::{Path, PathBuf};
use trace_core::container::KineFile;
use trace_core::progress::Progress;
use trace_core::registers::RegisterMap;
use trace_core::timeline::{Pyramid, StoredTimeline};
use trace_core::unfinished_files;

/// One format that [`open`](crate::open) can read.
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
    /// The function that reads a path of this format.
    pub read: fn(&Path, &Progress) -> Result<Opened, ImportError>,
}

/// The formats that [`open`](crate::open) tries, in order. A new importer needs one file, its `mod` line in `lib.rs`, and
/// one entry here; `CONTRIBUTING.md` shows each step.
pub const IMPORTERS: &[Importer] = &[
    Importer {
        name: "kine",
        takes: "a .kine recording",
        fits: is_kine,
        parts: |_| Vec::new(),
        read: read_kine,
    },
    Importer {
        name: "gpureplay",
        takes: "a folder with gr_io_history (and gr_pgt, gr_mem_contents, gr_sync_as)",
        fits: gpureplay::fits,
        parts: gpureplay::parts,
        read: |path, progress| gpureplay::import(path, &gpureplay::Options::default(), progress).map(Opened::from),
    },
    Importer {
        name: "panfrost",
        takes: "a folder of job chains with spec.json (and submitNNN.json, buffer images)",
        fits: chains::fits,
        parts: chains::parts,
        read: |path, _| chains::read(path).map(Opened::Submission),
    },
    Importer {
        name: "panfrostdump",
        takes: "a device core dump of the Linux driver panfrost (*.panfrostdump, /sys/class/devcoredump/devcd*/data)",
        fits: panfrostdump::fits,
        parts: |_| Vec::new(),
        read: |path, progress| panfrostdump::import(path, progress).map(Opened::from),
    },
    Importer {
        name: "freedreno-rd",
        takes: "a recording of freedreno's tools for Adreno GPUs (*.rd, *.rd.gz)",
        fits: rd::fits,
        parts: |_| Vec::new(),
        read: |path, progress| rd::import(path, progress).map(Opened::from),
    },
    Importer {
        name: "processes",
        takes: "the index of a recorded program's processes (F.processes.json)",
        fits: processes::fits,
        parts: processes::parts,
        read: |path, progress| processes::import(path, progress).map(Opened::from),
    },
    Importer {
        name: "record-replay",
        takes: "a database of RecordReplay (its JSON file, with the snapshots that it names)",
        fits: kernels::record_replay::fits,
        parts: kernels::record_replay::parts,
        read: |path, progress| kernels::record_replay::import(path, progress).map(Opened::from),
    },
    Importer {
        name: "mneme",
        takes: "a database of Mneme (its JSON file, with the snapshots that it names)",
        fits: kernels::mneme::fits,
        parts: kernels::mneme::parts,
        read: |path, progress| kernels::mneme::import(path, progress).map(Opened::from),
    },
    Importer {
        name: "valgrind-mmt",
        takes: "a log of valgrind's tool mmt, plain or packed by gzip",
        fits: mmt::fits,
        parts: |_| Vec::new(),
        read: |path, progress| mmt::import(path, progress).map(Opened::from),
    },
    Importer {
        name: "nvidia-klog",
        takes: "a log of ioctls, mappings, ring entries and doorbells of NVIDIA's driver, plain or packed by gzip",
        fits: nvidia_log::fits,
        parts: |_| Vec::new(),
        read: |path, progress| nvidia_log::import(path, progress).map(Opened::from),
    },
    Importer {
        name: "gpureplay-v3d",
        takes: "an ftrace log of GPUReplay's recorder for Broadcom's V3D",
        fits: trace::v3d::fits,
        parts: |_| Vec::new(),
        read: |path, progress| trace::v3d::import(path, progress).map(Opened::from),
    },
    Importer {
        name: "trace",
        takes: "a text log of register accesses, plain or packed by gzip: mmiotrace, ftrace (rwmmio events, probes of a driver's accessors), QEMU's memory_region_ops trace",
        fits: trace::fits,
        parts: trace::parts,
        read: |path, progress| trace::import(path, &trace::Options::default(), progress).map(Opened::from),
    },
    // It searches far into a text, so it comes after importers that check the first lines.
    Importer {
        name: "kbase-regs-history",
        takes: "the register history of Arm's kernel driver for Mali GPUs (regs_history in debugfs), or a kernel log with it, plain or packed by gzip",
        fits: trace::regs_history::fits,
        parts: |_| Vec::new(),
        read: |path, progress| {
            trace::regs_history::import(path, &trace::regs_history::Options::default(), progress).map(Opened::from)
        },
    },
    Importer {
        name: "gdev",
        takes: "a kernel log with the messages of Gdev, plain or packed by gzip",
        fits: driver_log::gdev::fits,
        parts: |_| Vec::new(),
        read: |path, progress| driver_log::gdev::import(path, progress).map(Opened::from),
    },
    // Messages of nouveau's kernel driver may stand between push buffers.
    Importer {
        name: "nouveau-pushbuf",
        takes: "push buffers that libdrm_nouveau or NVK (NVK_DEBUG=push) print, plain or packed by gzip",
        fits: driver_log::nouveau_pushbuf::fits,
        parts: |_| Vec::new(),
        read: |path, progress| driver_log::nouveau_pushbuf::import(path, progress).map(Opened::from),
    },
    Importer {
        name: "nouveau",
        takes: "a kernel log with messages of nouveau (faults, debug=trace) or Xid errors of NVIDIA's driver, plain or packed by gzip",
        fits: driver_log::nouveau::fits,
        parts: |_| Vec::new(),
        read: |path, progress| driver_log::nouveau::import(path, progress).map(Opened::from),
    },
    Importer {
        name: "strace",
        takes: "strace's output of a program on NVIDIA's driver, plain or packed by gzip",
        fits: driver_log::strace::fits,
        parts: |_| Vec::new(),
        read: |path, progress| driver_log::strace::import(path, progress).map(Opened::from),
    },
    Importer {
        name: "gvisor",
        takes: "gVisor's debug log of a program on NVIDIA's driver (nvproxy, strace), plain or packed by gzip",
        fits: driver_log::gvisor::fits,
        parts: |_| Vec::new(),
        read: |path, progress| driver_log::gvisor::import(path, progress).map(Opened::from),
    },
    Importer {
        name: "valgrind-mmt-text",
        takes: "the text that valgrind's tool mmt printed in its first releases, plain or packed by gzip",
        fits: driver_log::mmt_text::fits,
        parts: |_| Vec::new(),
        read: |path, progress| driver_log::mmt_text::import(path, progress).map(Opened::from),
    },
];

fn is_kine(path: &Path) -> bool {
    let named = path.extension().is_some_and(|e| e.eq_ignore_ascii_case("kine"));
    path.is_file() && (named || unfinished_files::is_unfinished_kine(path))
}

/// Opens a `.kine` with the derived data stored in it.
fn read_kine(path: &Path, progress: &Progress) -> Result<Opened, ImportError> {
    let read = || {
        let file = KineFile::open_with(path, progress)?;
        progress.check()?;
        let recording = file.recording()?;
        let map = RegisterMap::built_in_for(&recording);
        Ok(OpenedRecording {
            timeline: StoredTimeline::read_section(&file)?,
            pyramid: Pyramid::stored(&file, &recording, map)?,
            recording,
        })
    };
    let opened = read().map_err(|e| ImportError::container(path, e))?;
    Ok(Opened::Recording(Box::new(opened)))
}

/// Lists the formats of [`IMPORTERS`] and those that need more than a path, for users.
#[must_use]
pub fn list_formats() -> Vec<&'static str> {
    let mut names: Vec<&str> = IMPORTERS.iter().map(|i| i.takes).collect();
    names.push("a raw memory dump, with its base address, page-table root and format given (--raw)");
    names
}

/// Returns the first importer that knows a path.
pub(super) fn find_importer(path: &Path) -> Option<&'static Importer> {
    IMPORTERS.iter().find(|i| (i.fits)(path))
}

/// Whether an importer knows a path, by names and first bytes.
#[must_use]
pub fn fits(path: &Path) -> bool {
    find_importer(path).is_some()
}

/// Returns the files of a recording besides the path itself: writing one of them changes the recording. Includes
/// missing files that would be read.
#[must_use]
pub fn parts(path: &Path) -> Vec<PathBuf> {
    find_importer(path).map_or_else(Vec::new, |i| (i.parts)(path))
}
