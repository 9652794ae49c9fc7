//! The table of formats: each with its importer, and how it is detected.

use super::error::ImportError;
use super::opened::{Opened, OpenedRecording};
use super::packing::strip_ending;
use super::unpacked_file::{is_packed_path, read_head};
use super::{
    chains, core_dumps, driver_log, gpureplay, hrr, iree, kernels, memory_dumps, mmt, nvidia_log, panfrostdump,
    processes, raw_memory, rd, trace,
};
use std::fs::File;
use std::io::Read as _;
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
    /// How sure a match of this format is: of several formats that fit, the surest is taken.
    pub confidence: Confidence,
    /// Whether it reads packed files itself, while they are unpacked.
    pub reads_packed: bool,
    /// Whether people send such files along with a recording: in an archive, a recording is preferred.
    pub is_companion: bool,
    /// Whether a path looks like this format. Looks at names and first bytes only.
    pub fits: fn(&Path) -> bool,
    /// Describes what a path lacks that is close to this format: `a folder of ... without ...`. Called for paths that
    /// no importer knows.
    pub describe_close: fn(&Path) -> Option<String>,
    /// The function that lists the files of the recording besides the path itself, including missing ones that would be
    /// read.
    pub parts: fn(&Path) -> Vec<PathBuf>,
    /// The function that reads a path of this format.
    pub read: fn(&Path, &Progress) -> Result<Opened, ImportError>,
}

/// How sure a match is. The order is from the least to the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Confidence {
    /// Some line far inside of a text.
    Line,
    /// The first lines or records, the keys of a JSON file, the files of a folder.
    Structure,
    /// First bytes that no other format has.
    Magic,
}

/// The formats that [`open`](crate::open) tries. Of those that are equally sure, the first one is taken. A new importer needs one file, its `mod` line in `lib.rs`, and
/// one entry here; `CONTRIBUTING.md` shows each step.
pub const IMPORTERS: &[Importer] = &[
    Importer {
        name: "kine",
        takes: "a .kine recording",
        confidence: Confidence::Magic,
        reads_packed: false,
        is_companion: false,
        fits: is_kine,
        describe_close: |_| None,
        parts: |_| Vec::new(),
        read: read_kine,
    },
    Importer {
        name: "gpureplay",
        takes: "a folder with gr_io_history (and gr_pgt, gr_mem_contents, gr_sync_as)",
        confidence: Confidence::Structure,
        reads_packed: false,
        is_companion: false,
        fits: gpureplay::fits,
        describe_close: gpureplay::describe_close,
        parts: gpureplay::parts,
        read: |path, progress| gpureplay::import(path, &gpureplay::Options::default(), progress).map(Opened::from),
    },
    Importer {
        name: "panfrost",
        takes: "a folder of job chains with spec.json (and submitNNN.json, buffer images)",
        confidence: Confidence::Structure,
        reads_packed: false,
        is_companion: false,
        fits: chains::fits,
        describe_close: chains::describe_close,
        parts: chains::parts,
        read: |path, _| chains::read(path).map(Opened::Submission),
    },
    Importer {
        name: "panfrostdump",
        takes: "a device core dump of the Linux driver panfrost (*.panfrostdump, /sys/class/devcoredump/devcd*/data)",
        confidence: Confidence::Magic,
        reads_packed: false,
        is_companion: false,
        fits: panfrostdump::fits,
        describe_close: |_| None,
        parts: |_| Vec::new(),
        read: |path, progress| panfrostdump::import(path, progress).map(Opened::from),
    },
    Importer {
        name: "msm-devcoredump",
        takes: "a device core dump of the Linux driver msm for Adreno GPUs (/sys/class/devcoredump/devcd*/data)",
        confidence: Confidence::Magic,
        reads_packed: true,
        is_companion: false,
        fits: core_dumps::msm::fits,
        describe_close: |_| None,
        parts: |_| Vec::new(),
        read: |path, progress| core_dumps::msm::import(path, progress).map(Opened::from),
    },
    Importer {
        name: "xe-devcoredump",
        takes: "a device core dump of the Linux driver xe for Intel GPUs",
        confidence: Confidence::Magic,
        reads_packed: true,
        is_companion: false,
        fits: core_dumps::xe::fits,
        describe_close: |_| None,
        parts: |_| Vec::new(),
        read: |path, progress| core_dumps::xe::import(path, progress).map(Opened::from),
    },
    Importer {
        name: "i915-error-state",
        takes: "an error state of the Linux driver i915 for Intel GPUs (/sys/class/drm/card*/error)",
        confidence: Confidence::Magic,
        reads_packed: true,
        is_companion: false,
        fits: core_dumps::i915::fits,
        describe_close: |_| None,
        parts: |_| Vec::new(),
        read: |path, progress| core_dumps::i915::import(path, progress).map(Opened::from),
    },
    Importer {
        name: "amdgpu-devcoredump",
        takes: "a device core dump of the Linux driver amdgpu",
        confidence: Confidence::Magic,
        reads_packed: true,
        is_companion: false,
        fits: core_dumps::amdgpu::fits,
        describe_close: |_| None,
        parts: |_| Vec::new(),
        read: |path, progress| core_dumps::amdgpu::import(path, progress).map(Opened::from),
    },
    Importer {
        name: "etnaviv-devcoredump",
        takes: "a device core dump of the Linux driver etnaviv for Vivante GPUs",
        confidence: Confidence::Magic,
        reads_packed: false,
        is_companion: false,
        fits: core_dumps::etnaviv::fits,
        describe_close: |_| None,
        parts: |_| Vec::new(),
        read: |path, progress| core_dumps::etnaviv::import(path, progress).map(Opened::from),
    },
    Importer {
        name: "panthor-devcoredump",
        takes: "a device core dump of the Linux driver panthor, in a form that was proposed for the kernel",
        confidence: Confidence::Magic,
        reads_packed: false,
        is_companion: false,
        fits: core_dumps::panthor::fits,
        describe_close: |_| None,
        parts: |_| Vec::new(),
        read: |path, progress| core_dumps::panthor::import(path, progress).map(Opened::from),
    },
    Importer {
        name: "memory-dump",
        takes: "a dump of physical memory that states its addresses: an ELF core (vmcore, QEMU's dump-guest-memory) or a LiME image",
        confidence: Confidence::Magic,
        reads_packed: false,
        is_companion: false,
        fits: raw_memory::fits,
        describe_close: memory_dumps::describe_close,
        parts: |_| Vec::new(),
        read: |path, progress| raw_memory::import_dump(path, progress).map(Opened::from),
    },
    Importer {
        name: "freedreno-rd",
        takes: "a recording of freedreno's tools for Adreno GPUs (*.rd)",
        confidence: Confidence::Structure,
        reads_packed: true,
        is_companion: false,
        fits: rd::fits,
        describe_close: rd::describe_close,
        parts: |_| Vec::new(),
        read: |path, progress| rd::import(path, progress).map(Opened::from),
    },
    Importer {
        name: "processes",
        takes: "the index of a recorded program's processes (F.processes.json)",
        confidence: Confidence::Structure,
        reads_packed: false,
        is_companion: false,
        fits: processes::fits,
        describe_close: |_| None,
        parts: processes::parts,
        read: |path, progress| processes::import(path, progress).map(Opened::from),
    },
    Importer {
        name: "record-replay",
        takes: "a database of RecordReplay (its JSON file, with the snapshots that it names)",
        confidence: Confidence::Structure,
        reads_packed: false,
        is_companion: false,
        fits: kernels::record_replay::fits,
        describe_close: kernels::record_replay::describe_close,
        parts: kernels::record_replay::parts,
        read: |path, progress| kernels::record_replay::import(path, progress).map(Opened::from),
    },
    Importer {
        name: "mneme",
        takes: "a database of Mneme (its JSON file, with the snapshots that it names)",
        confidence: Confidence::Structure,
        reads_packed: false,
        is_companion: false,
        fits: kernels::mneme::fits,
        describe_close: kernels::mneme::describe_close,
        parts: kernels::mneme::parts,
        read: |path, progress| kernels::mneme::import(path, progress).map(Opened::from),
    },
    Importer {
        name: "llvm-offload",
        takes: "an OpenMP kernel that LLVM's offload library recorded (its JSON file, with the files of the same name)",
        confidence: Confidence::Structure,
        reads_packed: false,
        is_companion: false,
        fits: kernels::llvm_offload::fits,
        describe_close: kernels::llvm_offload::describe_close,
        parts: kernels::llvm_offload::parts,
        read: |path, progress| kernels::llvm_offload::import(path, progress).map(Opened::from),
    },
    Importer {
        name: "hrr",
        takes: "an archive of AMD's HIP record and replay, version 3 or 4 (the folder with events.bin, or with pid-N folders)",
        confidence: Confidence::Magic,
        reads_packed: false,
        is_companion: false,
        fits: hrr::fits,
        describe_close: hrr::describe_close,
        parts: hrr::parts,
        read: |path, progress| hrr::import(path, progress).map(Opened::from),
    },
    Importer {
        name: "iree-replay",
        takes: "a HAL replay of IREE (*.ireereplay)",
        confidence: Confidence::Magic,
        reads_packed: false,
        is_companion: false,
        fits: iree::fits,
        describe_close: iree::describe_close,
        parts: |_| Vec::new(),
        read: |path, progress| iree::import(path, progress).map(Opened::from),
    },
    Importer {
        name: "valgrind-mmt",
        takes: "a log of valgrind's tool mmt",
        confidence: Confidence::Structure,
        reads_packed: true,
        is_companion: false,
        fits: mmt::fits,
        describe_close: |_| None,
        parts: |_| Vec::new(),
        read: |path, progress| mmt::import(path, progress).map(Opened::from),
    },
    Importer {
        name: "nvidia-klog",
        takes: "a log of ioctls, mappings, ring entries and doorbells of NVIDIA's driver",
        confidence: Confidence::Structure,
        reads_packed: true,
        is_companion: false,
        fits: nvidia_log::fits,
        describe_close: |_| None,
        parts: |_| Vec::new(),
        read: |path, progress| nvidia_log::import(path, progress).map(Opened::from),
    },
    Importer {
        name: "gpureplay-v3d",
        takes: "an ftrace log of GPUReplay's recorder for Broadcom's V3D",
        confidence: Confidence::Structure,
        reads_packed: true,
        is_companion: false,
        fits: trace::v3d::fits,
        describe_close: |_| None,
        parts: |_| Vec::new(),
        read: |path, progress| trace::v3d::import(path, progress).map(Opened::from),
    },
    Importer {
        name: "trace",
        takes: "a text log of register accesses: mmiotrace, ftrace (rwmmio events, probes of a driver's accessors), QEMU's memory_region_ops trace",
        confidence: Confidence::Structure,
        reads_packed: true,
        is_companion: false,
        fits: trace::fits,
        describe_close: |_| None,
        parts: trace::parts,
        read: |path, progress| trace::import(path, &trace::Options::default(), progress).map(Opened::from),
    },
    // It searches far into a text, so it comes after importers that check the first lines.
    Importer {
        name: "kbase-regs-history",
        takes: "the register history of Arm's kernel driver for Mali GPUs (regs_history in debugfs), or a kernel log with it",
        confidence: Confidence::Line,
        reads_packed: true,
        is_companion: false,
        fits: trace::regs_history::fits,
        describe_close: |_| None,
        parts: |_| Vec::new(),
        read: |path, progress| {
            trace::regs_history::import(path, &trace::regs_history::Options::default(), progress).map(Opened::from)
        },
    },
    Importer {
        name: "gdev",
        takes: "a kernel log with the messages of Gdev",
        confidence: Confidence::Line,
        reads_packed: true,
        is_companion: true,
        fits: driver_log::gdev::fits,
        describe_close: |_| None,
        parts: |_| Vec::new(),
        read: |path, progress| driver_log::gdev::import(path, progress).map(Opened::from),
    },
    // Messages of nouveau's kernel driver may stand between push buffers.
    Importer {
        name: "nouveau-pushbuf",
        takes: "push buffers that libdrm_nouveau or NVK (NVK_DEBUG=push) print",
        confidence: Confidence::Line,
        reads_packed: true,
        is_companion: false,
        fits: driver_log::nouveau_pushbuf::fits,
        describe_close: |_| None,
        parts: |_| Vec::new(),
        read: |path, progress| driver_log::nouveau_pushbuf::import(path, progress).map(Opened::from),
    },
    Importer {
        name: "nouveau",
        takes: "a kernel log with messages of nouveau (faults, debug=trace) or Xid errors of NVIDIA's driver",
        confidence: Confidence::Line,
        reads_packed: true,
        is_companion: true,
        fits: driver_log::nouveau::fits,
        describe_close: |_| None,
        parts: |_| Vec::new(),
        read: |path, progress| driver_log::nouveau::import(path, progress).map(Opened::from),
    },
    Importer {
        name: "strace",
        takes: "strace's output of a program on NVIDIA's driver",
        confidence: Confidence::Line,
        reads_packed: true,
        is_companion: false,
        fits: driver_log::strace::fits,
        describe_close: |_| None,
        parts: |_| Vec::new(),
        read: |path, progress| driver_log::strace::import(path, progress).map(Opened::from),
    },
    Importer {
        name: "gvisor",
        takes: "gVisor's debug log of a program on NVIDIA's driver (nvproxy, strace)",
        confidence: Confidence::Line,
        reads_packed: true,
        is_companion: false,
        fits: driver_log::gvisor::fits,
        describe_close: |_| None,
        parts: |_| Vec::new(),
        read: |path, progress| driver_log::gvisor::import(path, progress).map(Opened::from),
    },
    Importer {
        name: "valgrind-mmt-text",
        takes: "the text that valgrind's tool mmt printed in its first releases",
        confidence: Confidence::Line,
        reads_packed: true,
        is_companion: false,
        fits: driver_log::mmt_text::fits,
        describe_close: |_| None,
        parts: |_| Vec::new(),
        read: |path, progress| driver_log::mmt_text::import(path, progress).map(Opened::from),
    },
];

fn is_kine(path: &Path) -> bool {
    let named = path.extension().is_some_and(|e| e.eq_ignore_ascii_case("kine"));
    path.is_file() && (named || unfinished_files::is_unfinished_kine(path) || begins_as_kine(path))
}

fn begins_as_kine(path: &Path) -> bool {
    let mut first = [0; KineFile::MAGIC.len()];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut first));
    read.is_ok() && first == KineFile::MAGIC
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
    names.push(
        "any of them packed by gzip, xz, bzip2 or zstd, in a tar or zip archive (FILE.tar.gz:MEMBER opens one of several), \
         or on standard input (-)",
    );
    names
}

/// Number of unpacked bytes that are enough to detect a format.
const HEAD_BYTES: usize = 1 << 20;

/// Returns the importer that knows a path best.
pub(super) fn find_importer(path: &Path) -> Option<&'static Importer> {
    let is_packed = is_packed_path(path);
    let mut best: Option<&Importer> = None;
    for importer in IMPORTERS.iter().filter(|i| i.reads_packed || !is_packed) {
        if best.is_none_or(|b| b.confidence < importer.confidence) && (importer.fits)(path) {
            best = Some(importer);
        }
    }
    best
}

/// Returns the importer that knows the content of a packed file best, by its first bytes.
pub(super) fn find_packed_importer(path: &Path) -> Option<&'static Importer> {
    if let Some(importer) = find_importer(path) {
        return Some(importer);
    }
    let head = read_head(path, HEAD_BYTES).ok().filter(|head| !head.is_empty())?;
    let folder = tempfile::tempdir().ok()?;
    let name = path.file_name()?.to_string_lossy();
    let unpacked = folder.path().join(strip_ending(&name));
    std::fs::write(&unpacked, head).ok()?;
    find_importer(&unpacked)
}

/// Describes what the path lacks that the closest format needs, or returns `None` if no format is close.
pub(super) fn describe_close(path: &Path) -> Option<String> {
    IMPORTERS.iter().find_map(|i| (i.describe_close)(path))
}

/// Returns the files that the importer of a path reads besides the path itself, including missing ones.
pub(super) fn importer_parts(path: &Path) -> Vec<PathBuf> {
    find_importer(path).map_or_else(Vec::new, |i| (i.parts)(path))
}
