//! Code of the running kernel: its functions (`/proc/kallsyms`), and their instructions as they run (`/proc/kcore`, an
//! ELF core file of its memory).

use crate::kernel::Kernel;
use crate::modules;
use std::io;

const SYMBOLS: &str = "/proc/kallsyms";
/// File of the kernel's memory.
pub(crate) const CORE: &str = "/proc/kcore";
/// Size of an ELF64 file header, and of an entry of its segment table, bytes.
const HEAD: usize = 64;
const SEGMENT: usize = 56;
/// Maximum number of segments: the kernel has only a few.
const MAX_SEGMENTS: usize = 256;
/// Maximum size of a function that is read, bytes.
const MAX_BYTES: u64 = 1 << 16;
/// Maximum number of functions.
const MAX_FUNCTIONS: usize = 1 << 14;

/// A function of the kernel. Its address is a host address: a virtual one of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KernelFunction {
    pub(crate) name: String,
    pub(crate) address: u64,
    pub(crate) bytes: u64,
}

/// Returns the functions of a module, or the functions in kernel and modules whose names match one of the patterns.
pub(crate) fn find_functions(kernel: &dyn Kernel, module: Option<&str>, patterns: &[String]) -> Vec<KernelFunction> {
    let text = kernel.read(SYMBOLS).unwrap_or_default();
    let mut all: Vec<(u64, &str, bool)> = text
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let address = u64::from_str_radix(words.next()?, 16).ok().filter(|a| *a != 0)?;
            let kind = words.next()?;
            let name = words.next()?;
            let of = words.next().and_then(|m| m.strip_prefix('[')?.strip_suffix(']'));
            let wanted = match patterns {
                [] => of.is_some() && of == module,
                all => all.iter().any(|p| modules::is_match(p.as_bytes(), name.as_bytes())),
            };
            Some((address, name, wanted && matches!(kind, "t" | "T")))
        })
        .collect();
    all.sort_by_key(|(address, ..)| *address);
    let mut found = Vec::new();
    for (n, (address, name, _)) in all.iter().enumerate().filter(|(_, s)| s.2) {
        // A function ends at the next symbol; several symbols can have the same address.
        let next = all.get(n..).unwrap_or_default().iter().find(|s| s.0 > *address);
        let bytes = next.map_or(MAX_BYTES, |s| s.0 - address).min(MAX_BYTES);
        if found.last().is_some_and(|f: &KernelFunction| f.address == *address) || found.len() >= MAX_FUNCTIONS {
            continue;
        }
        found.push(KernelFunction {
            name: (*name).to_owned(),
            address: *address,
            bytes,
        });
    }
    found
}

/// Segments of the kernel's memory: first host address, size in bytes, and offset in the file.
#[derive(Debug, Default)]
pub(crate) struct KernelCore(Vec<(u64, u64, u64)>);

impl KernelCore {
    /// Reads the segment table.
    ///
    /// # Errors
    /// Returns an error if the kernel has no such file, or if its format is unknown.
    pub(crate) fn open(kernel: &dyn Kernel) -> io::Result<Self> {
        let wrong = || io::Error::new(io::ErrorKind::InvalidData, "it is not a 64-bit ELF core file");
        let head = kernel.read_bytes_at(CORE, 0, HEAD)?;
        let number = |bytes: &[u8], at: usize, n: usize| {
            let part = bytes.get(at..at.checked_add(n)?)?;
            Some(part.iter().rev().fold(0u64, |v, b| v << 8 | u64::from(*b)))
        };
        if head.get(..6) != Some(&b"\x7fELF\x02\x01"[..]) {
            return Err(wrong());
        }
        let (at, size, count) = (number(&head, 32, 8), number(&head, 54, 2), number(&head, 56, 2));
        let (Some(at), Some(56), Some(count)) = (at, size, count) else {
            return Err(wrong());
        };
        let count = usize::try_from(count).unwrap_or(MAX_SEGMENTS).min(MAX_SEGMENTS);
        let table = kernel.read_bytes_at(CORE, at, count * SEGMENT)?;
        let of = table.chunks_exact(SEGMENT).filter_map(|s| {
            let loads = number(s, 0, 4)? == 1;
            let segment = (number(s, 16, 8)?, number(s, 40, 8)?, number(s, 8, 8)?);
            loads.then_some(segment)
        });
        Ok(Self(of.collect()))
    }

    /// Reads memory at a host address.
    ///
    /// # Errors
    /// Returns an error if no segment contains all of it, or if it cannot be read.
    pub(crate) fn read(&self, kernel: &dyn Kernel, address: u64, bytes: u64) -> io::Result<Vec<u8>> {
        let place = self.0.iter().find_map(|(first, size, file)| {
            let inside = address.checked_sub(*first)?;
            (inside.checked_add(bytes)? <= *size).then(|| file.checked_add(inside))?
        });
        let place = place.ok_or(io::ErrorKind::NotFound)?;
        let read = kernel.read_bytes_at(CORE, place, usize::try_from(bytes).unwrap_or(usize::MAX))?;
        match read.len() as u64 == bytes {
            true => Ok(read),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_kernel::FakeKernel;

    #[test]
    fn functions_end_where_the_next_begins() {
        let mut kernel = FakeKernel::default();
        kernel.put(
            SYMBOLS,
            "ffff000000001100 t pl031_read\nffff000000001000 T pl031_set\nffff000000001100 t alias\n\
             ffff000000001180 d data\nffff000000002000 t panfrost_x\t[panfrost]\nnonsense\n0000000000000000 t pl031_zero\n",
        );
        let describe = |module, patterns: &[&str]| {
            let patterns: Vec<String> = patterns.iter().map(|p| (*p).to_owned()).collect();
            let all = find_functions(&kernel, module, &patterns);
            all.into_iter()
                .map(|f| (f.name, f.address & 0xffff, f.bytes))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            describe(None, &["pl031_*"]),
            [("pl031_set".into(), 0x1000, 0x100), ("pl031_read".into(), 0x1100, 0x80)]
        );
        assert_eq!(
            describe(Some("panfrost"), &[]),
            [("panfrost_x".into(), 0x2000, MAX_BYTES)]
        );
        assert!(describe(None, &[]).is_empty());
    }

    #[test]
    fn kernel_memory_is_found_by_elf_segments() {
        let mut kernel = FakeKernel::default();
        let mut file = b"\x7fELF\x02\x01".to_vec();
        file.resize(HEAD, 0);
        file[32] = 64;
        (file[54], file[56]) = (56, 2);
        let mut segment = |kind: u8, offset: u64, address: u64, bytes: u64| {
            let mut s = vec![0; SEGMENT];
            s[0] = kind;
            s[8..16].copy_from_slice(&offset.to_le_bytes());
            s[16..24].copy_from_slice(&address.to_le_bytes());
            s[40..48].copy_from_slice(&bytes.to_le_bytes());
            file.extend(s);
        };
        segment(4, 0, 0, 1 << 40);
        segment(1, 176, 0xffff_0000_0000_1000, 8);
        file.extend(*b"abcdefgh");
        kernel.put_bytes(CORE, file);
        let core = KernelCore::open(&kernel).unwrap();
        assert_eq!(core.read(&kernel, 0xffff_0000_0000_1002, 3).unwrap(), b"cde");
        assert!(core.read(&kernel, 0xffff_0000_0000_1002, 7).is_err());
        assert!(core.read(&kernel, 0, 1).is_err());
        kernel.put(CORE, "no core");
        assert!(KernelCore::open(&kernel).is_err());
    }
}
