//! Fatbins: several pieces of code for several architectures in one image.
//!
//! An image is a header of 16 bytes, followed by entries without gaps. Each entry has its own header and its code,
//! stored or compressed, padded to eight bytes. The iterator reads only the entry headers; code is unpacked on request.
//! Several images may follow each other, as in the section `.nv_fatbin` of a program; a driver reads one.

mod entry;
mod unpack;

pub use entry::{Compression, Entry, Flags, Kind};

use crate::{Arch, Capability, Error, Form, choose, read};

/// First four bytes of a wrapper, as a number.
pub const WRAPPER_MAGIC: u32 = 0x4662_43b1;
/// Size of a wrapper on a 64-bit host, bytes.
pub const WRAPPER_BYTES: usize = 24;
/// First four bytes of an image, as a number.
pub const MAGIC: u32 = 0xba55_ed50;
/// Number of bytes that [`Header::parse`] needs to find the size of an image.
pub const HEADER_BYTES: usize = 16;

/// The wrapper that a compiled program passes to the runtime (`__fatBinC_Wrapper_t`): it points to the fatbin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wrapper {
    /// 1, or 2 for device-linked code.
    pub version: u32,
    /// Address of the image in the memory of the process.
    pub data: u64,
    /// Version 1: address of a file name, or 0. Version 2: address of a zero-terminated list of the addresses of the
    /// linked images.
    pub more: u64,
}

impl Wrapper {
    /// Reads the first [`WRAPPER_BYTES`] of `bytes`.
    ///
    /// # Errors
    /// [`Error::Short`] for fewer bytes, [`Error::Field`] if they do not start with [`WRAPPER_MAGIC`].
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
    /// Version of the format; only 1 is known.
    pub version: u16,
    /// Size of the header, bytes: the offset of the first entry.
    pub header_bytes: u16,
    /// Size of all entries, bytes.
    pub payload_bytes: u64,
}

impl Header {
    /// Reads the first [`HEADER_BYTES`] of an image; more bytes are not needed.
    ///
    /// # Errors
    ///
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

    /// Returns the size of the whole image with header and entries, bytes.
    pub fn total_bytes(&self) -> u64 {
        // `parse` has checked that this fits.
        self.payload_bytes.saturating_add(self.header_bytes.into())
    }
}

/// Returns the size in bytes of the image that starts with `prefix`. [`HEADER_BYTES`] of it are enough.
///
/// # Errors
///
/// Same as [`Header::parse`].
pub fn total_bytes(prefix: &[u8]) -> Result<u64, Error> {
    Ok(Header::parse(prefix)?.total_bytes())
}

/// An image whose bytes are all available.
#[derive(Clone, Copy, Debug)]
pub struct Fatbin<'a> {
    /// The whole input: offsets in errors count from its start.
    bytes: &'a [u8],
    at: u64,
    header: Header,
}

impl<'a> Fatbin<'a> {
    /// Parses the image at the start of `bytes` and ignores what follows it, as a driver does.
    ///
    /// # Errors
    ///
    /// Same as [`Header::parse`]; [`Error::Short`] if the image is longer than `bytes`.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        Self::from_offset(bytes, 0)
    }

    fn from_offset(bytes: &'a [u8], at: u64) -> Result<Self, Error> {
        let header = Header::at(bytes, at)?;
        read::range(bytes, at, header.total_bytes(), "the fatbin")?;
        Ok(Self { bytes, at, header })
    }

    /// Returns the offset of the image in the input.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Its header.
    pub fn header(&self) -> Header {
        self.header
    }

    /// Returns the entries in order. The first broken entry ends the iteration with its error.
    pub fn entries(&self) -> Entries<'a> {
        let at = self.at.saturating_add(self.header.header_bytes.into());
        Entries {
            bytes: self.bytes,
            at,
            end: self.at.saturating_add(self.header.total_bytes()),
        }
    }

    /// Returns the entry that a driver loads on `device` by the rules of [`choose`], or `None` if no entry runs there.
    ///
    /// # Errors
    ///
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

    /// Lists form and architecture of the code entries, in order.
    ///
    /// # Errors
    ///
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

/// An iterator over the entries of an image.
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
            // At least a header size after `at`; `Entry::at` has checked that it is not after `end`.
            Ok(entry) => entry.end(),
            Err(_) => self.end,
        };
        Some(entry)
    }
}

/// Returns the images of `bytes`, with nothing but zero bytes between them. The first broken image ends the iteration
/// with its error.
pub fn images(bytes: &[u8]) -> Images<'_> {
    Images { bytes, at: 0 }
}

/// An iterator over consecutive images.
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
