//! `gr_mem_contents`: regions that the driver allocated, with the pages of those that the CPU accessed.

use super::pgt::Tables;
use super::tally::damage;
use crate::bytes::Stream;
use crate::error::ImportError;
use std::collections::HashMap;
use std::io::Read;
use std::path::Path;
use trace_core::finding::{Finding, FindingKind};
use trace_core::progress::Progress;
use trace_core::recording::{FrameRole, MemoryBuilder, PageId, Region};
use trace_core::{GpuVa, PAGE_SIZE};

const FILE: &str = "gr_mem_contents";
const PAGE: u64 = 4096;
/// Size of a page with the two addresses before it, bytes.
const ENTRY_BYTES: u64 = 16 + PAGE;
/// Number of bytes between two progress reports.
const STEP: u64 = 1 << 20;

/// The contents of the file, without the pages themselves.
#[derive(Default)]
pub(super) struct Contents {
    pub(super) regions: Vec<Region>,
    /// Page images, repeats and zeros included.
    pub(super) pages: u64,
    pub(super) zero_pages: u64,
    /// Number of bytes of the file that were used.
    pub(super) used: u64,
}

/// Anomalies of many pages, each reported once.
#[derive(Default)]
struct Oddities {
    strayed: Tally,
    elsewhere: Tally,
    conflicting: Tally,
    table: Tally,
}

#[derive(Default)]
struct Tally {
    count: u64,
    first: Option<(u64, String)>,
}

impl Tally {
    fn add(&mut self, byte: u64, what: impl FnOnce() -> String) {
        self.count += 1;
        if self.first.is_none() {
            self.first = Some((byte, what()));
        }
    }

    fn report(self, kind: FindingKind, message: &str, findings: &mut Vec<Finding>) {
        if let Some((byte, what)) = self.first {
            let message = format!("{} pages {message}; the first, {what}", self.count);
            findings.push(Finding::new(kind, format!("{FILE}, byte {byte:#x}"), message));
        }
    }
}

/// The header of a region.
struct Header {
    start: u64,
    end: u64,
    nents: u64,
    flags: u32,
    valid: u8,
}

fn header(r: &mut Stream<impl Read>) -> std::io::Result<Option<Header>> {
    Ok(match (r.u64()?, r.u64()?, r.u64()?, r.u32()?, r.u8()?) {
        (Some(start), Some(end), Some(nents), Some(flags), Some(valid)) => Some(Header {
            start,
            end,
            nents,
            flags,
            valid,
        }),
        _ => None,
    })
}

/// Reads the regions of the file at `path` and places their pages in `frames`. Stops at the first invalid header.
pub(super) fn parse(
    r: &mut Stream<impl Read>,
    path: &Path,
    tables: &Tables,
    builder: &mut MemoryBuilder,
    frames: &mut HashMap<u64, (PageId, FrameRole)>,
    findings: &mut Vec<Finding>,
    progress: &Progress,
) -> Result<Contents, ImportError> {
    let io = |e| ImportError::io(path, e);
    let mut image = [0; PAGE_SIZE];
    let mut c = Contents::default();
    let mut odd = Oddities::default();
    let mut reported = 0;
    'regions: while r.left() > 0 {
        let at = r.at();
        let Some(Header {
            start,
            end,
            nents,
            flags,
            valid,
        }) = header(r).map_err(io)?
        else {
            findings.push(damage(FILE, at, "the file ends inside the header of a region"));
            break;
        };
        let room = end.checked_sub(start).map(|b| b / PAGE);
        // A region of no pages is invalid: otherwise a sparse file of zeros would give endless regions.
        let fits = room.is_some_and(|pages| pages > 0 && nents <= pages);
        if start % PAGE != 0 || end % PAGE != 0 || valid > 1 || !fits {
            findings.push(damage(
                FILE,
                at,
                format!(
                    "a region from {start:#x} to {end:#x} with {nents} pages and the content flag {valid:#x} (expected \
                     0 or 1) is invalid; the rest was not used"
                ),
            ));
            break;
        }
        c.used = r.at();
        c.regions.push(Region {
            address_space: 0,
            start: GpuVa::new(start),
            end: GpuVa::new(end),
            committed_pages: nents,
            flags: u64::from(flags),
            has_content: valid == 1,
        });
        if valid == 0 {
            progress.check()?;
            continue;
        }
        for index in 0..nents {
            let at = r.at();
            if r.left() < ENTRY_BYTES {
                let message = format!("the file ends in page {index} of {nents} of the region at {start:#x}");
                findings.push(damage(FILE, at, message));
                break 'regions;
            }
            let (Some(va), Some(pa), true) = (
                r.u64().map_err(io)?,
                r.u64().map_err(io)?,
                r.fill(&mut image).map_err(io)?,
            ) else {
                break 'regions;
            };
            c.used = r.at();
            c.pages += 1;
            let id = builder.add_page(&image);
            if id == PageId::ZERO {
                c.zero_pages += 1;
            }
            if r.at() - reported >= STEP {
                progress.advance(r.at() - reported)?;
                reported = r.at();
            }
            // `nents` was checked against the region, so this stays inside it.
            if va != start + index * PAGE || pa % PAGE != 0 {
                odd.strayed
                    .add(at, || format!("page {index} of {start:#x}, has {va:#x} at {pa:#x}"));
                continue;
            }
            if let Some(mapped) = tables.page(GpuVa::new(va))
                && mapped.get() != pa
            {
                odd.elsewhere
                    .add(at, || format!("{va:#x}, has {pa:#x}, but the tables have {mapped:#x}"));
                continue;
            }
            match frames.get(&(pa / PAGE)) {
                Some((_, FrameRole::Table)) => {
                    odd.table.add(at, || format!("{va:#x}, is at {pa:#x}"));
                }
                Some((before, FrameRole::Data)) => {
                    if *before != id {
                        odd.conflicting.add(at, || format!("{va:#x}, is at {pa:#x}"));
                    }
                }
                None => {
                    frames.insert(pa / PAGE, (id, FrameRole::Data));
                }
            }
        }
    }
    progress.advance(r.bytes().saturating_sub(reported))?;
    let kind = FindingKind::NotUsed;
    odd.strayed.report(
        kind,
        "do not follow the first page of their region, or are not page-aligned",
        findings,
    );
    odd.elsewhere.report(
        kind,
        "have another address than in the page tables and were not used",
        findings,
    );
    odd.table
        .report(kind, "have the address of a page table and were not used", findings);
    odd.conflicting.report(
        kind,
        "were dumped before with other contents; the first contents were kept",
        findings,
    );
    Ok(c)
}

#[cfg(test)]
mod tests {
    use super::super::pgt;
    use super::*;

    fn region(start: u64, end: u64, flags: u32, pages: Option<&[(u64, u64, u8)]>, nents: u64) -> Vec<u8> {
        let mut b = Vec::new();
        for v in [start, end, nents] {
            b.extend(v.to_le_bytes());
        }
        b.extend(flags.to_le_bytes());
        b.push(u8::from(pages.is_some()));
        for (va, pa, fill) in pages.unwrap_or_default() {
            b.extend(va.to_le_bytes());
            b.extend(pa.to_le_bytes());
            b.extend([*fill; PAGE_SIZE]);
        }
        b
    }

    fn read(bytes: &[u8]) -> (Contents, Vec<Finding>, HashMap<u64, (PageId, FrameRole)>) {
        let mut f = Vec::new();
        let tables = pgt::parse(&pgt::tests::file(), &mut f);
        let mut frames = HashMap::from([(1, (PageId(9), FrameRole::Table))]);
        let mut b = MemoryBuilder::new();
        let mut r = Stream::new(bytes, bytes.len() as u64);
        let path = Path::new(FILE);
        let c = parse(&mut r, path, &tables, &mut b, &mut frames, &mut f, &Progress::new()).unwrap();
        (c, f, frames)
    }

    #[test]
    fn pages_are_stored_at_their_translated_frames() {
        let mut bytes = region(
            0x40_2000,
            0x40_4000,
            0x606e,
            Some(&[(0x40_2000, 0x9000, 5), (0x40_3000, 0xa000, 0)]),
            2,
        );
        bytes.extend(region(0x50_0000, 0x51_0000, 0x627e, None, 14));
        let (c, f, frames) = read(&bytes);
        assert!(f.is_empty(), "{f:?}");
        assert_eq!(
            (c.used, c.pages, c.zero_pages, c.regions.len()),
            (bytes.len() as u64, 2, 1, 2)
        );
        assert_eq!(frames[&9], (PageId(1), FrameRole::Data));
        assert_eq!(frames[&10], (PageId::ZERO, FrameRole::Data));
        assert!(c.regions[0].has_content && !c.regions[1].has_content);
        for cut in [1, 28, 29, 40, 4141, 4142, bytes.len() - 1] {
            let (c, f, _) = read(&bytes[..cut]);
            assert_eq!(f.len(), 1, "cut at {cut}: {f:?}");
            assert_eq!(f[0].kind, FindingKind::TruncatedSection);
            assert!(c.used <= cut as u64);
        }
    }

    #[test]
    fn pages_that_contradict_the_tables_are_reported_and_skipped() {
        let read_pages = |pages: &[(u64, u64, u8)]| {
            let bytes = region(0x40_2000, 0x40_4000, 0, Some(pages), pages.len() as u64);
            let (_, f, frames) = read(&bytes);
            (f, frames.len() - 1)
        };
        let (f, n) = read_pages(&[(0x40_2000, 0xb000, 1)]);
        assert_eq!((f.len(), n), (1, 0));
        assert!(f[0].message.contains("the tables have 0x9000"), "{}", f[0].message);
        let (f, n) = read_pages(&[(0x40_3000, 0xa000, 1)]);
        assert_eq!((f.len(), n), (1, 0), "the page is not the first page of the region");
        let (_, f, _) = read(&region(0x40_2000, 0x40_3000, 0, None, 2));
        assert_eq!(
            f[0].kind,
            FindingKind::TruncatedSection,
            "the region has more pages than its size"
        );
        let twice = [
            region(0x40_2000, 0x40_3000, 0, Some(&[(0x40_2000, 0x9000, 1)]), 1),
            region(0x40_2000, 0x40_3000, 0, Some(&[(0x40_2000, 0x9000, 2)]), 1),
        ]
        .concat();
        let (_, f, frames) = read(&twice);
        assert_eq!((f.len(), frames[&9].0), (1, PageId(1)));
        assert_eq!(f[0].place, "gr_mem_contents, byte 0x104a");
    }

    /// A sparse file of a terabyte is neither loaded into memory nor read to its end.
    #[test]
    fn zero_filled_file_does_not_yield_endless_regions() {
        let mut f = Vec::new();
        let mut r = Stream::new(std::io::repeat(0), 1 << 40);
        let (mut b, mut frames) = (MemoryBuilder::new(), HashMap::new());
        let tables = Tables::default();
        let c = parse(
            &mut r,
            Path::new(FILE),
            &tables,
            &mut b,
            &mut frames,
            &mut f,
            &Progress::new(),
        )
        .unwrap();
        assert_eq!((c.regions.len(), c.used, f.len()), (0, 0, 1));
        assert!(f[0].message.contains("the rest was not used"), "{}", f[0].message);
    }

    #[test]
    fn impossible_page_count_allocates_nothing() {
        let bytes = region(0, 0xffff_ffff_f000, 0, Some(&[]), 0xf_ffff_ffff);
        let (c, f, _) = read(&bytes);
        assert_eq!((c.pages, f.len()), (0, 1));
    }
}
