//! The lines of a dump that is text, packed or not. A line of a buffer may have hundreds of megabytes.

use crate::error::{FilePosition, ImportError};
use crate::unpacked_file::{is_damage, read_head, unpacked};
use std::borrow::Cow;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use trace_core::progress::Progress;

/// Maximum length of a line in bytes: a buffer of 400 MB.
const MAX_LINE_BYTES: u64 = 512 << 20;

/// A line without its end.
pub(super) struct DumpLine<'l> {
    /// Number of the line, from 1.
    pub number: u64,
    /// The text.
    pub text: &'l [u8],
}

impl<'l> DumpLine<'l> {
    /// Returns the text, with replacements for what is not UTF-8.
    pub(super) fn to_text(&self) -> Cow<'l, str> {
        String::from_utf8_lossy(self.text)
    }
}

/// How the lines of a dump end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LinesEnd {
    /// With a line end.
    Whole,
    /// Early: the reason, and the number of the last line.
    Cut(String, u64),
}

/// A reader of lines.
pub(super) struct DumpLines<'a> {
    from: BufReader<Box<dyn Read + Send>>,
    path: &'a Path,
    progress: &'a Progress,
    /// Number of bytes of the file that were read, compressed ones counted as they are.
    read: Arc<AtomicU64>,
    reported: u64,
    number: u64,
    line: Vec<u8>,
    /// Whether the line is returned again.
    is_repeated: bool,
    end: LinesEnd,
}

impl<'a> DumpLines<'a> {
    fn open(path: &'a Path, progress: &'a Progress) -> Result<Self, ImportError> {
        let io = |e| ImportError::io(path, e);
        let file = File::open(path).map_err(io)?;
        progress.set_total(file.metadata().map_err(io)?.len().max(1));
        let read = Arc::new(AtomicU64::new(0));
        let from = BufReader::with_capacity(1 << 16, unpacked(file, &read, progress));
        Ok(Self {
            from,
            path,
            progress,
            read,
            reported: 0,
            number: 0,
            line: Vec::new(),
            is_repeated: false,
            end: LinesEnd::Whole,
        })
    }

    /// Returns the next line, or `None` after the last one. The last line may be cut: [`DumpLines::end`] tells.
    ///
    /// # Errors
    ///
    /// When the file cannot be read, or the work was cancelled.
    pub(super) fn next_line(&mut self) -> Result<Option<DumpLine<'_>>, ImportError> {
        if std::mem::take(&mut self.is_repeated) {
            return Ok(Some(self.present_line()));
        }
        if self.end != LinesEnd::Whole {
            return Ok(None);
        }
        let read = self.read.load(Ordering::Relaxed);
        self.progress.advance(read - self.reported)?;
        self.reported = read;
        self.line.clear();
        let taken = (&mut self.from).take(MAX_LINE_BYTES).read_until(b'\n', &mut self.line);
        self.number += 1;
        match taken {
            Err(e) if is_damage(&e) => {
                let why = format!("the file cannot be decompressed further: {e}");
                self.end = LinesEnd::Cut(why, self.number);
            }
            Err(e) => return Err(ImportError::io(self.path, e)),
            Ok(_) if self.line.is_empty() => return Ok(None),
            Ok(_) if self.line.last() != Some(&b'\n') => {
                let why = match self.line.len() as u64 >= MAX_LINE_BYTES {
                    true => "the line is too long for a dump; the rest of the file is not used",
                    false => "the file ends inside of the line",
                };
                self.end = LinesEnd::Cut(why.to_owned(), self.number);
            }
            Ok(_) => {}
        }
        let is_nothing = self.line.is_empty() && self.end != LinesEnd::Whole;
        Ok((!is_nothing).then(|| self.present_line()))
    }

    fn present_line(&self) -> DumpLine<'_> {
        let text = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        DumpLine {
            number: self.number,
            text,
        }
    }

    /// Returns the number of lines so far.
    pub(super) fn count(&self) -> u64 {
        self.number
    }

    /// Returns how the lines ended.
    pub(super) fn end(&self) -> &LinesEnd {
        &self.end
    }

    /// Opens a dump, and skips the lines before the first one for which `is_heading` is true; that line is returned
    /// next. Returns the number of skipped lines too, of those that are not empty and not the `---` of YAML.
    ///
    /// # Errors
    ///
    /// When no line is a heading, with the message `missing`; otherwise the same as [`DumpLines::next_line`].
    pub(super) fn open_at(
        path: &'a Path,
        progress: &'a Progress,
        is_heading: impl Fn(&str) -> bool,
        missing: &str,
    ) -> Result<(Self, u64), ImportError> {
        let mut lines = Self::open(path, progress)?;
        let mut skipped = 0;
        while let Some(line) = lines.next_line()? {
            let text = line.to_text();
            if is_heading(&text) {
                lines.is_repeated = true;
                return Ok((lines, skipped));
            }
            skipped += u64::from(!matches!(text.trim(), "" | "---"));
        }
        Err(ImportError::malformed(path, FilePosition::Whole, missing))
    }
}

/// Whether a line of the first bytes of a file satisfies `is_heading`.
pub(super) fn head_has_line(path: &Path, is_heading: impl FnMut(&str) -> bool) -> bool {
    let head = path
        .is_file()
        .then(|| read_head(path, super::HEAD_BYTES).ok())
        .flatten();
    let head = head.unwrap_or_default();
    // Text alone: a binary file may hold the words of a heading.
    if head.contains(&0) {
        return false;
    }
    String::from_utf8_lossy(&head).lines().any(is_heading)
}
