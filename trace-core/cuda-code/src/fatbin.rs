//! Fatbins: several pieces of code for several architectures in one image.
//!
//! An image is a header of 16 bytes and entries without gaps, each with a header of its own and its code, stored or
//! compressed, filled up to eight bytes. Entries are walked by their headers alone; code is unpacked when it is asked
//! for. Images may follow each other, as in the section `.nv_fatbin` of a program; a driver reads one.

mod entry;
mod unpack;

pub use entry::{Compression, Entry, Flags, Kind};

use crate::{Arch, Capability, Error, Form, choose, read};

/// First four bytes of a wrapper, as a number.
pub const WRAPPER_MAGIC: u32 = 0x4662_43b1;
/// Bytes of a wrapper on a 64-bit host.
pub const WRAPPER_BYTES: usize = 24;
/// First four bytes of an image, as a number.
pub const MAGIC: u32 = 0xba55_ed50;
/// Bytes that [`Header::of`] needs to tell how long an image is.
pub const HEADER_BYTES: usize = 16;

/// What a compiled program hands to the runtime (`__fatBinC_Wrapper_t`): where its fatbin is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wrapper {
    /// 1, or 2 where the code was linked on the device side.
    pub version: u32,
    /// Address of the image in the memory of the process.
    pub data: u64,
    /// With version 1 the address of a file's name or 0; with version 2 that of a list, ended by 0, of the addresses
    /// of the images that were linked.
    pub more: u64,
}

impl Wrapper {
    /// Reads the first [`WRAPPER_BYTES`] of `bytes`.
    ///
    /// # Errors
    /// [`Error::Short`] for fewer bytes, [`Error::Field`] where they do not begin with [`WRAPPER_MAGIC`].
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let bytes = read::range(bytes, 0, WRAPPER_BYTES as u64, "the wrapper of a fatbin")?;
        let magic = read::u32(bytes, 0, "magic")?;
        if magic != WRAPPER_MAGIC {
            let (what, expected) = ("the magic of the wrapper", "0x466243b1");
            return Err(Error::Field {
                at: 0,
                what,
                found: magic.into(),
                expected,
            });
        }
        Ok(Self {
            version: read::u32(bytes, 4, "version")?,
            data: read::u64(bytes, 8, "data")?,
            more: read::u64(bytes, 16, "more")?,
        })
    }
}

/// The header of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Version of the format; 1 is the only one known.
    pub version: u16,
    /// Bytes of the header itself: where the first entry begins.
    pub header_bytes: u16,
    /// Bytes of all entries.
    pub payload_bytes: u64,
}

impl Header {
    /// Reads the first [`HEADER_BYTES`] of an image; more bytes need not be there.
    ///
    /// # Errors
    /// [`Error::Short`] for fewer bytes, [`Error::Field`] for another magic or version, a header shorter than its own
    /// fields, or a length beyond 64 bits.
    pub fn parse(prefix: &[u8]) -> Result<Self, Error> {
        Self::at(prefix, 0)
    }

    fn at(bytes: &[u8], at: u64) -> Result<Self, Error> {
        let own = read::range(bytes, at, HEADER_BYTES as u64, "the header of a fatbin")?;
        let magic = read::u32(own, 0, "magic")?;
        if magic != MAGIC {
            let what = "the magic of the fatbin";
            return Err(Error::Field {
                at,
                what,
                found: magic.into(),
                expected: "0xba55ed50",
            });
        }
        let version = read::u16(own, 4, "version")?;
        if version != 1 {
            let what = "the version of the fatbin";
            return Err(Error::Field {
                at: at + 4,
                what,
                found: version.into(),
                expected: "1",
            });
        }
        let header_bytes = read::u16(own, 6, "header size")?;
        if usize::from(header_bytes) < HEADER_BYTES {
            let what = "the header size of the fatbin";
            return Err(Error::Field {
                at: at + 6,
                what,
                found: header_bytes.into(),
                expected: "at least 16",
            });
        }
        let payload_bytes = read::u64(own, 8, "size")?;
        if payload_bytes.checked_add(header_bytes.into()).is_none() {
            let what = "the size of the fatbin";
            return Err(Error::Field {
                at: at + 8,
                what,
                found: payload_bytes,
                expected: "less",
            });
        }
        Ok(Self {
            version,
            header_bytes,
            payload_bytes,
        })
    }

    /// Bytes of the whole image, header and entries.
    pub fn total_bytes(&self) -> u64 {
        // `of` has checked that this fits.
        self.payload_bytes.saturating_add(self.header_bytes.into())
    }
}

/// Bytes of the image that begins with `prefix`, of which [`HEADER_BYTES`] are enough.
///
/// # Errors
/// Those of [`Header::of`].
pub fn total_bytes(prefix: &[u8]) -> Result<u64, Error> {
    Ok(Header::parse(prefix)?.total_bytes())
}

/// One image, with all of its bytes at hand.
#[derive(Clone, Copy, Debug)]
pub struct Fatbin<'a> {
    /// All bytes given, so that offsets in errors count from their start.
    bytes: &'a [u8],
    at: u64,
    header: Header,
}

impl<'a> Fatbin<'a> {
    /// The image that `bytes` begin with; what follows it is left alone, as a driver does.
    ///
    /// # Errors
    /// Those of [`Header::of`]; [`Error::Short`] where the image is longer than `bytes`.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        Self::from_offset(bytes, 0)
    }

    fn from_offset(bytes: &'a [u8], at: u64) -> Result<Self, Error> {
        let header = Header::at(bytes, at)?;
        read::range(bytes, at, header.total_bytes(), "the fatbin")?;
        Ok(Self { bytes, at, header })
    }

    /// Offset of the image in the bytes given.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Its header.
    pub fn header(&self) -> Header {
        self.header
    }

    /// Its entries, in order. The first broken one ends the walk with its error.
    pub fn entries(&self) -> Entries<'a> {
        let at = self.at.saturating_add(self.header.header_bytes.into());
        Entries {
            bytes: self.bytes,
            at,
            end: self.at.saturating_add(self.header.total_bytes()),
        }
    }

    /// The entry that a driver takes on `device`, by the rules of [`choose`]; `None` where no entry runs there.
    ///
    /// # Errors
    /// The error of an entry that cannot be read.
    pub fn choose(&self, device: Capability) -> Result<Option<Entry<'a>>, Error> {
        let mut held = Vec::new();
        for entry in self.entries() {
            let entry = entry?;
            if let Some(form) = entry.form() {
                held.push((form, entry));
            }
        }
        let chosen = choose(held.iter().map(|(form, e)| (*form, e.arch)), device);
        Ok(chosen.and_then(|i| held.get(i)).map(|(_, e)| *e))
    }

    /// What there is code for, in order.
    ///
    /// # Errors
    /// The error of an entry that cannot be read.
    pub fn list_entries(&self) -> Result<Vec<(Form, Arch)>, Error> {
        let mut held = Vec::new();
        for entry in self.entries() {
            let entry = entry?;
            held.extend(entry.form().map(|form| (form, entry.arch)));
        }
        Ok(held)
    }
}

/// Walks the entries of an image.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    bytes: &'a [u8],
    at: u64,
    end: u64,
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<Entry<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.end {
            return None;
        }
        let entry = Entry::at(self.bytes, self.at, self.end);
        self.at = match &entry {
            // Beyond `at` by the header's size at least, and `Entry::at` has checked that it is not beyond `end`.
            Ok(entry) => entry.end(),
            Err(_) => self.end,
        };
        Some(entry)
    }
}

/// The images of `bytes`, one behind the other with zero bytes between them at most. The first broken one ends the
/// walk with its error.
pub fn images(bytes: &[u8]) -> Images<'_> {
    Images { bytes, at: 0 }
}

/// Walks images that follow each other.
#[derive(Clone, Debug)]
pub struct Images<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Iterator for Images<'a> {
    type Item = Result<Fatbin<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.bytes.get(self.at..)?;
        self.at += rest.iter().position(|&b| b != 0)?;
        let image = Fatbin::from_offset(self.bytes, self.at as u64);
        self.at = match &image {
            Ok(image) => usize::try_from(image.at.saturating_add(image.header.total_bytes())).unwrap_or(usize::MAX),
            Err(_) => usize::MAX,
        };
        Some(image)
    }
}
