//! Comparison of two raw images: files of bytes without digests, read in parallel at memory speed.
//!
//! The files are read, not mapped. A piece of each is in the cache while it is compared, so that only reading goes to
//! memory. A file that shrinks meanwhile causes an error, not a signal.

use super::MAX_LISTED_DIFFERENCES;
use super::buffers::count_differing;
use super::elements::{Comparer, ElementDiff, Tolerance};
use super::rules::{Rule, Rules};
use crate::PAGE_SIZE;
use crate::progress::{Cancelled, Progress};
use crate::recording::ElementType;
use rayon::prelude::*;
use serde::Serialize;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// Number of bytes of each image that are read at once: two pieces fit in a core's second-level cache.
const PIECE: usize = 256 << 10;
/// Number of bytes of each image that one work item covers.
const CHUNK: u64 = 8 << 20;
/// Number of chunks between two checks for cancellation.
const BATCH: u64 = 16;
/// Differing bytes that are closer than this are one range, bytes.
const JOIN: u64 = 8;

/// Why two images were not compared.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// A file cannot be read.
    #[error("{}: {source}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// The error from the operating system.
        source: io::Error,
    },
    /// A rule that does not apply to images.
    #[error("\"{rule}\" has no meaning for raw images (only ignore memory FIRST..END and tolerance buffer image have)")]
    Rule {
        /// The rule.
        rule: String,
    },
    /// The user cancelled the work.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

/// A range of differing bytes, with at most a few equal ones between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ImageRange {
    /// Offset of the first differing byte in the images.
    pub offset: u64,
    /// Number of bytes, up to the last one that differs.
    pub bytes: u64,
}

/// The differences between two images.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ImageDiff {
    /// Size of the first image, bytes.
    pub bytes_a: u64,
    /// Size of the second image, bytes. Bytes after the end of the shorter one are not compared.
    pub bytes_b: u64,
    /// Number of 4 KiB pages with a differing byte.
    pub pages_differ: u64,
    /// Number of differing bytes.
    pub bytes_differ: u64,
    /// Total number of differing ranges.
    pub ranges_in_all: u64,
    /// The first ranges, at most [`MAX_LISTED_DIFFERENCES`].
    pub ranges: Vec<ImageRange>,
    /// The comparison of the elements, with those within the tolerance counted separately.
    pub elements: ElementDiff,
}

impl ImageDiff {
    /// Returns whether the images have the same size and no element differs beyond the tolerance.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes_a == self.bytes_b && self.elements.differ == 0
    }
}

/// The result for a part of both images, to be joined in order.
struct ImageComparison {
    pages_differ: u64,
    bytes_differ: u64,
    ranges_in_all: u64,
    ranges: Vec<ImageRange>,
    /// The range that ends last, which may continue.
    last: Option<ImageRange>,
    elements: Comparer,
}

impl ImageComparison {
    fn new(element: ElementType, tolerance: Tolerance) -> Self {
        Self {
            pages_differ: 0,
            bytes_differ: 0,
            ranges_in_all: 0,
            ranges: Vec::new(),
            last: None,
            elements: Comparer::new(element, tolerance),
        }
    }

    /// Adds a range after all others; merges it with the last one if it is near.
    fn range(&mut self, r: ImageRange) {
        match &mut self.last {
            Some(last) if r.offset < last.offset + last.bytes + JOIN => last.bytes = r.offset + r.bytes - last.offset,
            _ => {
                self.close();
                self.last = Some(r);
            }
        }
    }

    fn close(&mut self) {
        if let Some(r) = self.last.take() {
            self.ranges_in_all += 1;
            if self.ranges.len() < MAX_LISTED_DIFFERENCES {
                self.ranges.push(r);
            }
        }
    }

    /// Compares two pieces of the same length at an offset.
    fn piece(&mut self, offset: u64, a: &[u8], b: &[u8]) {
        let size = self.elements.element().bytes();
        let pages = a.chunks(PAGE_SIZE).zip(b.chunks(PAGE_SIZE));
        for (n, (x, y)) in pages.enumerate() {
            let at = offset + (n * PAGE_SIZE) as u64;
            self.elements.add_pair(at / size as u64, x, y);
            if x == y {
                continue;
            }
            self.pages_differ += 1;
            self.bytes_differ += count_differing(x, y);
            let mut i = 0;
            while let Some(by) = x.iter().zip(y).skip(i).position(|(v, w)| v != w) {
                let begin = i + by;
                let end = x
                    .iter()
                    .zip(y)
                    .skip(begin)
                    .position(|(v, w)| v == w)
                    .map_or(x.len(), |n| begin + n);
                self.range(ImageRange {
                    offset: at + begin as u64,
                    bytes: (end - begin) as u64,
                });
                i = end;
            }
        }
    }

    /// Appends the result for the part after this one.
    fn join(&mut self, mut next: Self) {
        let open = next.last.take();
        // Ranges closed in the other part are separate from one another, but its first may continue the last one
        // here.
        let listed = next.ranges.len() as u64;
        for r in next.ranges {
            self.range(r);
        }
        if next.ranges_in_all > listed {
            self.close();
            self.ranges_in_all += next.ranges_in_all - listed;
        }
        if let Some(r) = open {
            self.range(r);
        }
        self.pages_differ += next.pages_differ;
        self.bytes_differ += next.bytes_differ;
        self.elements.join(next.elements);
    }
}

/// An open image.
struct Image {
    path: PathBuf,
    file: File,
    bytes: u64,
}

impl Image {
    fn open(path: &Path) -> Result<Self, ImageError> {
        let wrong = |source| ImageError::Read {
            file: path.to_owned(),
            source,
        };
        let file = File::open(path).map_err(wrong)?;
        let bytes = file.metadata().map_err(wrong)?;
        if bytes.is_dir() {
            return Err(wrong(io::ErrorKind::IsADirectory.into()));
        }
        Ok(Self {
            path: path.to_owned(),
            file,
            bytes: bytes.len(),
        })
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), ImageError> {
        read_at(&self.file, offset, out).map_err(|source| ImageError::Read {
            file: self.path.clone(),
            source,
        })
    }
}

#[cfg(unix)]
fn read_at(file: &File, offset: u64, out: &mut [u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, out, offset)
}

#[cfg(not(unix))]
fn read_at(file: &File, offset: u64, out: &mut [u8]) -> io::Result<()> {
    use std::io::{Read as _, Seek as _};
    // A separate handle, because threads would share the file position otherwise.
    let mut file = file.try_clone()?;
    file.seek(io::SeekFrom::Start(offset))?;
    file.read_exact(out)
}

/// Compares two images up to the shorter size, by the type of their elements. `base` is the address of their first
/// bytes. Progress counts bytes of one image. Uses a few megabytes of memory, for any size.
///
/// # Errors
/// If a file cannot be read, a rule does not apply to images, or the work was cancelled.
pub fn compare_images(
    (a, b): (&Path, &Path),
    base: u64,
    element: ElementType,
    rules: &Rules,
    progress: &Progress,
) -> Result<ImageDiff, ImageError> {
    let mut left_out: Vec<(u64, u64)> = Vec::new();
    for rule in &rules.list {
        match rule {
            Rule::Memory { range, .. } => {
                left_out.push((range.0.get().saturating_sub(base), range.1.get().saturating_sub(base)))
            }
            Rule::Tolerance { .. } => {}
            _ => return Err(ImageError::Rule { rule: rule.to_string() }),
        }
    }
    let tolerance = rules.image_tolerance();
    let (a, b) = (Image::open(a)?, Image::open(b)?);
    let common = a.bytes.min(b.bytes);
    progress.set_total(common);
    let mut all = ImageComparison::new(element, tolerance);
    let chunks = common.div_ceil(CHUNK);
    let mut first = 0;
    while first < chunks {
        let end = chunks.min(first + BATCH);
        let chunk = |n: u64| {
            let (from, to) = (n * CHUNK, common.min((n + 1) * CHUNK));
            stretch(
                (&a, &b),
                (from, to),
                ImageComparison::new(element, tolerance),
                &left_out,
            )
        };
        let found: Result<Vec<ImageComparison>, ImageError> = (first..end).into_par_iter().map(chunk).collect();
        for next in found? {
            all.join(next);
        }
        progress.advance((common.min(end * CHUNK)) - first * CHUNK)?;
        first = end;
    }
    all.close();
    Ok(ImageDiff {
        bytes_a: a.bytes,
        bytes_b: b.bytes,
        pages_differ: all.pages_differ,
        bytes_differ: all.bytes_differ,
        ranges_in_all: all.ranges_in_all,
        ranges: all.ranges,
        elements: all.elements.finish(),
    })
}

fn stretch(
    (a, b): (&Image, &Image),
    (from, to): (u64, u64),
    mut found: ImageComparison,
    left_out: &[(u64, u64)],
) -> Result<ImageComparison, ImageError> {
    let (mut here, mut there) = (vec![0; PIECE], vec![0; PIECE]);
    let mut at = from;
    while at < to {
        let len = usize::try_from(to - at).unwrap_or(PIECE).min(PIECE);
        let (Some(x), Some(y)) = (here.get_mut(..len), there.get_mut(..len)) else {
            break;
        };
        a.read(at, x)?;
        b.read(at, y)?;
        let end = at + len as u64;
        for (first, last) in left_out.iter().filter(|r| r.0 < end && r.1 > at) {
            let range = (first.max(&at) - at) as usize..(last.min(&end) - at) as usize;
            x.get_mut(range.clone()).unwrap_or_default().fill(0);
            y.get_mut(range).unwrap_or_default().fill(0);
        }
        if x == y {
            found
                .elements
                .add_equal((len / found.elements.element().bytes()) as u64);
        } else {
            found.piece(at, x, y);
        }
        at = end;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compared(a: &[u8], b: &[u8], element: ElementType, rules: &str) -> Result<ImageDiff, ImageError> {
        let dir = tempfile::tempdir().unwrap();
        let (p, q) = (dir.path().join("a"), dir.path().join("b"));
        std::fs::write(&p, a).unwrap();
        std::fs::write(&q, b).unwrap();
        compare_images((&p, &q), 0x1000, element, &rules.parse().unwrap(), &Progress::new())
    }

    /// Differences at the borders of pages, pieces and chunks, checked against a comparison of every byte.
    #[test]
    fn differing_bytes_are_found_and_reported_as_ranges() {
        let len = 2 * CHUNK as usize + PIECE + 77;
        let a: Vec<u8> = (0..len).map(|n| (n * 7 + n / 251) as u8).collect();
        let mut b = a.clone();
        let chunk = CHUNK as usize;
        let offsets = [
            0,
            1,
            5,
            4095,
            4096,
            PIECE - 1,
            PIECE,
            chunk - 3,
            chunk + 3,
            chunk + 40,
            2 * chunk - 1,
            len - 1,
        ];
        for at in offsets {
            b[at] ^= 0xff;
        }
        let d = compared(&a, &b, ElementType::U8, "").unwrap();
        assert_eq!((d.bytes_differ, d.elements.differ), (12, 12));
        let ranges: Vec<_> = d.ranges.iter().map(|r| (r.offset as usize, r.bytes)).collect();
        let expected = [
            (0, 6),
            (4095, 2),
            (PIECE - 1, 2),
            (chunk - 3, 7),
            (chunk + 40, 1),
            (2 * chunk - 1, 1),
            (len - 1, 1),
        ];
        assert_eq!(ranges, expected);
        assert_eq!((d.ranges_in_all, d.pages_differ), (7, 8));
        assert!(!d.is_empty());
        assert!(compared(&a, &a, ElementType::F32, "").unwrap().is_empty());
    }

    #[test]
    fn more_ranges_than_are_listed_are_counted() {
        let a = vec![0u8; 3 * CHUNK as usize];
        let mut b = a.clone();
        for at in (0..b.len()).step_by(4096) {
            b[at] = 1;
        }
        let d = compared(&a, &b, ElementType::U32, "").unwrap();
        assert_eq!(d.ranges.len(), MAX_LISTED_DIFFERENCES);
        assert_eq!((d.ranges_in_all, d.pages_differ, d.elements.differ), (6144, 6144, 6144));
        assert_eq!(
            d.ranges.last().unwrap().offset,
            (MAX_LISTED_DIFFERENCES as u64 - 1) * 4096
        );
    }

    #[test]
    fn image_comparison_applies_tolerances_and_ignored_ranges() {
        let floats = |v: [f32; 4]| v.iter().flat_map(|f| f.to_le_bytes()).collect::<Vec<_>>();
        let (a, b) = (floats([1.0, 2.0, 3.0, 4.0]), floats([1.0, 2.001, 3.0, 5.0]));
        let compare_with = |rules: &str| compared(&a, &b, ElementType::F32, rules);
        let d = compare_with("tolerance buffer image absolute 0.1").unwrap();
        assert_eq!(
            (d.elements.within, d.elements.differ, d.elements.first.unwrap().index),
            (1, 1, 3)
        );
        assert!(
            compare_with("tolerance buffer * absolute 0.1\nignore memory 0x100c..0x1010")
                .unwrap()
                .is_empty()
        );
        assert!(
            compare_with("ignore mappings")
                .unwrap_err()
                .to_string()
                .contains("has no meaning for raw images")
        );
        let d = compared(&a, &a[..9], ElementType::F32, "").unwrap();
        assert_eq!((d.bytes_a, d.bytes_b, d.bytes_differ, d.is_empty()), (16, 9, 0, false));
        let missing = compare_images(
            (Path::new("/nowhere"), Path::new("/")),
            0,
            ElementType::U8,
            &Rules::default(),
            &Progress::new(),
        );
        assert!(missing.unwrap_err().to_string().starts_with("/nowhere: "));
    }
}
