//! An entry of a fatbin: its header and the location of its code.

use std::borrow::Cow;

use super::unpack;
use crate::{Arch, Error, Form, Variant, read};

/// Minimum size of an entry header with all fields up to its flags, bytes.
const MIN_HEADER: u32 = 48;
/// Size of a header that has the unpacked size, bytes.
const HEADER_WITH_SIZE: u32 = 64;

/// The content of an entry. Numbers and names are those of `cuobjdump` 13.5.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// 1: PTX text, terminated by zero bytes.
    Ptx,
    /// 2: a cubin.
    Elf,
    /// 8: NVVM intermediate code, for link-time optimisation.
    Nvvm,
    /// Another number: 4 is a cubin older than ELF, 0x20 an index, 0x40 PTX to be linked, 0x80 tile code, 0x100 several
    /// entries in one.
    Other(u16),
}

/// Flags of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags(pub u64);

impl Flags {
    /// For 64-bit addresses.
    pub const BITS_64: u64 = 0x1;
    /// For a Linux host.
    pub const LINUX: u64 = 0x10;
    /// Compressed by an unknown method.
    pub const COMPRESSED_1000: u64 = 0x1000;
    /// Compressed as one block of LZ4.
    pub const LZ4: u64 = 0x2000;
    /// Compressed by an unknown method.
    pub const COMPRESSED_4000: u64 = 0x4000;
    /// Compressed as one frame of zstd.
    pub const ZSTD: u64 = 0x8000;
    /// Compressed, then scrambled by an unknown method: intermediate code is.
    pub const SCRAMBLED: u64 = 0x1_0000;
    /// For its architecture alone (`sm_90a`).
    pub const EXACT: u64 = 0x10_0000;
    /// For its family (`sm_100f`).
    pub const FAMILY: u64 = 0x20_0000;
    /// The options field holds the section `.nv.compat` of the cubin instead.
    pub const COMPAT: u64 = 0x100_0000;

    /// Whether all bits of `mask` are set.
    pub fn has(self, mask: u64) -> bool {
        self.0 & mask == mask
    }
}

/// How the code of an entry is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Compression {
    /// Uncompressed.
    None,
    /// One block of LZ4, without a frame.
    Lz4,
    /// One frame of zstd.
    Zstd,
    /// Compressed or scrambled by an unknown method.
    Unknown,
}

/// An entry. [`Entry::code`] unpacks its code.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// Offset of its header in the input.
    pub at: u64,
    /// The content.
    pub kind: Kind,
    /// Size of its header, bytes; the stored code follows.
    pub header_bytes: u32,
    /// Size of the stored code with padding, bytes.
    pub padded_bytes: u64,
    /// Size of the compressed code without padding, bytes; 0 if it is not compressed.
    pub compressed_bytes: u32,
    /// Version of the code, major and minor: the language version for PTX; 1 and the ABI version for a cubin.
    pub code_version: (u16, u16),
    /// The target architecture.
    pub arch: Arch,
    /// The flags.
    pub flags: Flags,
    /// Size of the unpacked code, bytes; 0 if it is not compressed.
    pub unpacked_bytes: u64,
    /// Name of the source file, if the compiler that wrote the image knew it.
    pub name: Option<&'a [u8]>,
    /// Options for compiling PTX (`-O1 -dlcm=cg`); with [`Flags::COMPAT`], records of the requirements of the code.
    pub options: Option<&'a [u8]>,
    /// The stored code with padding.
    stored: &'a [u8],
}

impl<'a> Entry<'a> {
    /// Returns the entry at `at`, in an image that ends at `end`.
    pub(super) fn at(bytes: &'a [u8], at: u64, end: u64) -> Result<Self, Error> {
        let left = end.saturating_sub(at);
        // `Fatbin` has checked that `end` is within `bytes`.
        let rest = read::range(bytes, at, left, "an entry")?;
        let fixed = read::range(rest, 0, MIN_HEADER.into(), "the header of an entry").map_err(|e| shift(e, at))?;
        let header_bytes = read::u32(fixed, 4, "header size")?;
        if header_bytes < MIN_HEADER {
            let what = "the header size of an entry";
            return Err(Error::Field {
                at: at + 4,
                what,
                found: header_bytes.into(),
                expected: "at least 48",
            });
        }
        let header = read::range(rest, 0, header_bytes.into(), "the header of an entry").map_err(|e| shift(e, at))?;
        let padded_bytes = read::u64(fixed, 8, "size")?;
        let stored = read::range(rest, header_bytes.into(), padded_bytes, "the code of an entry");
        let stored = stored.map_err(|e| shift(e, at))?;
        let flags = Flags(read::u64(fixed, 40, "flags")?);
        let variant = match (flags.has(Flags::EXACT), flags.has(Flags::FAMILY)) {
            (true, _) => Variant::Exact,
            (false, true) => Variant::Family,
            (false, false) => Variant::Plain,
        };
        let kind = match read::u16(fixed, 0, "kind")? {
            1 => Kind::Ptx,
            2 => Kind::Elf,
            8 => Kind::Nvvm,
            other => Kind::Other(other),
        };
        let unpacked_bytes = match header_bytes {
            HEADER_WITH_SIZE.. => read::u64(header, 56, "unpacked size")?,
            _ => 0,
        };
        Ok(Self {
            at,
            kind,
            header_bytes,
            padded_bytes,
            compressed_bytes: read::u32(fixed, 16, "compressed size")?,
            code_version: (read::u16(fixed, 26, "major")?, read::u16(fixed, 24, "minor")?),
            arch: Arch {
                number: read::u32(fixed, 28, "architecture")?,
                variant,
            },
            flags,
            unpacked_bytes,
            name: text(
                header,
                read::u32(fixed, 32, "name")?,
                read::u32(fixed, 36, "length of the name")?,
            ),
            options: options(header, read::u32(fixed, 20, "options")?),
            stored,
        })
    }

    /// Returns the offset after the entry.
    pub(super) fn end(&self) -> u64 {
        self.code_at().saturating_add(self.padded_bytes)
    }

    /// Returns the offset of the stored code in the input.
    pub fn code_at(&self) -> u64 {
        self.at.saturating_add(self.header_bytes.into())
    }

    /// Returns the form of the code for a driver that selects code to run, or `None` for code that it does not run.
    pub fn form(&self) -> Option<Form> {
        match self.kind {
            Kind::Ptx => Some(Form::Ptx),
            Kind::Elf => Some(Form::Machine),
            Kind::Nvvm | Kind::Other(_) => None,
        }
    }

    /// Returns how the code is stored.
    pub fn compression(&self) -> Compression {
        let unknown = Flags::COMPRESSED_1000 | Flags::COMPRESSED_4000 | Flags::SCRAMBLED;
        match (self.flags.has(Flags::LZ4), self.flags.has(Flags::ZSTD)) {
            _ if self.flags.0 & unknown != 0 => Compression::Unknown,
            (true, true) => Compression::Unknown,
            (true, false) => Compression::Lz4,
            (false, true) => Compression::Zstd,
            (false, false) => Compression::None,
        }
    }

    /// Returns the code, unpacked if it is compressed. PTX comes without its trailing zero bytes; a stored cubin keeps
    /// its padding to eight bytes.
    ///
    /// # Errors
    ///
    /// [`Error::Short`] if the compressed code is longer than the entry; [`Error::Field`] if its stated unpacked size
    /// is more than [`MAX_CODE_BYTES`](crate::MAX_CODE_BYTES), or more than its bytes can give; [`Error::Unpack`] if it
    /// does not unpack, or to another size than the header gives.
    pub fn code(&self) -> Result<Cow<'a, [u8]>, Error> {
        let stored = match self.compression() {
            Compression::None => Cow::Borrowed(self.stored),
            method => {
                let packed = read::range(self.stored, 0, self.compressed_bytes.into(), "compressed code");
                let packed = packed.map_err(|e| shift(e, self.code_at()))?;
                Cow::Owned(unpack::unpack(
                    method,
                    packed,
                    self.unpacked_bytes,
                    self.at,
                    self.code_at(),
                )?)
            }
        };
        Ok(if self.kind == Kind::Ptx {
            without_zeros(stored)
        } else {
            stored
        })
    }
}

/// Removes the trailing zero bytes of PTX text.
fn without_zeros(code: Cow<'_, [u8]>) -> Cow<'_, [u8]> {
    let len = code.iter().rposition(|&b| b != 0).map_or(0, |last| last + 1);
    match code {
        Cow::Borrowed(bytes) => Cow::Borrowed(&bytes[..len]),
        Cow::Owned(mut bytes) => {
            bytes.truncate(len);
            Cow::Owned(bytes)
        }
    }
}

/// Shifts an error by the offset `by` of its part in the input.
fn shift(error: Error, by: u64) -> Error {
    match error {
        Error::Short { at, what, need, left } => Error::Short {
            at: at.saturating_add(by),
            what,
            need,
            left,
        },
        other => other,
    }
}

/// Returns a text in the header of an entry without its trailing zero bytes, if there is one. Old headers use these
/// fields for other data, so a location outside of the header means none.
fn text(header: &[u8], at: u32, len: u32) -> Option<&[u8]> {
    if at < HEADER_WITH_SIZE || len == 0 {
        return None;
    }
    let text = read::range(header, at.into(), len.into(), "text").ok()?;
    let len = text.iter().rposition(|&b| b != 0)? + 1;
    text.get(..len)
}

/// Returns the options. At `at` are an offset from the start of the entry and a length.
fn options(header: &[u8], at: u32) -> Option<&[u8]> {
    if at < HEADER_WITH_SIZE {
        return None;
    }
    let start = read::u32(header, at.into(), "options").ok()?;
    let len = read::u32(header, u64::from(at) + 4, "options").ok()?;
    let options = read::range(header, start.into(), len.into(), "options").ok()?;
    (start >= HEADER_WITH_SIZE && !options.is_empty()).then_some(options)
}
