//! Reader of the logs of ioctls that a driver answered.

use std::io::Read;
use std::path::Path;

/// An ioctl: what the program passed, and what the driver returned.
pub struct Ioctl {
    pub fd: i32,
    pub uvm: bool,
    pub request: u64,
    pub before: Vec<u8>,
    pub after: Vec<u8>,
    /// Parameters that the argument points to.
    pub nested_before: Vec<u8>,
    pub nested_after: Vec<u8>,
}

/// A record that the tests read.
pub enum Record {
    Open { fd: i32, path: String },
    Close { fd: i32 },
    Ioctl(Ioctl),
    Map { fd: i32, bytes: u64 },
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

fn text(bytes: &[u8]) -> String {
    let text = bytes.split(|b| *b == 0).next().unwrap();
    String::from_utf8_lossy(text).into_owned()
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
            1 => records.push(Record::Open {
                fd: u32_at(body, 0).cast_signed(),
                path: text(&body[16..]),
            }),
            2 => records.push(Record::Close {
                fd: u32_at(body, 0).cast_signed(),
            }),
            3 => {
                let (size, nested) = (u32_at(body, 12) as usize, u32_at(body, 16) as usize);
                let mut parts = &body[64..];
                let mut part = |bytes: usize| {
                    let (part, rest) = parts.split_at(bytes);
                    parts = rest;
                    part.to_vec()
                };
                records.push(Record::Ioctl(Ioctl {
                    fd: u32_at(body, 0).cast_signed(),
                    uvm: u32_at(body, 20) != 0,
                    request: u64_at(body, 24),
                    before: part(size),
                    after: part(size),
                    nested_before: part(nested),
                    nested_after: part(nested),
                }));
            }
            4 => records.push(Record::Map {
                fd: u32_at(body, 40).cast_signed(),
                bytes: u64_at(body, 8),
            }),
            _ => {}
        }
    }
    records
}
