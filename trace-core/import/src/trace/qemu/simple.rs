//! Files of QEMU's trace backend `simple`: binary records of events, with the names of the events in the file.
//!
//! A file begins with three words of 64 bits: all ones, a magic number and the version, 4. Records follow, each after
//! its type, a word of 64 bits. Type 0 names an event: id (64 bits), length of the name (32 bits), name. Type 1 is an
//! event: id and nanoseconds (64 bits each), length with this head and thread (32 bits each), and the arguments. A
//! number is a word of 64 bits, and a text is its length (32 bits) and its bytes.
//!
//! Versions 2 and 3 have events alone, without types: the id of an event is its line in the list of the build
//! ([`super::event_list`]). Version 2 has no thread. Version 0 has events with six numbers, and is older than all events
//! that are read. Sources: QEMU's `docs/devel/tracing.rst`, `trace/simple.c` and `scripts/simpletrace.py`, of several
//! versions.

use super::super::names::Names;
use super::super::text::mask;
use super::event_list::DeclaredEvent;
use super::line::{CONFIG_REGION, Item, QemuEvent};
use std::collections::HashMap;
use std::io::{self, Read};

/// First word and magic number of a file.
const HEAD: u64 = u64::MAX;
const MAGIC: u64 = 0xf2b1_77cb_0aa4_29b4;
/// The version that names its events, and those that number them by a list.
pub(super) const VERSION: u64 = 4;
pub(super) const NUMBERED_VERSIONS: std::ops::RangeInclusive<u64> = 2..=3;
/// The version whose events have threads.
const VERSION_WITH_THREADS: u64 = 3;
/// Bytes of the head of a file.
pub(super) const HEAD_BYTES: usize = 24;
/// Id of the record that counts lost events.
const DROPPED: u64 = u64::MAX - 1;
/// Types of records.
const NAME_RECORD: u64 = 0;
const EVENT_RECORD: u64 = 1;
/// Bytes of the head of an event.
const EVENT_HEAD: u32 = 24;
/// Maximum size of the arguments of an event, and of a name, bytes.
const MAX_ARGUMENTS: u32 = 1 << 16;
const MAX_NAME: u32 = 1024;
/// Maximum number of named events.
const MAX_EVENTS: usize = 1 << 16;

/// The order of the bytes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ByteOrder {
    Little,
    Big,
}

/// An event that is read, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EventName {
    /// `cpu`: the first argument is the number of the CPU.
    Region {
        write: bool,
        cpu: bool,
    },
    Vfio {
        write: bool,
    },
    VfioConfig {
        write: bool,
    },
    VfioSetup,
    VfioMsi,
    Other,
}

/// A record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Record {
    Item(Item),
    /// Events are missing: their number.
    Lost(u64),
    /// An event that is not read.
    Other,
    /// An event with other arguments than known.
    Unusable,
}

/// Returns the version of a file by its first bytes, or `None` if it is no such file.
pub(super) fn version(head: &[u8]) -> Option<u64> {
    Some(parse_head(head)?.1)
}

fn parse_head(head: &[u8]) -> Option<(ByteOrder, u64)> {
    let word = |at: usize| -> Option<[u8; 8]> { head.get(at..at + 8)?.try_into().ok() };
    let (first, magic, version) = (word(0)?, word(8)?, word(16)?);
    match (u64::from_le_bytes(first), u64::from_le_bytes(magic)) {
        (HEAD, MAGIC) => Some((ByteOrder::Little, u64::from_le_bytes(version))),
        (HEAD, other) if other.swap_bytes() == MAGIC => Some((ByteOrder::Big, u64::from_be_bytes(version))),
        _ => None,
    }
}

/// A reader of the records of a file.
pub(super) struct SimpleReader<R> {
    from: R,
    order: ByteOrder,
    version: u64,
    names: HashMap<u64, EventName>,
    /// Position in the file.
    at: u64,
}

impl<R: Read> SimpleReader<R> {
    /// Returns a reader of the records after the head, or `None` if it is no such file.
    pub(super) fn new(mut from: R) -> io::Result<Option<Self>> {
        let mut head = [0; HEAD_BYTES];
        from.read_exact(&mut head)?;
        Ok(parse_head(&head).map(|(order, version)| Self {
            from,
            order,
            version,
            names: HashMap::new(),
            at: HEAD_BYTES as u64,
        }))
    }

    /// Sets the events of a file that does not name them, by number.
    pub(super) fn set_events(&mut self, list: &[DeclaredEvent]) {
        let named = (0u64..).zip(list);
        self.names = named
            .map(|(id, e)| match event_name(&e.name) {
                EventName::Region { write, .. } => {
                    let cpu = e.first_argument == b"cpu_index";
                    (id, EventName::Region { write, cpu })
                }
                name => (id, name),
            })
            .filter(|(_, name)| *name != EventName::Other)
            .collect();
    }

    /// Returns the position in the file, bytes.
    pub(super) fn position(&self) -> u64 {
        self.at
    }

    fn bytes<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.from.read_exact(&mut bytes)?;
        self.at += N as u64;
        if self.order == ByteOrder::Big {
            bytes.reverse();
        }
        Ok(bytes)
    }

    fn word(&mut self) -> io::Result<u64> {
        self.bytes().map(u64::from_le_bytes)
    }

    fn half(&mut self) -> io::Result<u32> {
        self.bytes().map(u32::from_le_bytes)
    }

    fn content(&mut self, bytes: u32, max: u32) -> io::Result<Vec<u8>> {
        if bytes > max {
            let message = format!("a record has {bytes} bytes, but at most {max} are possible");
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        let mut content = vec![0; bytes as usize];
        self.from.read_exact(&mut content)?;
        self.at += u64::from(bytes);
        Ok(content)
    }

    /// Returns the next event, or `None` at the end of the file.
    ///
    /// # Errors
    ///
    /// When the file cannot be read, ends in a record (`UnexpectedEof`), or a record is malformed (`InvalidData`).
    pub(super) fn next(&mut self, names: &mut Names) -> io::Result<Option<Record>> {
        loop {
            let mut first = [0];
            if self.from.read(&mut first)? == 0 {
                return Ok(None);
            }
            let rest: [u8; 7] = {
                let mut rest = [0; 7];
                self.from.read_exact(&mut rest)?;
                rest
            };
            self.at += 8;
            let mut kind = [0; 8];
            for (to, from) in kind.iter_mut().zip(first.into_iter().chain(rest)) {
                *to = from;
            }
            if self.order == ByteOrder::Big {
                kind.reverse();
            }
            let kind = u64::from_le_bytes(kind);
            if self.version != VERSION {
                return self.event(kind, names).map(Some);
            }
            match kind {
                NAME_RECORD => {
                    let id = self.word()?;
                    let bytes = self.half()?;
                    let name = self.content(bytes, MAX_NAME)?;
                    if self.names.len() < MAX_EVENTS {
                        self.names.insert(id, event_name(&name));
                    }
                }
                EVENT_RECORD => {
                    let id = self.word()?;
                    return self.event(id, names).map(Some);
                }
                other => {
                    let message = format!("a record has the unknown type {other:#x}");
                    return Err(io::Error::new(io::ErrorKind::InvalidData, message));
                }
            }
        }
    }

    fn event(&mut self, id: u64, names: &mut Names) -> io::Result<Record> {
        let time = self.word()?;
        let (length, thread) = (self.half()?, self.half()?);
        let thread = if self.version < VERSION_WITH_THREADS { 0 } else { thread };
        let arguments = self.content(length.saturating_sub(EVENT_HEAD), MAX_ARGUMENTS)?;
        let arguments = Arguments {
            rest: &arguments,
            order: self.order,
        };
        if id == DROPPED {
            let mut arguments = arguments;
            return Ok(Record::Lost(arguments.number().unwrap_or(0)));
        }
        let name = self.names.get(&id).copied().unwrap_or(EventName::Other);
        if name == EventName::Other {
            return Ok(Record::Other);
        }
        Ok(match parse_event(name, arguments, names) {
            Some(event) => Record::Item(Item {
                time: Some(time),
                thread,
                event,
            }),
            None => Record::Unusable,
        })
    }
}

fn event_name(name: &[u8]) -> EventName {
    match name {
        b"memory_region_ops_read" => EventName::Region {
            write: false,
            cpu: true,
        },
        b"memory_region_ops_write" => EventName::Region { write: true, cpu: true },
        b"vfio_region_read" => EventName::Vfio { write: false },
        b"vfio_region_write" => EventName::Vfio { write: true },
        b"vfio_pci_read_config" => EventName::VfioConfig { write: false },
        b"vfio_pci_write_config" => EventName::VfioConfig { write: true },
        b"vfio_region_setup" => EventName::VfioSetup,
        b"vfio_msi_interrupt" => EventName::VfioMsi,
        _ => EventName::Other,
    }
}

/// The arguments of an event, read from the first.
#[derive(Clone, Copy)]
struct Arguments<'a> {
    rest: &'a [u8],
    order: ByteOrder,
}

impl<'a> Arguments<'a> {
    fn number(&mut self) -> Option<u64> {
        let (bytes, rest) = self.rest.split_first_chunk::<8>()?;
        self.rest = rest;
        Some(match self.order {
            ByteOrder::Little => u64::from_le_bytes(*bytes),
            ByteOrder::Big => u64::from_be_bytes(*bytes),
        })
    }

    fn text(&mut self) -> Option<&'a [u8]> {
        let (bytes, rest) = self.rest.split_first_chunk::<4>()?;
        let length = match self.order {
            ByteOrder::Little => u32::from_le_bytes(*bytes),
            ByteOrder::Big => u32::from_be_bytes(*bytes),
        };
        let (text, rest) = rest.split_at_checked(length as usize)?;
        self.rest = rest;
        Some(text)
    }
}

fn parse_event(name: EventName, mut a: Arguments<'_>, names: &mut Names) -> Option<QemuEvent> {
    let width = |bytes: u64| matches!(bytes, 1 | 2 | 4 | 8).then_some(bytes as u8);
    Some(match name {
        EventName::Region { write, cpu } => {
            if cpu {
                a.number()?;
            }
            let (pointer, address, value) = (a.number()?, a.number()?, a.number()?);
            let width = width(a.number()?)?;
            // Older versions do not name the region.
            let name = if a.rest.is_empty() { &b""[..] } else { a.text()? };
            QemuEvent::Region {
                write,
                address,
                value: value & mask(width),
                width,
                name: names.number(name),
                pointer,
            }
        }
        EventName::Vfio { write } => {
            let device = a.text()?;
            let (region, offset, one, other) = (a.number()?, a.number()?, a.number()?, a.number()?);
            let (value, size) = if write { (one, other) } else { (other, one) };
            let width = width(size)?;
            QemuEvent::Vfio {
                device: names.number(device),
                region: u8::try_from(region).ok()?,
                write,
                offset,
                value: value & mask(width),
                width,
            }
        }
        EventName::VfioConfig { write } => {
            let device = a.text()?;
            let (offset, one, other) = (a.number()?, a.number()?, a.number()?);
            let (value, size) = if write { (one, other) } else { (other, one) };
            let width = width(size)?;
            QemuEvent::Vfio {
                device: names.number(device),
                region: CONFIG_REGION,
                write,
                offset,
                value: value & mask(width),
                width,
            }
        }
        EventName::VfioSetup => {
            let device = a.text()?;
            let region = a.number()?;
            a.text()?;
            let (_flags, _offset, bytes) = (a.number()?, a.number()?, a.number()?);
            QemuEvent::VfioSize {
                device: names.number(device),
                region: u8::try_from(region).ok()?,
                bytes,
            }
        }
        EventName::VfioMsi => QemuEvent::VfioInterrupt {
            device: names.number(a.text()?),
            vector: u32::try_from(a.number()?).ok()?,
        },
        EventName::Other => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(id: u64, name: &str) -> Vec<u8> {
        let mut bytes = [NAME_RECORD.to_le_bytes(), id.to_le_bytes()].concat();
        bytes.extend((name.len() as u32).to_le_bytes());
        bytes.extend(name.as_bytes());
        bytes
    }

    fn event(id: u64, arguments: &[u8]) -> Vec<u8> {
        let mut bytes = [EVENT_RECORD.to_le_bytes(), id.to_le_bytes(), 5000u64.to_le_bytes()].concat();
        bytes.extend((EVENT_HEAD + arguments.len() as u32).to_le_bytes());
        bytes.extend(77u32.to_le_bytes());
        bytes.extend(arguments);
        bytes
    }

    fn words(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|w| w.to_le_bytes()).collect()
    }

    fn text(text: &str) -> Vec<u8> {
        [&(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat()
    }

    #[test]
    fn records_are_read_by_the_names_in_the_file() {
        let file = [
            words(&[HEAD, MAGIC, VERSION]),
            named(7, "memory_region_ops_write"),
            named(9, "vfio_region_read"),
            named(10, "apic_mem_writel"),
            event(
                7,
                &[words(&[0, 0x55, 0xfebf_0010, 0x1_0000_0033, 4]), text("ati.mmregs")].concat(),
            ),
            event(10, &words(&[1, 2])),
            event(DROPPED, &words(&[12])),
            event(9, &[text("0000:09:00.0"), words(&[0, 0x500, 4, 0xff0000])].concat()),
            event(9, &words(&[1])),
        ]
        .concat();
        assert_eq!(version(&file), Some(4));
        let mut names = Names::default();
        let mut reader = SimpleReader::new(&file[..]).unwrap().unwrap();
        let mut records = Vec::new();
        while let Some(record) = reader.next(&mut names).unwrap() {
            records.push(record);
        }
        assert_eq!(reader.position(), file.len() as u64);
        let item = |event| {
            Record::Item(Item {
                time: Some(5000),
                thread: 77,
                event,
            })
        };
        let write = QemuEvent::Region {
            write: true,
            address: 0xfebf_0010,
            value: 0x33,
            width: 4,
            name: 0,
            pointer: 0x55,
        };
        let read = QemuEvent::Vfio {
            device: 1,
            region: 0,
            write: false,
            offset: 0x500,
            value: 0xff_0000,
            width: 4,
        };
        assert_eq!(
            records,
            [
                item(write),
                Record::Other,
                Record::Lost(12),
                item(read),
                Record::Unusable
            ]
        );
        // A file that ends in a record, and one with a record that is too long.
        let mut cut = SimpleReader::new(&file[..file.len() - 3]).unwrap().unwrap();
        let error = std::iter::from_fn(|| cut.next(&mut names).transpose()).find_map(Result::err);
        assert_eq!(error.unwrap().kind(), io::ErrorKind::UnexpectedEof);
        let long = [words(&[HEAD, MAGIC, VERSION, EVENT_RECORD, 7, 0]), vec![0xff; 8]].concat();
        let error = SimpleReader::new(&long[..])
            .unwrap()
            .unwrap()
            .next(&mut names)
            .unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert_eq!(version(b"memory_region_ops_write cpu"), None);
    }

    #[test]
    fn records_of_older_versions_are_numbered_by_the_list() {
        let declared = |name: &str, first: &str| DeclaredEvent {
            name: name.into(),
            first_argument: first.into(),
        };
        // Before the region had a name, and before the CPU had a number.
        let list = [declared("bdrv_open", "bs"), declared("memory_region_ops_write", "mr")];
        let untyped = |bytes: Vec<u8>| bytes[8..].to_vec();
        for (version, thread) in [(2, 0), (3, 77)] {
            let file = [
                words(&[HEAD, MAGIC, version]),
                untyped(event(0, &words(&[1]))),
                untyped(event(1, &words(&[0x55, 0xfebf_0010, 0x33, 4]))),
                untyped(event(DROPPED, &words(&[12]))),
                untyped(event(9, &[])),
            ]
            .concat();
            let mut names = Names::default();
            let mut reader = SimpleReader::new(&file[..]).unwrap().unwrap();
            reader.set_events(&list);
            let records: Vec<_> = std::iter::from_fn(|| reader.next(&mut names).unwrap()).collect();
            let write = Record::Item(Item {
                time: Some(5000),
                thread,
                event: QemuEvent::Region {
                    write: true,
                    address: 0xfebf_0010,
                    value: 0x33,
                    width: 4,
                    name: 0,
                    pointer: 0x55,
                },
            });
            assert_eq!(
                records,
                [Record::Other, write, Record::Lost(12), Record::Other],
                "{version}"
            );
        }
    }
}
