//! Which text format a file has: each format scores the lines, and the best one wins. An access may stand anywhere in
//! the file, after headers, and between lines of other programs.

use super::log::Log;
use super::score::TextScore;
use super::{ftrace, kernel, mmiotrace, qemu, source, text};
use crate::error::{FilePosition, ImportError};
use std::path::Path;

/// Number of bytes of a file that are scored line by line.
const HEAD: usize = 1 << 16;
/// Number of bytes of a text in which the first access may be.
const SEARCHED: usize = 64 << 20;
/// Number of lines of a text that are scored after the head if they may be accesses.
const MAX_CANDIDATES: usize = 1 << 16;

/// A log format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The kernel's mmiotrace.
    Mmiotrace,
    /// The kernel's ftrace: register accesses of a kernel that traces them, probes of a driver's accessors, or events of
    /// GPU drivers.
    Ftrace,
    /// QEMU's trace of accesses to its devices, as text.
    Qemu,
    /// The same, as a file of QEMU's trace backend `simple`.
    QemuSimple,
}

impl Form {
    /// Text formats.
    const TEXTS: [Self; 3] = [Self::Mmiotrace, Self::Qemu, Self::Ftrace];

    /// Returns the name of the format for messages.
    fn name(self) -> &'static str {
        match self {
            Self::Mmiotrace => "an mmiotrace log",
            Self::Ftrace => "an ftrace log",
            Self::Qemu => "a QEMU trace",
            Self::QemuSimple => "a QEMU trace file",
        }
    }

    /// Returns what the format reads as an access.
    fn accesses(self) -> &'static str {
        match self {
            Self::Mmiotrace => "`R`, `W` and `UNKNOWN` lines",
            Self::Ftrace => {
                "rwmmio_write and rwmmio_post_read, probes of register accessors with their returns, i915_reg_rw, \
                 xe_reg_rw, amdgpu_device_rreg and _wreg, and job events of GPU drivers and of the DRM scheduler"
            }
            Self::Qemu | Self::QemuSimple => {
                "memory_region_ops_read and _write, vfio_region_read and _write, vfio_pci_read_config and _write_config"
            }
        }
    }
}

/// The scores of the text formats, in the order of [`Form::TEXTS`].
type Scores = [TextScore; 3];

fn add(scores: &mut Scores, number: u64, line: &[u8]) {
    let [mmiotrace, qemu, ftrace] = scores;
    mmiotrace.add(number, mmiotrace::score(line));
    qemu.add(number, qemu::score(line));
    ftrace.add(number, kernel::score(line));
}

/// Returns the format with the best score, or `None` if no line fits any. A format without accesses has at least half of
/// the `lines`: a kernel log may hold a few lines of a tracer, and is another format.
fn best(scores: &Scores, lines: u64) -> Option<Form> {
    let all = Form::TEXTS.into_iter().zip(scores);
    let has_most = |s: &TextScore| {
        let own = s.frames.saturating_add(s.starts);
        own > 0 && own.saturating_mul(2) >= lines
    };
    let fitting = all.filter(|(_, s)| s.accesses > 0 || s.near.is_some() || has_most(s));
    // The first of equal ones.
    fitting.rev().max_by_key(|(_, s)| s.rank()).map(|(form, _)| form)
}

/// Whether a line after the head may be an access: a cheap test for texts of many megabytes.
fn may_be_access(line: &[u8]) -> bool {
    match line {
        [b'R' | b'W', b' ', ..] => true,
        _ => {
            memchr::memmem::find(line, b"_ops_").is_some()
                || memchr::memmem::find(line, b"vfio_").is_some()
                || memchr::memchr(b'[', line).is_some() && memchr::memmem::find(line, b": ").is_some()
        }
    }
}

/// Detects the format of a log. Returns `None` if it is no log, or cannot be read.
pub(super) fn detect(path: &Path) -> Option<Form> {
    if !path.is_file() {
        return None;
    }
    let head = source::head(path, HEAD).ok()?;
    if qemu::is_simple(&head) {
        return Some(Form::QemuSimple);
    }
    let mut scores = Scores::default();
    let is_whole = head.len() < HEAD;
    let mut lines = 0;
    for (number, line) in (1u64..).zip(text::lines(&head)) {
        lines += u64::from(!ftrace::is_frame(line));
        add(&mut scores, number, line);
    }
    if is_whole || scores.iter().any(|s| s.accesses > 0) || memchr::memchr(0, &head).is_some() {
        return best(&scores, lines);
    }
    // The head has no access: there are other events or other lines in front of the first.
    let text = source::head(path, SEARCHED).ok()?;
    let candidates = text::lines(text.get(head.len()..)?).filter(|l| may_be_access(l));
    for line in candidates.take(MAX_CANDIDATES) {
        let mut further = Scores::default();
        add(&mut further, 1, line);
        if further.iter().any(|s| s.accesses > 0) {
            return best(&further, 1);
        }
    }
    best(&scores, lines)
}

/// Returns the error for a log of a format without an access: it names the format, a line that is close to an access,
/// and what that line lacks.
pub(super) fn explain(path: &Path, form: Form, log: &Log) -> ImportError {
    let (lines, _) = log.lines();
    let mut scores = Scores::default();
    if let Ok(text) = source::head(path, SEARCHED) {
        for (number, line) in (1u64..).zip(text::lines(&text)).take(MAX_CANDIDATES) {
            add(&mut scores, number, line);
        }
    }
    let mut of_text = Form::TEXTS.into_iter().zip(scores);
    let near = of_text.find(|(f, _)| *f == form).and_then(|(_, s)| s.near.or(s.start));
    let name = form.name();
    let (place, what) = match near {
        Some((line, missing)) => (
            FilePosition::Line(line),
            format!("this line of {name} lacks {missing}, and no other line is an access ({lines} lines read)"),
        ),
        None => {
            let others = match &log.others {
                Some(others) => format!("; its other events are {others}"),
                None => String::new(),
            };
            let message = format!(
                "no line of it is an access ({lines} lines read): it is {name}, of which these are read: {}{others}",
                form.accesses()
            );
            (FilePosition::Whole, message)
        }
    };
    ImportError::malformed(path, place, what)
}
