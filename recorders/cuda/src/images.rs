//! Code images: the location and length of their bytes, and the part that the device runs.

use crate::process_memory::{HostAddr, read_process_memory};
use cuda_code::{Capability, Form, Image, fatbin};
use trace_core::recording::CodeKind;

/// Maximum size of a module's text, bytes.
const MAX_TEXT: usize = 256 << 20;
/// Maximum size of an image that is read, bytes.
const MAX_IMAGE: u64 = 4 << 30;

/// Location of an image's bytes.
#[derive(Debug)]
pub(crate) enum ImageSource {
    /// Memory that stays unchanged while the process runs, a mapped file: first address and size in bytes.
    Mapped(HostAddr, u64),
    /// A copy, because the program can reuse the memory, or another file can replace this one.
    Copied(Vec<u8>),
    /// Not found, with the reason.
    Missing(String),
}

/// Returns the part of an image that the device runs.
pub(crate) fn extract_code(source: &ImageSource, device: Capability) -> Result<(CodeKind, Vec<u8>), String> {
    let read;
    let bytes: &[u8] = match source {
        ImageSource::Copied(bytes) => bytes,
        ImageSource::Mapped(at, bytes) => {
            let length = usize::try_from(*bytes).map_err(|_| "it is too long".to_owned())?;
            let mut all = vec![0; length];
            if !read_process_memory(*at, &mut all) {
                return Err("its memory is gone".to_owned());
            }
            read = all;
            &read
        }
        ImageSource::Missing(why) => return Err(why.clone()),
    };
    match Image::detect(bytes).code(device) {
        Ok(found) => Ok((
            match found.form {
                Form::Machine => CodeKind::Cubin,
                Form::Ptx => CodeKind::Ptx,
            },
            found.code,
        )),
        Err(e) => Err(e.to_string()),
    }
}

/// Finds the length of an image and whether it stays at its address.
pub(crate) fn find_source(at: HostAddr) -> (ImageSource, String) {
    let nowhere = |why: &str| (ImageSource::Missing(why.to_owned()), "memory".to_owned());
    let mut head = [0u8; 64];
    // A short text can end earlier.
    let known = read_process_memory(at, &mut head)
        || read_process_memory(at, head.get_mut(..fatbin::WRAPPER_BYTES).unwrap_or_default());
    if !known {
        return nowhere("its memory cannot be read");
    }
    let mut image = at;
    if let Ok(wrapper) = fatbin::Wrapper::parse(&head) {
        image = HostAddr::new(wrapper.data);
        if !read_process_memory(image, head.get_mut(..fatbin::HEADER_BYTES).unwrap_or_default()) {
            return nowhere("its container's memory cannot be read");
        }
    }
    let bytes = match image_bytes(image, &head) {
        Some(bytes) if bytes <= MAX_IMAGE => bytes,
        _ => return nowhere("it is not a known container"),
    };
    match mapped_file(image, bytes) {
        Some(path) => (ImageSource::Mapped(image, bytes), path),
        None => {
            let mut all = vec![0; usize::try_from(bytes).unwrap_or(0)];
            if read_process_memory(image, &mut all) {
                (ImageSource::Copied(all), "memory".to_owned())
            } else {
                nowhere("its memory cannot be read")
            }
        }
    }
}

/// Reads an image from a file now: the file can be gone when a function of it is used.
pub(crate) fn read_file(path: &str) -> ImageSource {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let file = std::fs::File::open(path)?;
        if file.metadata()?.len() > MAX_IMAGE {
            return Err(std::io::Error::other("it is too long"));
        }
        std::io::Read::read_to_end(&mut std::io::Read::take(file, MAX_IMAGE), &mut bytes)?;
        Ok(bytes)
    };
    match read() {
        Ok(bytes) => ImageSource::Copied(bytes),
        Err(e) => ImageSource::Missing(format!("{path}: {e}")),
    }
}

/// Returns the size of the image that starts with `head`, in bytes.
fn image_bytes(at: HostAddr, head: &[u8; 64]) -> Option<u64> {
    if let Ok(bytes) = fatbin::total_bytes(head) {
        return Some(bytes);
    }
    let u16_at = |n: usize| Some(u64::from(u16::from_le_bytes(head.get(n..n + 2)?.try_into().ok()?)));
    let u64_at = |n: usize| Some(u64::from_le_bytes(head.get(n..n + 8)?.try_into().ok()?));
    if head.starts_with(b"\x7fELF") {
        // The compiler writes the tables of sections and segments at the end.
        let sections = u64_at(0x28)?.checked_add(u16_at(0x3a)?.checked_mul(u16_at(0x3c)?)?)?;
        let segments = u64_at(0x20)?.checked_add(u16_at(0x36)?.checked_mul(u16_at(0x38)?)?)?;
        return Some(sections.max(segments));
    }
    // A text ends with a zero.
    let mut text = 0usize;
    let mut piece = [0u8; 4096];
    while text < MAX_TEXT {
        let from = at.checked_add(text as u64)?;
        // Not beyond the end of the page: the next page can be unmapped.
        let left = 4096 - (from.get() % 4096) as usize;
        let part = piece.get_mut(..left)?;
        if !read_process_memory(from, part) {
            return None;
        }
        match part.iter().position(|b| *b == 0) {
            Some(n) => return Some((text + n) as u64),
            None => text += left,
        }
    }
    None
}

/// Returns the file that backs a mapped range, if its content is the same.
fn mapped_file(at: HostAddr, bytes: u64) -> Option<String> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let end = at.checked_add(bytes)?;
    let address = |word: &str| u64::from_str_radix(word, 16).ok().map(HostAddr::new);
    let mut reached = at;
    let mut path = None;
    for line in maps.lines() {
        let mut words = line.split_whitespace();
        let (from, to) = words.next()?.split_once('-')?;
        let (from, to) = (address(from)?, address(to)?);
        if to <= reached || from > reached {
            continue;
        }
        let rights = words.next()?;
        let file = words.nth(3).filter(|p| p.starts_with('/'))?;
        if rights.contains('w') {
            return None;
        }
        path.get_or_insert_with(|| file.to_owned());
        reached = to;
        if reached >= end {
            return path;
        }
    }
    None
}
