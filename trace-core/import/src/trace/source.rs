//! The block reader of logs: one thread reads, and unpacks if needed, so that the others only parse. Memory is limited
//! by the blocks in flight, whatever the unpacked size.

use crate::error::{FilePosition, ImportError};
use crate::packing::strip_ending;
use crate::unpack_limit::is_over_limit;
use crate::unpacked_file::{is_packed, is_packed_path, read_head, unpacked_here};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use trace_core::progress::Progress;

/// Size of a block, bytes: small enough for a cache, large enough to outweigh the cost per block.
const BLOCK: usize = 1 << 20;
/// Maximum number of blocks that wait for parsing.
const WAITING: usize = 4;
/// Replacement of a line that is longer than a block: no format has such a line.
const TOO_LONG: &[u8] = b"?\n";

/// Returns the path of a file next to a log: the log's name without `.txt` and the ending of its packing, with another suffix.
pub(super) fn sibling_path(path: &Path, ending: &str) -> PathBuf {
    let name = path
        .file_name()
        .map(|n| n.to_string_lossy().into_owned())
        .unwrap_or_default();
    let stem = strip_ending(&name);
    let stem = stem
        .strip_suffix(".txt")
        .or_else(|| stem.strip_suffix(".log"))
        .unwrap_or(stem);
    path.with_file_name(format!("{stem}{ending}"))
}

/// The end of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// At the end of a line.
    Whole,
    /// In the middle of a line, after this many bytes of it.
    Cut(u64),
    /// At data that cannot be unpacked: the reason, and the byte of the packed file.
    Broken(String, u64),
}

/// Whole lines, and the position of their end in the file.
struct Block {
    bytes: Vec<u8>,
    /// Number of bytes of the file, packed or not, that were read up to here.
    read: u64,
}

/// Whether a path is a packed file.
pub(crate) fn is_compressed(path: &Path) -> bool {
    is_packed_path(path)
}

/// Returns the first bytes of a log's text, at most `max`.
pub(crate) fn head(path: &Path, max: usize) -> io::Result<Vec<u8>> {
    read_head(path, max)
}

/// Reads a whole file, packed or not. Returns `None` if it has more than `max` bytes.
pub(super) fn read_file(path: &Path, max: u64) -> io::Result<Option<Vec<u8>>> {
    let file = File::open(path)?;
    let mut bytes = Vec::new();
    let from = unpacked_here(file, &Arc::default(), &Progress::new());
    let read = from.take(max.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok((read as u64 <= max).then_some(bytes))
}

/// Reads a log and passes its blocks to `each` in order, several at a time. Progress counts bytes of the file.
///
/// # Errors
///
/// When the file cannot be opened or read, `each` returns an error, or the work was cancelled. Damage of a packed file
/// is no error: it is an end of the log.
pub(crate) fn blocks(
    path: &Path,
    progress: &Progress,
    mut each: impl FnMut(&[Vec<u8>]) -> Result<(), ImportError>,
) -> Result<End, ImportError> {
    let io = |e| ImportError::io(path, e);
    let file = File::open(path).map_err(io)?;
    progress.set_total(file.metadata().map_err(io)?.len().max(1));
    let packed = is_packed(&file);
    let read = Arc::new(AtomicU64::new(0));
    let from = unpacked_here(file, &read, progress);
    let (give, take) = sync_channel(WAITING);
    let (give_back, taken_back) = channel();
    std::thread::scope(|scope| {
        let reader = scope.spawn(move || split_lines(from, packed, &read, &give, &taken_back));
        let taken = take_all(take, &give_back, progress, &mut each);
        // A reader that still has blocks ends when nobody receives them.
        let end = reader.join();
        taken?;
        match end {
            Ok(end) => end.map_err(io),
            Err(_) => Err(ImportError::malformed(
                path,
                FilePosition::Whole,
                "the thread that reads the file ended",
            )),
        }
    })
}

/// Passes blocks on, as many at a time as there are parser threads.
fn take_all(
    take: Receiver<Block>,
    give_back: &Sender<Vec<u8>>,
    progress: &Progress,
    each: &mut impl FnMut(&[Vec<u8>]) -> Result<(), ImportError>,
) -> Result<(), ImportError> {
    let max = rayon::current_num_threads().clamp(1, 16);
    let mut reported = 0;
    let mut batch = Vec::with_capacity(max);
    while let Ok(first) = take.recv() {
        let mut read = first.read;
        batch.push(first.bytes);
        while batch.len() < max
            && let Ok(next) = take.recv()
        {
            read = next.read;
            batch.push(next.bytes);
        }
        each(&batch)?;
        progress.advance(read.saturating_sub(reported))?;
        reported = read;
        for bytes in batch.drain(..) {
            // Nobody receives it once everything is read.
            let _ = give_back.send(bytes);
        }
    }
    Ok(())
}

/// Splits a text into blocks at line ends and sends them.
fn split_lines(
    mut from: impl Read,
    packed: bool,
    read: &AtomicU64,
    give: &SyncSender<Block>,
    back: &Receiver<Vec<u8>>,
) -> io::Result<End> {
    let mut left: Vec<u8> = Vec::new();
    let mut skipping = false;
    loop {
        let mut bytes = back.try_recv().unwrap_or_default();
        bytes.clear();
        bytes.append(&mut left);
        let mut filled = bytes.len();
        bytes.resize(BLOCK, 0);
        let mut end = None;
        while let Some(room) = bytes.get_mut(filled..).filter(|r| !r.is_empty()) {
            match from.read(room) {
                Ok(0) => {
                    end = Some(End::Whole);
                    break;
                }
                Ok(n) => filled += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if packed && !is_over_limit(&e) => {
                    end = Some(End::Broken(e.to_string(), read.load(Ordering::Relaxed)));
                    break;
                }
                Err(e) => return Err(e),
            }
        }
        bytes.truncate(filled);
        if skipping {
            // The rest of a line that was too long, up to its end.
            match memchr::memchr(b'\n', &bytes) {
                Some(at) => {
                    bytes.drain(..=at);
                    skipping = false;
                }
                None => bytes.clear(),
            }
        }
        match memchr::memrchr(b'\n', &bytes) {
            Some(at) => {
                left = bytes.split_off(at + 1);
            }
            None if end.is_none() && bytes.len() == BLOCK => {
                bytes.clear();
                bytes.extend_from_slice(TOO_LONG);
                skipping = true;
            }
            None => left = std::mem::take(&mut bytes),
        }
        let block = Block {
            bytes,
            read: read.load(Ordering::Relaxed),
        };
        if !block.bytes.is_empty() && give.send(block).is_err() {
            return Ok(End::Whole);
        }
        match end {
            Some(End::Whole) if !left.is_empty() => return Ok(End::Cut(left.len() as u64)),
            Some(end) => return Ok(end),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write as _;

    fn read(bytes: &[u8]) -> (Vec<u8>, usize, End) {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        let (mut text, mut max) = (Vec::new(), 0);
        let end = blocks(file.path(), &Progress::new(), |batch| {
            for block in batch {
                assert!(block.ends_with(b"\n"));
                max = max.max(block.len());
                text.extend_from_slice(block);
            }
            Ok(())
        });
        (text, max, end.unwrap())
    }

    fn pack(bytes: &[u8]) -> Vec<u8> {
        let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
        packer.write_all(bytes).unwrap();
        packer.finish().unwrap()
    }

    #[test]
    fn plain_and_compressed_text_give_the_same_lines() {
        let text: String = (0..200_000).map(|i| format!("line {i} of a log\n")).collect();
        let packed = pack(text.as_bytes());
        for bytes in [
            text.as_bytes(),
            &packed,
            &[packed.as_slice(), &pack(b"more\n")].concat(),
        ] {
            let (read, max, end) = read(bytes);
            assert_eq!(end, End::Whole);
            assert!(read.starts_with(text.as_bytes()) && max <= BLOCK);
        }
        assert_eq!(read(&packed[..packed.len() / 2]).0.last(), Some(&b'\n'));
        assert!(matches!(read(&packed[..packed.len() / 2]).2, End::Broken(_, at) if at > 1000));
    }

    #[test]
    fn unterminated_line_is_dropped_and_overlong_line_marked() {
        assert_eq!(read(b"a\nbc"), (b"a\n".to_vec(), 2, End::Cut(2)));
        assert_eq!(read(b""), (Vec::new(), 0, End::Whole));
        let mut long = b"first\n".to_vec();
        long.resize(3 * BLOCK, b'x');
        long.extend_from_slice(b"\nlast\n");
        let (text, _, end) = read(&long);
        assert_eq!((text.as_slice(), end), (&b"first\n?\nlast\n"[..], End::Whole));
    }

    #[test]
    fn a_bomb_is_unpacked_block_by_block_and_can_be_cancelled() {
        let bomb = pack(&vec![b'\n'; 64 << 20]);
        assert!(bomb.len() < 1 << 20, "{}", bomb.len());
        let (_, max, end) = read(&bomb);
        assert_eq!((max, end), (BLOCK, End::Whole));
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&bomb).unwrap();
        let progress = Progress::new();
        let mut seen = 0;
        let ended = blocks(file.path(), &progress, |batch| {
            seen += batch.len();
            progress.cancel();
            Ok(())
        });
        assert!(matches!(ended, Err(ImportError::Cancelled(_))));
        assert!(seen <= 16, "{seen}");
        // A limit below the unpacked size is reported, whatever was read before.
        let limited = Progress::new();
        limited.limit_unpacked(5 << 20);
        let mut bytes = 0;
        let ended = blocks(file.path(), &limited, |batch| {
            bytes += batch.iter().map(Vec::len).sum::<usize>();
            Ok(())
        });
        let error = ended.unwrap_err();
        assert!(
            matches!(error, ImportError::OverLimit { limit, .. } if limit == 5 << 20),
            "{error}"
        );
        assert!(error.to_string().contains("more than 5 MiB") && error.to_string().contains("`--limit 10MiB`"));
        assert!(bytes <= 5 << 20, "{bytes}");
        limited.limit_unpacked(64 << 20);
        assert_eq!(blocks(file.path(), &limited, |_| Ok(())).unwrap(), End::Whole);
        assert_eq!(read_file(file.path(), 1 << 20).unwrap(), None);
        assert_eq!(head(file.path(), 100).unwrap(), vec![b'\n'; 100]);
    }
}
