//! The bytes of a file that may be packed, also several times over.

use super::counting_reader::CountingReader;
use super::decompress::LimitedReader;
use super::error::ImportError;
use super::packing::Packing;
use super::read_ahead::ReadAhead;
use super::unpack_limit::is_over_limit;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use trace_core::progress::Progress;

/// Size of each buffer, bytes.
const BUFFER_BYTES: usize = 1 << 16;
/// Size of a copied piece, bytes.
const PIECE_BYTES: usize = 1 << 18;
/// Maximum number of packings around each other. A file that is packed more often stays packed.
const MAX_LAYERS: usize = 3;

/// Returns how a file is packed, by its first bytes.
pub(crate) fn packing_of(file: &File) -> Option<Packing> {
    let mut head = [0; Packing::HEAD_BYTES];
    let mut filled = 0;
    while let Some(room) = head.get_mut(filled..).filter(|r| !r.is_empty()) {
        match file.read_at(room, filled as u64) {
            Ok(n) if n > 0 => filled += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            _ => break,
        }
    }
    Packing::detect(head.get(..filled)?)
}

/// Whether a file is packed, by its first bytes.
pub(crate) fn is_packed(file: &File) -> bool {
    packing_of(file).is_some()
}

/// Whether a path is a packed file.
pub(crate) fn is_packed_path(path: &Path) -> bool {
    path.is_file() && File::open(path).is_ok_and(|file| is_packed(&file))
}

/// Returns a reader of the unpacked bytes of a file, up to the limits of `progress`. It adds the bytes that it takes from
/// the file to `read`. A packed file is unpacked by a thread of its own.
pub(crate) fn unpacked(file: File, read: &Arc<AtomicU64>, progress: &Progress) -> Box<dyn Read + Send> {
    match is_packed(&file) {
        true => Box::new(ReadAhead::new(unpacked_here(file, read, progress))),
        false => unpacked_here(file, read, progress),
    }
}

/// Returns a reader of the unpacked bytes of a file, as [`unpacked`] does, which unpacks on the thread that reads.
pub(crate) fn unpacked_here(file: File, read: &Arc<AtomicU64>, progress: &Progress) -> Box<dyn Read + Send> {
    let packed = is_packed(&file);
    let counted = BufReader::with_capacity(BUFFER_BYTES, CountingReader::new(file, read));
    match packed {
        true => Box::new(LimitedReader::new(unpack_layers(counted), progress).with_ratio(read)),
        false => Box::new(counted),
    }
}

/// Returns a reader of the unpacked bytes of a file, without limits: of the file itself, if it is not packed.
///
/// # Errors
///
/// When the file cannot be opened.
pub fn open_unpacked(path: &Path) -> io::Result<Box<dyn Read + Send>> {
    Ok(unpack_layers(BufReader::with_capacity(BUFFER_BYTES, File::open(path)?)))
}

/// Returns a reader of unpacked bytes without limits, for a caller that takes few of them.
pub(crate) fn unpack_layers(from: impl BufRead + Send + 'static) -> Box<dyn Read + Send> {
    let mut from: Box<dyn BufRead + Send> = Box::new(from);
    for _ in 0..MAX_LAYERS {
        // Damage in the first bytes is reported when they are read.
        let Some(packing) = from.fill_buf().ok().and_then(Packing::detect) else {
            break;
        };
        from = Box::new(BufReader::with_capacity(BUFFER_BYTES, packing.unpack(from)));
    }
    Box::new(from)
}

/// Returns the first unpacked bytes of a file, at most `max`. For a damaged packed file, those before the damage.
///
/// # Errors
///
/// When the file cannot be opened, or a plain file cannot be read.
pub(crate) fn read_head(path: &Path, max: usize) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    let packed = is_packed(&file);
    let mut from: Box<dyn Read> = match packed {
        true => unpack_layers(BufReader::with_capacity(BUFFER_BYTES, file)),
        false => Box::new(file),
    };
    let mut bytes = Vec::new();
    let mut part = vec![0; BUFFER_BYTES.min(max)];
    while bytes.len() < max {
        match from.read(&mut part) {
            Ok(0) => break,
            Ok(n) => bytes.extend_from_slice(part.get(..n).unwrap_or_default()),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(_) if packed => break,
            Err(e) => return Err(e),
        }
    }
    bytes.truncate(max);
    Ok(bytes)
}

/// Whether an error says that packed bytes are damaged or end early, not that the file cannot be read.
pub(crate) fn is_damage(error: &io::Error) -> bool {
    !is_over_limit(error)
        && matches!(
            error.kind(),
            io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput | io::ErrorKind::UnexpectedEof
        )
}

/// Writes all bytes of a reader to a new file. Returns the damage that ended them early, if there is any.
pub(crate) fn copy_to_file(
    mut from: impl Read,
    path: &Path,
    mut each: impl FnMut(u64) -> Result<(), ImportError>,
    progress: &Progress,
) -> Result<Option<String>, ImportError> {
    let io = |e| ImportError::io(path, e);
    let mut file = File::create_new(path).map_err(io)?;
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let read = match from.read(&mut piece) {
            Ok(0) => return Ok(None),
            Ok(read) => read,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) if is_damage(&e) => return Ok(Some(e.to_string())),
            Err(e) => return Err(io(e)),
        };
        file.write_all(piece.get(..read).unwrap_or_default()).map_err(io)?;
        each(read as u64)?;
        progress.check()?;
    }
}
