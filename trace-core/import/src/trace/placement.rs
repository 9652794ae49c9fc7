//! Windows of a device that the user places: by a base address, by a file next to the log, or by a file that an option
//! names. They hold for every format.
//!
//! A file has one of these forms, line by line:
//!
//! ```text
//! 0x00000000fa000000 0x00000000faffffff 0x0000000000040200     /sys/bus/pci/devices/…/resource
//! 01:00.0 VGA compatible controller …                          output of lspci -v
//! fa000000-faffffff : 0000:01:00.0                             /proc/iomem
//! bar0 0xfa000000 0x1000000                                    name, address, size in bytes
//! pci 0000:01:00.0: reg 0x10: [mem 0xfa000000-0xfaffffff]      a kernel's boot log
//! ```

use super::boot_log::BootLogReader;
use super::device::Function;
use super::lspci::LspciReader;
use super::mmio_regions::{Extent, MmioRegions, Owner, REACH};
use super::text::{self, Line};
use super::{ftrace, resource, source};
use crate::error::{FilePosition, ImportError};
use std::path::{Path, PathBuf};

/// Suffix of the file next to a log.
pub(super) const ENDING: &str = ".resource.txt";
/// Names of files that people keep in the folder of a log, as the kernel's documentation of mmiotrace asks for.
const COMPANIONS: [&str; 2] = ["lspci.txt", "dmesg.txt"];
/// Maximum size of a file, bytes.
const MAX_BYTES: u64 = 1 << 22;
/// Maximum number of windows of a file, and of characters of a name.
const MAX_WINDOWS: usize = 1024;
const MAX_NAME: usize = 64;

/// A window without a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PlacedWindow {
    /// Its name; `None`: it is named by its address.
    pub(super) name: Option<String>,
    pub(super) base: u64,
    /// Size in bytes; `None`: it reaches to the last access.
    pub(super) bytes: Option<u64>,
}

/// The windows that the user placed.
#[derive(Clone, Debug, Default)]
pub(super) struct Placement {
    pub(super) functions: Vec<Function>,
    windows: Vec<PlacedWindow>,
}

impl Placement {
    /// Adds a window from an address on, to the last access.
    pub(super) fn add_base(&mut self, base: u64) {
        self.windows.push(PlacedWindow {
            name: None,
            base,
            bytes: None,
        });
    }

    /// Adds the functions and windows of a file.
    ///
    /// # Errors
    ///
    /// When the file cannot be read, is too large, or a line of it is malformed.
    pub(super) fn add_file(&mut self, path: &Path) -> Result<(), ImportError> {
        let bytes = source::read_file(path, MAX_BYTES).map_err(|e| ImportError::io(path, e))?;
        let bytes = bytes.ok_or_else(|| {
            let message = format!("the windows of a device must be smaller than {MAX_BYTES} bytes");
            ImportError::malformed(path, FilePosition::Whole, message)
        })?;
        self.add_text(&bytes).map_err(|(line, message)| {
            let place = line.map_or(FilePosition::Whole, FilePosition::Line);
            ImportError::malformed(path, place, message)
        })
    }

    /// Adds the functions of a text with any other lines in between: the output of `lspci -v`, and a boot log. Functions
    /// that are known get what they lack.
    fn add_functions(&mut self, bytes: &[u8]) {
        let (mut lspci, mut boot) = (LspciReader::default(), BootLogReader::default());
        for line in text::lines(bytes) {
            if !boot.line(line) {
                lspci.line(line);
            }
        }
        for found in lspci.functions().into_iter().chain(boot.functions()) {
            let known = self.functions.iter_mut().find(|f| f.place == found.place);
            match known {
                Some(known) => {
                    if (known.pci.vendor, known.pci.device) == (0, 0) {
                        (known.pci.vendor, known.pci.device) = (found.pci.vendor, found.pci.device);
                    }
                    known.pci.class = known.pci.class.or(found.pci.class);
                    if known.pci.bars.is_empty() {
                        known.pci.bars = found.pci.bars;
                    }
                }
                None => self.functions.push(found),
            }
        }
    }

    /// Adds the functions and windows of a text. The error has the number of the line, and what is wrong.
    fn add_text(&mut self, bytes: &[u8]) -> Result<(), (Option<u64>, &'static str)> {
        let first = text::lines(bytes).find(|l| !l.trim_ascii().is_empty() && !l.starts_with(b"#"));
        if first.is_some_and(resource::is_line) {
            let message = "expected the first and last address of a window and its flags, in hexadecimal";
            let function = resource::parse(bytes).map_err(|line| (Some(line), message))?;
            self.functions.push(function);
            return Ok(());
        }
        if text::lines(bytes).any(|line| BootLogReader::default().line(line)) {
            self.add_functions(bytes);
            self.functions.retain(|f| !f.pci.bars.is_empty());
            let message = "the boot log gives no window of a PCI function";
            return match self.functions.is_empty() {
                true => Err((None, message)),
                false => Ok(()),
            };
        }
        let mut lspci = LspciReader::default();
        let mut windows: Vec<PlacedWindow> = Vec::new();
        for (number, line) in (1u64..).zip(text::lines(bytes)) {
            let trimmed = line.trim_ascii();
            // `lspci` indents what belongs to a function, and prints much more than windows.
            let is_detail = line.starts_with(b"\t") || line.starts_with(b"  ");
            if trimmed.is_empty() || trimmed.starts_with(b"#") || lspci.line(line) {
                continue;
            }
            match window(trimmed) {
                Some(window) if windows.len() < MAX_WINDOWS => windows.push(window),
                Some(_) => return Err((Some(number), "the file has too many windows; at most 1024 are taken")),
                None if is_detail && windows.is_empty() => {}
                None => {
                    let message = "expected a line of `lspci -v`, of /proc/iomem or of a resource file, or a name, an \
                                   address and a size in bytes";
                    return Err((Some(number), message));
                }
            }
        }
        let functions = lspci.functions();
        if functions.is_empty() && windows.is_empty() {
            return Err((None, "the file gives no window"));
        }
        self.functions.extend(functions);
        // Ranges of /proc/iomem contain one another; the inner ones are the devices.
        let inner = windows.iter().filter(|w| !windows.iter().any(|o| contains(w, o)));
        self.windows.extend(inner.cloned());
        Ok(())
    }

    /// Adds the windows to those of a log: the functions by their index, and names to a list.
    pub(super) fn add_windows(&self, windows: &mut MmioRegions, names: &mut Vec<String>) {
        let mut placed: Vec<&PlacedWindow> = self.windows.iter().collect();
        // A window without an end leaves room for the others.
        placed.sort_by_key(|w| (w.bytes.is_none(), w.base));
        for w in placed {
            let name = w.name.as_ref().and_then(|name| {
                let number = u16::try_from(names.len()).ok()?;
                names.push(name.clone());
                Some(number)
            });
            let owner = Owner::Placed { name };
            match w.bytes {
                Some(bytes) => windows.add(owner, w.base, bytes, Extent::Fixed),
                None => windows.add(owner, w.base, REACH, Extent::Growing),
            }
        }
        add_bars(&self.functions, windows);
    }
}

/// Returns the files in the folder of a log that may give its windows.
pub(super) fn companion_paths(log: &Path) -> impl Iterator<Item = PathBuf> {
    let paths = COMPANIONS.map(|name| log.with_file_name(name));
    let log = log.to_owned();
    paths.into_iter().filter(move |p| *p != log && p.is_file())
}

/// Reads the windows that files in the folder of a log give, and the names of these files. Returns `None` if there are
/// no such files, or they give no windows.
pub(super) fn read_companions(log: &Path) -> Option<(Placement, Vec<String>)> {
    let mut placement = Placement::default();
    let mut names = Vec::new();
    for path in companion_paths(log) {
        let Ok(Some(bytes)) = source::read_file(&path, MAX_BYTES) else {
            continue;
        };
        let count = |p: &Placement| p.functions.iter().map(|f| f.pci.bars.len()).sum::<usize>();
        let before = count(&placement);
        placement.add_functions(&bytes);
        if count(&placement) > before {
            names.push(path.file_name().unwrap_or_default().to_string_lossy().into_owned());
        }
    }
    placement.functions.retain(|f| !f.pci.bars.is_empty());
    (!placement.functions.is_empty()).then_some((placement, names))
}

/// Adds the memory BARs of functions to the windows of a log.
fn add_bars(functions: &[Function], windows: &mut MmioRegions) {
    for (function, f) in functions.iter().enumerate() {
        for bar in f.pci.bars.iter().filter(|b| !b.ports) {
            let owner = Owner::Bar {
                function,
                bar: bar.number,
            };
            windows.add(owner, bar.base.get(), bar.bytes, Extent::Fixed);
        }
    }
}

/// Whether a window contains another, smaller one.
fn contains(outer: &PlacedWindow, inner: &PlacedWindow) -> bool {
    let last = |w: &PlacedWindow| w.base.saturating_add(w.bytes.unwrap_or(1).saturating_sub(1));
    outer.base <= inner.base && last(inner) <= last(outer) && outer.bytes > inner.bytes
}

/// Parses a line of /proc/iomem, or one with name, address and size in any of the orders `NAME ADDRESS SIZE` and
/// `ADDRESS SIZE [NAME]`.
fn window(line: &[u8]) -> Option<PlacedWindow> {
    let words: Vec<&[u8]> = line
        .split(u8::is_ascii_whitespace)
        .filter(|w| !w.is_empty())
        .take(8)
        .collect();
    let named = |name: &[u8]| {
        let name = String::from_utf8_lossy(name);
        let name: String = name.chars().filter(|c| !c.is_control()).take(MAX_NAME).collect();
        Some(name).filter(|n| !n.is_empty())
    };
    let checked = |name: Option<String>, base: u64, bytes: u64| {
        let is_range = bytes > 0 && base.checked_add(bytes - 1).is_some();
        is_range.then_some(PlacedWindow {
            name,
            base,
            bytes: Some(bytes),
        })
    };
    let first = words.first()?;
    if let Some(dash) = memchr::memchr(b'-', first)
        && let (Some(low), Some(high)) = (text::hex(first.get(..dash)?), text::hex(first.get(dash + 1..)?))
    {
        let name = match words.get(1) {
            Some(&b":") => words.get(2..).map(|w| w.join(&b' ')),
            _ => words.get(1..).map(|w| w.join(&b' ')),
        };
        return checked(
            named(&name.unwrap_or_default()),
            low,
            high.checked_sub(low)?.checked_add(1)?,
        );
    }
    let number = |word: &&[u8]| match word.starts_with(b"0x") {
        true => Line::new(word).hex(),
        false => ftrace::number(word),
    };
    match words[..] {
        [address, size] => checked(None, number(&address)?, number(&size)?),
        [address, size, name] if number(&address).is_some() => checked(named(name), number(&address)?, number(&size)?),
        [name, address, size] => checked(named(name), number(&address)?, number(&size)?),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Name, address and size of a window.
    type Described = (Option<String>, u64, Option<u64>);

    fn windows(text: &str) -> Result<Vec<Described>, Option<u64>> {
        let mut placement = Placement::default();
        placement.add_text(text.as_bytes()).map_err(|e| e.0)?;
        Ok(placement
            .windows
            .into_iter()
            .map(|w| (w.name, w.base, w.bytes))
            .collect())
    }

    #[test]
    fn files_of_windows_have_several_forms() {
        let one = |name: &str, base, bytes| Ok(vec![(Some(name.to_owned()), base, Some(bytes))]);
        assert_eq!(
            windows("bar0 0xfa000000 0x1000000\n"),
            one("bar0", 0xfa00_0000, 0x100_0000)
        );
        assert_eq!(windows("# mine\n0xfa000000 4096 gpu\n"), one("gpu", 0xfa00_0000, 4096));
        assert_eq!(windows("0xfa000000 4096\n"), Ok(vec![(None, 0xfa00_0000, Some(4096))]));
        // Of nested ranges, the inner ones count.
        assert_eq!(
            windows("e0000000-fbffffff : PCI Bus 0000:00\n  fa000000-faffffff : 0000:01:00.0\n"),
            one("0000:01:00.0", 0xfa00_0000, 0x100_0000)
        );
        for (text, line) in [
            ("", None),
            ("what\n", Some(1)),
            ("bar0 0xfa000000 0x1000000\nbar1 0x1\n", Some(2)),
            ("bar0 0xfa000000 0\n", Some(1)),
            ("bar0 0xffffffffffffffff 2\n", Some(1)),
            ("ff-1 : x\n", Some(1)),
        ] {
            assert_eq!(windows(text), Err(line), "{text}");
        }
        let mut placement = Placement::default();
        placement
            .add_text(b"0x10000000 0x10ffffff 0x42208\n0x0 0x0 0x0\n")
            .unwrap();
        assert_eq!(placement.functions[0].pci.bars[0].bytes, 0x100_0000);
        let mut placement = Placement::default();
        placement
            .add_text(b"01:00.0 VGA [10de:2206]\n\tMemory at fa000000 (32-bit) [size=16M]\n\tCapabilities: [60] x\n")
            .unwrap();
        assert_eq!(
            (placement.functions[0].pci.vendor, placement.functions[0].pci.bars.len()),
            (0x10de, 1)
        );
    }
}
