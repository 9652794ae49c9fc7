//! The bytes of a file that may be packed by gzip.

use super::counting_reader::CountingReader;
use super::decompress::LimitedReader;
use flate2::read::MultiGzDecoder;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use trace_core::progress::Progress;

/// First bytes of a gzip file.
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// Size of each buffer, bytes.
const BUFFER_BYTES: usize = 1 << 16;

/// Whether a file is packed by gzip.
pub(crate) fn is_packed(file: &File) -> bool {
    let mut first = [0; GZIP.len()];
    file.read_exact_at(&mut first, 0).is_ok() && first == GZIP
}

/// Returns a reader of the unpacked bytes of a file. It adds the bytes that it takes from the file to `read`.
pub(crate) fn unpacked(file: File, read: &Arc<AtomicU64>, progress: &Progress) -> Box<dyn Read> {
    let packed = is_packed(&file);
    let counted = BufReader::with_capacity(BUFFER_BYTES, CountingReader::new(file, read));
    match packed {
        true => Box::new(BufReader::with_capacity(
            BUFFER_BYTES,
            LimitedReader::new(MultiGzDecoder::new(counted), progress),
        )),
        false => Box::new(counted),
    }
}

/// Whether an error says that packed bytes are damaged or end early, not that the file cannot be read.
pub(crate) fn is_damage(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput | io::ErrorKind::UnexpectedEof
    )
}
