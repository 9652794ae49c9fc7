//! The importer of dumps of physical memory, mostly with a page-table root: addresses, mappings and memory, without events.

use super::error::{FilePosition, ImportError};
use super::memory_dumps::{self, MemoryDump, Segment};
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::ops::{ControlFlow, Range};
use std::path::Path;
use std::sync::Arc;
use trace_core::finding::{Finding, FindingKind};
use trace_core::mmu::{self, TableItem};
use trace_core::progress::{Cancelled, Progress};
use trace_core::recording::{
    AddressSpace, Clock, Events, FrameRole, Identity, MemoryBuilder, Metadata, MmuFormat, Page, Recording, RunsBuilder,
    Snapshot,
};
use trace_core::{PAGE_SIZE, PhysAddr};

/// Value of [`Identity::source`] for a recording made from a dump.
pub const SOURCE: &str = Identity::RAW_MEMORY;

/// Information that is not in the dump.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Physical address of the dump's first byte; a multiple of 4096. `None` for a dump that states its addresses: an ELF
    /// core or a LiME image.
    pub base: Option<PhysAddr>,
    /// Physical address of the top page table, inside the dump or not; a multiple of 4096, or of the size of a smaller table.
    pub root: PhysAddr,
    /// Format of the page tables.
    pub format: MmuFormat,
    /// Memory attributes that entries index, one byte each; 0 if unknown.
    pub memattr: u64,
    /// GPU id register; 0 if unknown.
    pub gpu_id: u32,
}

/// Imports the dump. All pages are placed at their addresses, and page tables are marked.
///
/// # Errors
///
/// When base or root is not a page address, the dump has no whole page or reaches past 64 bits, it states no addresses
/// and none is given, the file cannot be read, or the work was cancelled. An incomplete last page, or a root outside the
/// dump, is a finding.
pub fn import(path: &Path, options: &Options, progress: &Progress) -> Result<Recording, ImportError> {
    let wrong = |message: String| ImportError::malformed(path, FilePosition::Whole, message);
    let base = options.base.map(|base| ("base address", base));
    let root = ("page-table root", options.root);
    let root_alignment = options.format.description().root_alignment();
    let page = PAGE_SIZE as u64;
    for ((what, at), alignment) in base.map(|b| (b, page)).into_iter().chain([(root, root_alignment)]) {
        if !at.is_aligned(alignment) {
            return Err(wrong(format!("the {what} {at} is not a multiple of {alignment:#x}")));
        }
    }
    let dump = match options.base {
        Some(base) => read_flat_dump(path, base)?,
        None => memory_dumps::read(path)?.ok_or_else(|| {
            let message = "the dump states no addresses (it is no ELF core and no LiME image); give the physical address \
                           of its first byte (--base)";
            wrong(message.to_owned())
        })?,
    };
    let (mut recording, mut findings) = place_pages(path, dump, progress)?;
    recording.metadata.identity.gpu_id = options.gpu_id;
    recording.metadata.address_spaces = vec![AddressSpace {
        number: 0,
        format: options.format,
        root: options.root,
        memattr: options.memattr,
        transcfg: 0,
    }];
    mark_tables(&mut recording, options, &mut findings, progress)?;
    recording.metadata.findings = findings;
    Ok(recording)
}

/// Whether a path is a dump that states its addresses.
#[must_use]
pub fn fits(path: &Path) -> bool {
    memory_dumps::fits(path)
}

/// Imports a dump that states its addresses, without page tables.
///
/// # Errors
///
/// When it is no such dump, it has no memory, the file cannot be read, or the work was cancelled.
pub fn import_dump(path: &Path, progress: &Progress) -> Result<Recording, ImportError> {
    let dump = memory_dumps::read(path)?.ok_or_else(|| ImportError::unknown(path))?;
    let (mut recording, mut findings) = place_pages(path, dump, progress)?;
    let message = "the dump does not state where its page tables are, so nothing is mapped; `import --raw --root ADDRESS \
                   --format FORMAT` follows them";
    findings.push(Finding::new(FindingKind::NotRecorded, "page tables", message));
    recording.metadata.findings = findings;
    Ok(recording)
}

/// Returns the one segment of a dump without addresses in it.
fn read_flat_dump(path: &Path, base: PhysAddr) -> Result<MemoryDump, ImportError> {
    let wrong = |message: String| ImportError::malformed(path, FilePosition::Whole, message);
    let bytes = std::fs::metadata(path).map_err(|e| ImportError::io(path, e))?.len();
    if base.get().checked_add(bytes).is_none() {
        return Err(wrong(format!("{bytes} bytes at {base} exceed the address range")));
    }
    let whole = bytes - bytes % PAGE_SIZE as u64;
    if whole == 0 {
        return Err(wrong(format!(
            "the dump has {bytes} bytes (expected at least a page of {PAGE_SIZE})"
        )));
    }
    let mut findings = Vec::new();
    if whole != bytes {
        let message = format!(
            "the last {} bytes are not a whole page and were not used",
            bytes - whole
        );
        findings.push(Finding::new(
            FindingKind::TruncatedSection,
            format!("byte {whole:#x}"),
            message,
        ));
    }
    Ok(MemoryDump {
        tool: String::new(),
        segments: vec![Segment {
            at: base,
            file_offset: 0,
            bytes: whole,
        }],
        findings,
    })
}

/// Reads the pages of a dump into a recording without page tables, and returns what was not used.
fn place_pages(path: &Path, dump: MemoryDump, progress: &Progress) -> Result<(Recording, Vec<Finding>), ImportError> {
    let io = |e| ImportError::io(path, e);
    let mut file = File::open(path).map_err(io)?;
    progress.set_total(dump.segments.iter().map(|s| s.bytes).fold(1, u64::saturating_add));
    let mut findings = dump.findings;
    let mut builder = MemoryBuilder::new();
    let mut runs = RunsBuilder::default();
    let (mut pages, mut zero_pages, mut covered) = (0u64, 0u64, 0u64);
    // The first frame after those that have a page.
    let mut next = 0;
    for segment in &dump.segments {
        file.seek(SeekFrom::Start(segment.file_offset)).map_err(io)?;
        let end = segment.at.get().saturating_add(segment.bytes);
        let mut at = segment.at.get();
        while at < end {
            let frame = at / PAGE_SIZE as u64;
            let from = (at % PAGE_SIZE as u64) as usize;
            let length = (end - at).min((PAGE_SIZE - from) as u64) as usize;
            let mut image: Page = [0; PAGE_SIZE];
            if let Some(to) = image.get_mut(from..from + length) {
                file.read_exact(to).map_err(io)?;
            }
            if frame < next {
                covered += 1;
            } else {
                let id = builder.add_page(&image);
                zero_pages += u64::from(id == trace_core::recording::PageId::ZERO);
                runs.push(frame, id, FrameRole::Data);
                next = frame.saturating_add(1);
                pages += 1;
            }
            at += length as u64;
            if frame % 256 == 255 {
                progress.advance(256 * PAGE_SIZE as u64)?;
            }
        }
    }
    progress.check()?;
    if pages == 0 {
        return Err(ImportError::malformed(
            path,
            FilePosition::Whole,
            "the dump has no memory",
        ));
    }
    if covered > 0 {
        let message = format!("{covered} pages are in the dump more than once; the first content of each was used");
        findings.push(Finding::new(FindingKind::OverlappingRegions, "segments", message));
    }
    let mut memory = builder.finish();
    memory.snapshots = one_snapshot(runs);
    let recording = Recording {
        metadata: Metadata {
            identity: Identity {
                source: SOURCE.into(),
                tool: dump.tool,
                clock: Clock::SinceStart,
                ..Identity::default()
            },
            source_pages: pages,
            source_zero_pages: zero_pages,
            ..Metadata::default()
        },
        events: Events::default(),
        memory,
        ..Recording::default()
    };
    Ok((recording, findings))
}

/// Sets the role of frames with page tables; reports if there are none.
fn mark_tables(
    recording: &mut Recording,
    options: &Options,
    findings: &mut Vec<Finding>,
    progress: &Progress,
) -> Result<(), Cancelled> {
    let view = recording.memory.at(0);
    if view.frame(options.root.frame()).is_none() {
        findings.push(Finding::new(
            FindingKind::NotUsed,
            format!("root {}", options.root),
            "the dump does not hold the page-table root, so nothing is mapped",
        ));
        return Ok(());
    }
    // The first frame of each table, and the frame after its last one.
    let mut tables: Vec<Range<u64>> = Vec::new();
    let mut passed = 0u64;
    let _ = mmu::visit_all(options.format, options.root, &view, &mut |found| {
        if let TableItem::Table(t) = found {
            tables.push(t.frames());
        }
        passed += 1;
        if passed.is_multiple_of(1 << 12) && progress.check().is_err() {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    });
    progress.check()?;
    tables.sort_unstable_by_key(|t| (t.start, t.end));
    // Tables smaller than a page share frames.
    tables.dedup_by(|next, before| {
        let joins = next.start <= before.end;
        if joins {
            before.end = before.end.max(next.end);
        }
        joins
    });
    let mut runs = RunsBuilder::default();
    for run in view.runs() {
        let mut at = run.first_frame;
        let first = tables.partition_point(|t| t.end <= run.first_frame);
        for table in tables.iter().skip(first).take_while(|t| t.start < run.end_frame()) {
            let (start, end) = (table.start.max(run.first_frame), table.end.min(run.end_frame()));
            runs.push_part(&run, at..start, run.role);
            runs.push_part(&run, start..end, FrameRole::Table);
            at = end;
        }
        runs.push_part(&run, at..run.end_frame(), run.role);
    }
    recording.memory.snapshots = one_snapshot(runs);
    Ok(())
}

fn one_snapshot(runs: RunsBuilder) -> Arc<Vec<Snapshot>> {
    Arc::new(vec![Snapshot {
        event: 0,
        parent: None,
        runs: runs.finish(),
    }])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use trace_core::GpuVa;
    use trace_core::mmu::Rights;

    const BASE: u64 = 0x8000_0000;

    /// Returns four tables that map address 0x5000 to the fifth page.
    fn dump(format: MmuFormat) -> Vec<u8> {
        let mut bytes = vec![0u8; 5 * PAGE_SIZE];
        let mut entry = |table: u64, index: u64, value: u64| {
            let at = (table * PAGE_SIZE as u64 + index * 8) as usize;
            bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        };
        for table in 0..3 {
            entry(
                table,
                0,
                mmu::encode_table(format, PhysAddr::new(BASE + (table + 1) * 0x1000)),
            );
        }
        entry(
            3,
            5,
            mmu::encode_leaf(format, PhysAddr::new(BASE + 0x4000), Rights::RW, 0),
        );
        bytes[4 * PAGE_SIZE] = 7;
        bytes
    }

    fn read(bytes: &[u8], options: Options) -> Result<Recording, ImportError> {
        let mut f = tempfile::NamedTempFile::new().unwrap();
        f.write_all(bytes).unwrap();
        import(f.path(), &options, &Progress::new())
    }

    #[test]
    fn a_dump_is_mapped_in_both_formats() {
        for format in [MmuFormat::Aarch64_4k, MmuFormat::MaliLpae] {
            let options = Options {
                base: Some(PhysAddr::new(BASE)),
                root: PhysAddr::new(BASE),
                format,
                memattr: 0,
                gpu_id: 0,
            };
            let r = read(&dump(format), options).unwrap();
            assert!(r.metadata.findings.is_empty(), "{:?}", r.metadata.findings);
            assert_eq!((r.metadata.source_pages, r.events.len()), (5, 0));
            let view = r.memory.at(0);
            let leaf = mmu::translate(format, options.root, GpuVa::new(0x5000), &view).unwrap();
            assert_eq!(leaf.pa, PhysAddr::new(BASE + 0x4000));
            assert_eq!(view.frame(leaf.pa.frame()).unwrap()[0], 7);
            let roles: Vec<_> = view.runs().iter().map(|r| (r.role, r.count)).collect();
            assert_eq!(roles, [(FrameRole::Table, 4), (FrameRole::Data, 1)]);
        }
    }

    #[test]
    fn a_dump_without_a_page_is_refused() {
        let options = Options {
            base: Some(PhysAddr::new(BASE)),
            root: PhysAddr::new(BASE),
            format: MmuFormat::Aarch64_4k,
            memattr: 0,
            gpu_id: 0,
        };
        for (bytes, message) in [(0, "has 0 bytes"), (PAGE_SIZE - 1, "has 4095 bytes")] {
            let e = read(&vec![1; bytes], options).unwrap_err().to_string();
            assert!(e.contains(message) && e.contains("at least a page of 4096"), "{e}");
        }
        assert!(read(&[1; PAGE_SIZE], options).is_ok());
    }

    #[test]
    fn unfit_raw_memory_is_reported() {
        let format = MmuFormat::Aarch64_4k;
        let options = Options {
            base: Some(PhysAddr::new(BASE)),
            root: PhysAddr::new(0x1000),
            format,
            memattr: 0,
            gpu_id: 0,
        };
        let mut bytes = dump(format);
        bytes.extend([1, 2, 3]);
        let f = read(&bytes, options).unwrap().metadata.findings;
        assert_eq!(
            f.iter().map(|f| f.kind).collect::<Vec<_>>(),
            [FindingKind::TruncatedSection, FindingKind::NotUsed]
        );
        assert!(
            read(
                &bytes,
                Options {
                    root: PhysAddr::new(0x1001),
                    ..options
                }
            )
            .is_err()
        );
        assert!(
            read(
                &bytes,
                Options {
                    base: Some(PhysAddr::new(!0xfff)),
                    ..options
                }
            )
            .is_err()
        );
    }

    /// Returns a dump of a card: tables of version 2 at 0x1000, a 64 KiB page, a 4 KiB page and one in system memory.
    fn nvidia_dump() -> Vec<u8> {
        let mut bytes = vec![0u8; 0x4_0000];
        let mut put = |at: usize, value: u64| bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        for table in 1u64..4 {
            put(table as usize * 0x1000, 2 | (table + 1) << 8);
        }
        // PDE0 at 0x4000: large pages at 0x5100, small ones at 0x6000.
        put(0x4000, 2 | 0x51 << 4);
        put(0x4008, 2 | 6 << 8);
        put(0x5100 + 8, 1 | 0x30 << 8 | 6 << 56);
        put(0x6000, 1 | 0x20 << 8 | 1 << 6);
        put(0x6008, 1 | 2 << 1 | 0x1_2345 << 8);
        bytes
    }

    #[test]
    fn a_dump_of_an_nvidia_card_is_mapped_and_keeps_its_description() {
        let options = Options {
            base: Some(PhysAddr::ZERO),
            root: PhysAddr::new(0x1000),
            format: MmuFormat::from_name("nvidia-v2").unwrap(),
            memattr: 0,
            gpu_id: 0,
        };
        let recording = read(&nvidia_dump(), options).unwrap();
        assert!(
            recording.metadata.findings.is_empty(),
            "{:?}",
            recording.metadata.findings
        );
        let file = tempfile::NamedTempFile::new().unwrap();
        trace_core::container::write(&recording, file.path(), &Progress::new()).unwrap();
        let opened = trace_core::container::open(file.path()).unwrap();
        let space = &opened.metadata.address_spaces[0];
        assert_eq!((space.format, space.format.name()), (options.format, "nvidia-v2"));
        let view = opened.memory.last();
        let scan = mmu::scan(space.format, space.root, &view);
        assert_eq!(scan.problems, []);
        let found: Vec<_> = scan
            .mappings
            .iter()
            .map(|m| (m.va.get(), m.pages, m.rights.to_string(), m.elsewhere.map(|e| e.name())))
            .collect();
        let expected = [
            (0, 1, "r--".to_owned(), None),
            (0x1000, 1, "rw-".to_owned(), Some("system")),
            (0x1_0000, 16, "rw-".to_owned(), None),
        ];
        assert_eq!(found, expected);
        let tables: u64 = view
            .runs()
            .iter()
            .filter(|r| r.role == FrameRole::Table)
            .map(|r| u64::from(r.count))
            .sum();
        assert_eq!(tables, 6);
        let findings = trace_core::check::check(&opened);
        assert!(
            !findings.iter().any(|f| f.kind == FindingKind::MappedWithoutContent),
            "{findings:?}"
        );
    }

    #[test]
    fn a_root_is_aligned_to_its_table() {
        let options = Options {
            base: Some(PhysAddr::ZERO),
            root: PhysAddr::new(0x1020),
            format: MmuFormat::from_name("nvidia-v2").unwrap(),
            memattr: 0,
            gpu_id: 0,
        };
        assert!(read(&nvidia_dump(), options).is_ok());
        let error = read(
            &nvidia_dump(),
            Options {
                root: PhysAddr::new(0x1008),
                ..options
            },
        )
        .unwrap_err();
        assert!(error.to_string().contains("is not a multiple of 0x20"), "{error}");
    }
}
