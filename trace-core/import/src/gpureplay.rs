//! The importer of GPUReplay's recordings of Mali GPUs: a folder of four files, sometimes with the authors' merged
//! timeline.
//!
//! | file | holds |
//! |---|---|
//! | `gr_io_history` | one line a register access, in program order |
//! | `gr_pgt` | the GPU's page tables, once |
//! | `gr_mem_contents` | regions that the driver allocated, with the contents of those that the CPU accessed |
//! | `gr_sync_as` | ranges that CPU and GPU shared |
//! | `*_integrated` | a readable timeline, with absolute times and thread ids |
//!
//! The recorder dumps page tables and memory once, at the end of the work. The snapshot is nevertheless at event 0, for
//! lack of anything better, and job headers in it carry the status that the GPU wrote back.

mod align;
mod integrated;
mod io;
mod memory;
mod pgt;
mod sync;
mod tally;

pub use align::TimelineAccess;
pub use integrated::accesses as timeline_accesses;
pub use tally::FileTally;

use super::bytes::Stream;
use super::error::{FilePosition, ImportError};
use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::{BufReader, Read as _};
use std::path::{Path, PathBuf};
use trace_core::PAGE_SIZE;
use trace_core::families::mali_jm::{MODE, MODE_AARCH64_4K, MODE_LEGACY, MODE_UNMAPPED};
use trace_core::finding::{Finding, FindingKind};
use trace_core::progress::{Cancelled, Progress};
use trace_core::recording::{
    AddressSpace, Buffer, Clock, EventKind, Events, FrameRole, Identity, Memory, MemoryBuilder, Metadata, MmuFormat,
    PageId, Recording, Space, SpaceKind,
};

/// Size of the register window of a Mali job-manager GPU, bytes.
const WINDOW_BYTES: u64 = 0x4000;

/// Number of entries in the recorder's ring of accesses; a history of exactly this length may have lost its start.
const RING_ENTRIES: usize = 32768;

/// The recorder's files.
const PARTS: [&str; 4] = ["gr_io_history", "gr_pgt", "gr_mem_contents", "gr_sync_as"];
/// Maximum size of `gr_pgt` and of `gr_sync_as`, which are read as a whole, bytes: twice as many page tables as a walk
/// enters.
const MAX_PART: u64 = 1 << 29;
/// Maximum number of unknown recorder files, and of other folder entries, that are named.
const MAX_UNKNOWN: usize = 16;
/// Position of the translation configuration in `gr_pgt`.
const TRANSCFG_AT: u64 = 24;

/// Import options.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Whether to take absolute times and thread ids from an `*_integrated` file if the folder has one.
    pub timeline: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { timeline: true }
    }
}

/// Whether a path looks like such a recording: a folder with a `gr_io_history`.
#[must_use]
pub fn fits(path: &Path) -> bool {
    path.is_dir() && path.join("gr_io_history").is_file()
}

/// Describes a folder that has some of the recorder's files, but not the history.
pub(crate) fn describe_close(path: &Path) -> Option<String> {
    let found = PARTS.iter().find(|part| path.join(part).is_file())?;
    let history = PARTS.first().filter(|history| !path.join(history).exists())?;
    Some(format!(
        "a folder of GPUReplay with {found}, but {history} is missing: it holds the register accesses"
    ))
}

/// Returns the recorder's files in the folder, and the authors' timelines.
#[must_use]
pub fn parts(folder: &Path) -> Vec<PathBuf> {
    let mut parts: Vec<PathBuf> = PARTS.iter().map(|p| folder.join(p)).collect();
    let own = folder.file_name().map(|n| n.to_string_lossy().into_owned());
    parts.extend(own.map(|n| folder.join(format!("{n}_integrated"))));
    // A folder that cannot be listed cannot be imported either.
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    parts.extend(entries.map(|e| e.path()).filter(|p| integrated::is_timeline(p)));
    parts
}

/// Imports the folder.
///
/// # Errors
///
/// When `gr_io_history` is missing or a line of it is not an access, a file cannot be read, or the work was cancelled.
/// Damage to the other files is not an error: the readable part is imported, and a finding reports the rest.
pub fn import(folder: &Path, options: &Options, progress: &Progress) -> Result<Recording, ImportError> {
    import_with_tally(folder, options, progress).map(|(recording, _)| recording)
}

/// Imports the folder, and returns how many bytes of each file were used.
///
/// # Errors
///
/// Same as [`import`].
pub fn import_with_tally(
    folder: &Path,
    options: &Options,
    progress: &Progress,
) -> Result<(Recording, Vec<FileTally>), ImportError> {
    let mut import = FolderImport {
        folder,
        progress,
        findings: Vec::new(),
        tallies: Vec::new(),
    };
    let timeline = if options.timeline {
        integrated::find(folder, &mut import.findings)?
    } else {
        None
    };
    report_unknown_parts(folder, options, &mut import.findings)?;
    let size = |p: &Path| std::fs::metadata(p).map_or(0, |m| m.len());
    let total: u64 = PARTS.iter().map(|p| size(&folder.join(p))).sum();
    progress.set_total(total.saturating_add(timeline.as_deref().map_or(0, size)).max(1));

    let mut metadata = Metadata::default();
    let mut events = import.read_history()?;
    let mut clock = Clock::SinceStart;
    if let Some(path) = timeline
        && import.apply_timeline(&path, &mut events, &mut metadata)?
    {
        clock = Clock::Monotonic;
    }
    let tables = import.read_tables()?;
    let memory = import.read_memory(&tables, &mut metadata)?;
    metadata.address_spaces.extend(import.read_address_space(&tables));
    metadata.spaces.push(Space {
        name: "gpu".into(),
        kind: SpaceKind::Registers,
        bytes: WINDOW_BYTES,
    });
    let gpu_id = find_gpu_id(&events, progress)?;
    metadata.identity = Identity {
        gpu_id,
        gpu_name: trace_core::registers::gpu_name(gpu_id).unwrap_or_default().to_owned(),
        tool: "GPUReplay recorder".into(),
        source: "gpureplay".into(),
        clock,
        ..Identity::default()
    };
    import.report_unused_bytes();
    metadata.findings = import.findings;
    let recording = Recording {
        metadata,
        events,
        memory,
        ..Recording::default()
    };
    Ok((recording, import.tallies))
}

/// An import in progress.
struct FolderImport<'a> {
    folder: &'a Path,
    progress: &'a Progress,
    findings: Vec<Finding>,
    tallies: Vec<FileTally>,
}

impl FolderImport<'_> {
    fn add_tally(&mut self, name: &str, bytes: u64, used: u64) {
        self.tallies.push(FileTally {
            name: name.to_owned(),
            bytes,
            used,
        });
    }

    /// Reads the accesses, and reports a history that is cut, empty or full.
    fn read_history(&mut self) -> Result<Events, ImportError> {
        const NAME: &str = "gr_io_history";
        let history = io::read(&self.folder.join(NAME), self.progress)?;
        self.add_tally(NAME, history.bytes, history.used);
        if let Some((line, bytes)) = history.cut {
            self.findings.push(Finding::new(
                FindingKind::TruncatedSection,
                format!("{NAME}, line {line}"),
                format!(
                    "the last line has no line end, so its value may be truncated; its {bytes} bytes were not used"
                ),
            ));
        }
        if history.bytes == 0 {
            let message =
                "the file is empty; a recording has at least the accesses with which the driver detects its GPU";
            self.findings
                .push(Finding::new(FindingKind::TruncatedSection, NAME, message));
        }
        if history.lines == RING_ENTRIES {
            self.findings.push(Finding::new(
                FindingKind::LostEvents,
                NAME,
                format!("the history fills the recorder's ring of {RING_ENTRIES} entries; older accesses may be lost"),
            ));
        }
        Ok(history.events)
    }

    /// Gives the accesses the times and threads of the authors' timeline. Returns whether the timeline matches them.
    fn apply_timeline(
        &mut self,
        path: &Path,
        events: &mut Events,
        metadata: &mut Metadata,
    ) -> Result<bool, ImportError> {
        let timeline = integrated::read(path, self.progress)?;
        self.tallies.push(timeline.tally());
        let lost = &mut metadata.lost;
        let matched = integrated::apply(&timeline, events, lost, &mut self.findings, self.progress)?;
        Ok(matched)
    }

    /// Reads the page tables; no tables if the folder has none.
    fn read_tables(&mut self) -> Result<pgt::Tables, ImportError> {
        const NAME: &str = "gr_pgt";
        let Some(bytes) = read_part(self.folder, NAME, &mut self.findings, "page tables")? else {
            return Ok(pgt::Tables::default());
        };
        self.progress.advance(bytes.len() as u64)?;
        let tables = pgt::parse(&bytes, &mut self.findings);
        self.add_tally(NAME, bytes.len() as u64, tables.used);
        Ok(tables)
    }

    /// Reads the memory, with the page tables in it, its regions and its buffers.
    fn read_memory(&mut self, tables: &pgt::Tables, metadata: &mut Metadata) -> Result<Memory, ImportError> {
        let mut builder = MemoryBuilder::new();
        let mut frames: HashMap<u64, (PageId, FrameRole)> = HashMap::new();
        for t in &tables.tables {
            frames.insert(t.at.frame(), (builder.add_page(&t.image), FrameRole::Table));
        }
        self.read_contents(tables, &mut builder, &mut frames, metadata)?;
        metadata.buffers = self.read_buffers()?;
        if !frames.is_empty() {
            builder.add_snapshot(0, frames.into_iter().map(|(f, (p, r))| (f, p, r)));
        }
        Ok(builder.finish())
    }

    /// Reads the contents of the regions.
    fn read_contents(
        &mut self,
        tables: &pgt::Tables,
        builder: &mut MemoryBuilder,
        frames: &mut HashMap<u64, (PageId, FrameRole)>,
        metadata: &mut Metadata,
    ) -> Result<(), ImportError> {
        const NAME: &str = "gr_mem_contents";
        let path = self.folder.join(NAME);
        let Some((file, bytes)) = open_part(&path, &mut self.findings, "memory")? else {
            return Ok(());
        };
        let mut stream = Stream::new(BufReader::with_capacity(1 << 16, file), bytes);
        let contents = memory::parse(
            &mut stream,
            &path,
            tables,
            builder,
            frames,
            &mut self.findings,
            self.progress,
        )?;
        self.add_tally(NAME, bytes, contents.used);
        metadata.regions = contents.regions;
        metadata.source_pages = contents.pages;
        metadata.source_zero_pages = contents.zero_pages;
        Ok(())
    }

    /// Reads the ranges that CPU and GPU shared.
    fn read_buffers(&mut self) -> Result<Vec<Buffer>, ImportError> {
        const NAME: &str = "gr_sync_as";
        let Some(bytes) = read_part(self.folder, NAME, &mut self.findings, "buffers")? else {
            return Ok(Vec::new());
        };
        self.progress.advance(bytes.len() as u64)?;
        let (buffers, used) = sync::parse(&bytes, &mut self.findings);
        self.add_tally(NAME, bytes.len() as u64, used);
        Ok(buffers)
    }

    /// Returns the address space of the page tables, and reports a translation mode that is not theirs.
    fn read_address_space(&mut self, tables: &pgt::Tables) -> Option<AddressSpace> {
        let root = tables.root?;
        let mode = tables.transcfg & MODE;
        if mode != MODE_AARCH64_4K {
            let named = match mode {
                MODE_LEGACY => "legacy",
                MODE_UNMAPPED => "unmapped",
                2 => "identity",
                8 => "AArch64 64 KiB",
                _ => "an unknown mode",
            };
            let message = format!(
                "the translation configuration {:#x} states mode {mode}, {named}; the tables are still read as AArch64 \
                 4 KiB, mode {MODE_AARCH64_4K}",
                tables.transcfg
            );
            self.findings.push(Finding::new(
                FindingKind::Assumed,
                format!("gr_pgt{}", FilePosition::Byte(TRANSCFG_AT)),
                message,
            ));
        }
        Some(AddressSpace {
            number: 0,
            format: MmuFormat::Aarch64_4k,
            root,
            memattr: tables.memattr,
            transcfg: tables.transcfg,
        })
    }

    /// Reports the files of which some bytes were not used.
    fn report_unused_bytes(&mut self) {
        for t in self.tallies.iter().filter(|t| t.used < t.bytes) {
            let left = t.bytes - t.used;
            self.findings.push(Finding::new(
                FindingKind::NotUsed,
                format!("{}, byte {:#x}", t.name, t.used),
                format!("{left} of the file's {} bytes were not used", t.bytes),
            ));
        }
    }
}

/// A list of names that keeps the first few in alphabetical order and counts all.
#[derive(Default)]
struct Names {
    kept: BTreeSet<String>,
    count: usize,
}

impl Names {
    fn add(&mut self, name: String) {
        self.count += 1;
        self.kept.insert(name);
        if self.kept.len() > MAX_UNKNOWN {
            self.kept.pop_last();
        }
    }

    fn more(&self) -> usize {
        self.count - self.kept.len()
    }
}

/// Reports unused files of the folder: files with recorder names one by one, all others in one note.
fn report_unknown_parts(folder: &Path, options: &Options, findings: &mut Vec<Finding>) -> Result<(), ImportError> {
    let (mut recorders, mut others) = (Names::default(), Names::default());
    for entry in std::fs::read_dir(folder).map_err(|e| ImportError::io(folder, e))? {
        let entry = entry.map_err(|e| ImportError::io(folder, e))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_folder = entry.path().is_dir();
        // Timelines are reported where one of them is chosen.
        let timeline = options.timeline && name.ends_with("_integrated") && !is_folder;
        if PARTS.contains(&&*name) || timeline {
            continue;
        }
        if name.starts_with("gr_") {
            recorders.add(name);
        } else {
            others.add(if is_folder { format!("{name}/") } else { name });
        }
    }
    let more = recorders.more();
    for name in recorders.kept {
        let message = "this recorder file is unknown; it was not used";
        findings.push(Finding::new(FindingKind::NotUsed, name, message));
    }
    if more > 0 {
        let message = format!("{more} more recorder files are unknown; they were not used");
        findings.push(Finding::new(FindingKind::NotUsed, "gr_*", message));
    }
    if others.count > 0 {
        let more = match others.more() {
            0 => String::new(),
            n => format!(" and {n} more"),
        };
        let list: Vec<String> = others.kept.into_iter().collect();
        let message = format!(
            "holds {}{more} in addition to the recorder's files; they were not used",
            list.join(", ")
        );
        findings.push(Finding::new(FindingKind::NotUsed, "the folder", message));
    }
    Ok(())
}

/// Returns a file of the folder and its length; a missing file becomes a finding.
fn open_part(path: &Path, findings: &mut Vec<Finding>, what: &str) -> Result<Option<(File, u64)>, ImportError> {
    let io = |e| ImportError::io(path, e);
    match File::open(path) {
        Ok(file) => {
            let bytes = file.metadata().map_err(io)?.len();
            Ok(Some((file, bytes)))
        }
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let message = format!("the folder has no {name}, so the recording has no {what}");
            findings.push(Finding::new(FindingKind::NotUsed, name, message));
            Ok(None)
        }
        Err(e) => Err(io(e)),
    }
}

/// Returns the contents of a file of at most [`MAX_PART`] bytes; a missing file becomes a finding.
fn read_part(
    folder: &Path,
    name: &str,
    findings: &mut Vec<Finding>,
    what: &str,
) -> Result<Option<Vec<u8>>, ImportError> {
    let path: PathBuf = folder.join(name);
    let Some((file, bytes)) = open_part(&path, findings, what)? else {
        return Ok(None);
    };
    if bytes > MAX_PART {
        let message = format!("the file has {bytes} bytes, but the maximum is {MAX_PART} of {what}");
        return Err(ImportError::malformed(&path, FilePosition::Whole, message));
    }
    let mut out = Vec::new();
    let read = file.take(bytes).read_to_end(&mut out);
    read.map_err(|e| ImportError::io(&path, e))?;
    Ok(Some(out))
}

/// Returns the value of the first read of register 0, the GPU id; 0 if it was never read.
fn find_gpu_id(events: &Events, progress: &Progress) -> Result<u32, Cancelled> {
    let reads = events.kind.iter().zip(events.offset.iter()).zip(events.value.iter());
    for (n, ((kind, offset), value)) in reads.enumerate() {
        // In a history every event is an access, so the columns have equal rows.
        if offset == 0 && kind == EventKind::Read as u8 {
            return Ok(u32::try_from(value).unwrap_or(0));
        }
        if n % (1 << 20) == 0 {
            progress.check()?;
        }
    }
    Ok(0)
}

const _: () = assert!(PAGE_SIZE == 4096, "the format's pages are 4 KiB");

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a folder with a history, page tables in this mode, and a last buffer.
    fn folder(history: &str, transcfg: u64) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let put = |name: &str, bytes: &[u8]| std::fs::write(dir.path().join(name), bytes).unwrap();
        let mut tables = pgt::tests::file();
        tables[24..32].copy_from_slice(&transcfg.to_le_bytes());
        put("gr_io_history", history.as_bytes());
        put("gr_pgt", &tables);
        put("gr_mem_contents", &[]);
        put("gr_sync_as", &[0; 4]);
        dir
    }

    fn read(dir: &tempfile::TempDir) -> Recording {
        import(dir.path(), &Options::default(), &Progress::new()).unwrap()
    }

    fn finding_messages(r: &Recording, kind: FindingKind) -> Vec<&str> {
        let of_kind = r.metadata.findings.iter().filter(|f| f.kind == kind);
        of_kind.map(|f| f.message.as_str()).collect()
    }

    #[test]
    fn unexpected_translation_mode_is_reported() {
        for (transcfg, named) in [
            (6, None),
            (0x4200_0006, None),
            (0, Some("legacy")),
            (8, Some("64 KiB")),
            (5, Some("an unknown mode")),
        ] {
            let r = read(&folder("0,R,0,60a00002\n", transcfg));
            let notes = finding_messages(&r, FindingKind::Assumed);
            assert_eq!(notes.len(), usize::from(named.is_some()), "{notes:?}");
            assert!(notes.iter().all(|n| n.contains(named.unwrap_or_default())), "{notes:?}");
            assert!(
                r.metadata
                    .findings
                    .iter()
                    .all(|f| f.severity == trace_core::finding::Severity::Note)
            );
        }
    }

    #[test]
    fn gpu_id_is_found_even_if_read_late() {
        let history = "1,W,0,7\n".to_owned() + &"1,R,4,1\n".repeat(5000) + "1,R,0,60a00002\n1,R,0,5\n";
        assert_eq!(read(&folder(&history, 6)).metadata.identity.gpu_id, 0x60a0_0002);
    }

    #[test]
    fn unused_recorder_files_and_timelines_are_reported() {
        let dir = folder("0,R,0,60a00002\n", 6);
        for name in ["gr_other", "a_integrated", "b_integrated"] {
            std::fs::write(dir.path().join(name), "x").unwrap();
        }
        let r = read(&dir);
        let locations: Vec<_> = r.metadata.findings.iter().map(|f| f.place.as_str()).collect();
        assert_eq!(locations, ["a_integrated", "b_integrated", "gr_other"]);
    }

    #[test]
    fn other_files_of_the_folder_give_one_note() {
        let dir = folder("0,R,0,60a00002\n", 6);
        std::fs::write(dir.path().join("foo.txt"), "x").unwrap();
        std::fs::create_dir(dir.path().join("sub")).unwrap();
        std::fs::create_dir(dir.path().join("old_integrated")).unwrap();
        let r = read(&dir);
        let notes = finding_messages(&r, FindingKind::NotUsed);
        assert_eq!(notes.len(), 1, "{notes:?}");
        assert!(
            notes[0].contains("holds foo.txt, old_integrated/, sub/ in addition to"),
            "{notes:?}"
        );
        // All files are counted, but only a few are named.
        for i in 0..1000 {
            std::fs::write(dir.path().join(format!("a{i:03}")), "").unwrap();
        }
        let r = read(&dir);
        let notes = finding_messages(&r, FindingKind::NotUsed);
        assert!(notes.len() == 1 && notes[0].contains("a000, a001") && notes[0].contains("a015 and 987 more"));
    }

    #[test]
    fn empty_history_is_its_own_error() {
        let dir = folder("", 6);
        let line = "100 IO 7 0: R reg 0x00000000 val 60a00002  GPU | GPU_ID (RO)\n";
        std::fs::write(dir.path().join("a_integrated"), line).unwrap();
        let r = read(&dir);
        let damage: Vec<_> = r
            .metadata
            .findings
            .iter()
            .filter(|f| f.kind == FindingKind::TruncatedSection)
            .collect();
        assert_eq!(damage.len(), 1, "{:?}", r.metadata.findings);
        assert_eq!(
            (damage[0].place.as_str(), damage[0].severity),
            ("gr_io_history", trace_core::finding::Severity::Error)
        );
        let notes = finding_messages(&r, FindingKind::NotUsed);
        assert!(notes.iter().all(|n| !n.contains("another recording")), "{notes:?}");
        assert!(
            notes.iter().any(|n| n.contains("the history has no access")),
            "{notes:?}"
        );
    }

    #[test]
    fn oversized_page_table_file_is_refused_before_reading() {
        let dir = folder("0,R,0,60a00002\n", 6);
        File::create(dir.path().join("gr_pgt"))
            .unwrap()
            .set_len(1 << 40)
            .unwrap();
        let e = import(dir.path(), &Options::default(), &Progress::new()).unwrap_err();
        assert!(
            e.to_string().contains("gr_pgt: the file has 1099511627776 bytes"),
            "{e}"
        );
    }
}
