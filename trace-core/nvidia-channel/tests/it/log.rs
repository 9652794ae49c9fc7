//! Reader of the logs of ioctls and submissions that the tests' data were recorded with.

use std::io::Read;
use std::path::Path;

/// An ioctl: what the program passed, and what the driver returned.
pub struct Ioctl {
    pub path: String,
    pub request: u32,
    pub after: Vec<u8>,
    /// Parameters that the argument points to.
    pub nested_after: Vec<u8>,
}

/// A record that the tests read.
pub enum Record {
    Ioctl(Ioctl),
    Mark,
    Entry { channel: u32, entry: u64 },
    Words(Vec<u8>),
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// Reads a log packed with gzip.
pub fn read(path: &Path) -> Vec<Record> {
    let packed = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut log = Vec::new();
    flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut log).unwrap();
    let mut records = Vec::new();
    let mut at = 0;
    // A record has its kind, its length, a time, a thread and a reserved word before its content.
    while at + 24 <= log.len() {
        let (kind, len) = (u32_at(&log, at), u32_at(&log, at + 4) as usize);
        let body = &log[at + 24..at + 24 + len];
        at += 24 + len;
        match kind {
            3 => {
                let (bytes, nested) = (u32_at(body, 12) as usize, u32_at(body, 16) as usize);
                let name = body[40..64].split(|b| *b == 0).next().unwrap();
                let parts = &body[64..];
                records.push(Record::Ioctl(Ioctl {
                    path: format!("/dev/{}", String::from_utf8_lossy(name)),
                    request: u64_at(body, 24) as u32,
                    after: parts[bytes..2 * bytes].to_vec(),
                    nested_after: parts[2 * bytes + nested..2 * bytes + 2 * nested].to_vec(),
                }));
            }
            7 => records.push(Record::Mark),
            8 => records.push(Record::Entry {
                channel: u32_at(body, 0),
                entry: u64_at(body, 8),
            }),
            9 => records.push(Record::Words(body[8..].to_vec())),
            _ => {}
        }
    }
    records
}
