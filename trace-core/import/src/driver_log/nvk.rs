//! Push buffers in the text that Mesa's NVK prints with `NVK_DEBUG=push`: the header words, and for each data word the
//! method and its fields.
//!
//! ```text
//! [0x00000000] HDR 20010000 subch 0 NINC
//!         mthd 0000 NVC3C0_SET_OBJECT
//!                 .CLASS_ID = (0xc3c0)
//!                 .ENGINE_ID = (0x0)
//! ```
//!
//! The number in brackets is the index of the word. A data word is put together from its fields; that works if the
//! fields are a single number (`.V`), or if the fields of the method are known.

use super::log::{DriverLog, LineCount};
use super::scan::{hex, leading_hex};
use nvidia_channel::header::Header;
use nvidia_channel::{ClassTable, FIRST_ENGINE_METHOD, SET_OBJECT};
use trace_core::GpuVa;
use trace_core::finding::FindingKind;
use trace_core::recording::RingEntryRow;

/// Text in each line with a header word.
pub(super) const MARKER: &str = "] HDR ";
/// Maximum number of words of a push buffer, as in a ring entry.
const MAX_WORDS: usize = 1 << 21;
/// Maximum number of fields of a word that are kept.
const MAX_FIELDS: usize = 64;
/// Class of the host methods whose fields all generations share.
const HOST_CLASS: u16 = 0xb06f;

/// Parses a line with a header word: its index and the word.
fn header(line: &str) -> Option<(usize, u32)> {
    let (index, rest) = line.trim().strip_prefix("[0x")?.split_once(MARKER)?;
    let (word, rest) = rest.split_once(' ')?;
    let index = usize::try_from(hex(index)?).ok()?;
    let word = u32::try_from(hex(word)?).ok()?;
    rest.starts_with("subch ").then_some((index, word))
}

/// Whether a line has a header word.
pub(super) fn is_header(line: &str) -> bool {
    header(line).is_some()
}

/// A method of the current header.
#[derive(Debug)]
struct OpenMethod {
    /// Index of its data word; `None` if the header has the value.
    word: Option<usize>,
    class: Option<u16>,
    method: u16,
    /// Names and values of its fields, as printed.
    fields: Vec<(String, String)>,
}

impl OpenMethod {
    /// Parses a line `mthd ADDRESS NAME`; the name begins with `NV` and the class.
    fn parse(line: &str, word: Option<usize>) -> Option<Self> {
        let mut fields = line.trim().strip_prefix("mthd ")?.split_whitespace();
        let method = u16::try_from(hex(fields.next()?)?).ok()?;
        let class = fields
            .next()
            .and_then(|name| leading_hex(name.strip_prefix("NV")?.split_once('_')?.0));
        Some(Self {
            word,
            class: class.and_then(|class| u16::try_from(class).ok()),
            method,
            fields: Vec::new(),
        })
    }

    /// Returns the value, or `None` if the fields do not determine it.
    fn value(&self) -> Option<u32> {
        if let [(name, value)] = &self.fields[..]
            && name == "V"
        {
            return u32::try_from(hex(value)?).ok();
        }
        let of_class = |class: u16| ClassTable::find(class)?.method(self.method);
        let named = self.class.and_then(of_class);
        let named = named.or_else(|| (self.method < FIRST_ENGINE_METHOD).then(|| of_class(HOST_CLASS))?);
        let known = &named?.info.fields;
        if known.is_empty() {
            let [(_, value)] = &self.fields[..] else { return None };
            return u32::try_from(hex(value)?).ok();
        }
        known.iter().try_fold(0u32, |word, field| {
            let is_field = |name: &str| match (self.method, name) {
                // The host and the engines name the fields of this method differently.
                (SET_OBJECT, "CLASS_ID" | "NVCLASS") => matches!(field.name, "CLASS_ID" | "NVCLASS"),
                (SET_OBJECT, "ENGINE_ID" | "ENGINE") => matches!(field.name, "ENGINE_ID" | "ENGINE"),
                _ => name == field.name,
            };
            let (_, text) = self.fields.iter().find(|(name, _)| is_field(name))?;
            let named = field
                .values
                .iter()
                .find(|(_, name)| name == text)
                .map(|(value, _)| u64::from(*value));
            let value = named.or_else(|| hex(text))?;
            let fits = value.checked_shr(field.bits()).unwrap_or(0) == 0;
            let shifted = u32::try_from(value.checked_shl(field.low)?).ok()?;
            fits.then_some(word | shifted)
        })
    }
}

/// A push buffer in the text so far.
#[derive(Debug)]
struct Dump {
    /// Index of the first word.
    first: usize,
    /// The words; those that the text does not determine are `None`.
    words: Vec<Option<u32>>,
    /// Number of data words of the current header that have not begun.
    left: usize,
    method: Option<OpenMethod>,
}

impl Dump {
    /// Sets the data word of the current method.
    fn finish_method(&mut self) {
        if let Some(method) = self.method.take()
            && let Some(word) = method.word.and_then(|at| self.words.get_mut(at))
        {
            *word = method.value();
        }
    }

    /// Ends the data words of the current header.
    fn finish_header(&mut self) {
        self.finish_method();
        let end = self.words.len().saturating_add(std::mem::take(&mut self.left));
        self.words.resize(end, None);
    }
}

/// Push buffers of NVK in a log so far.
#[derive(Debug, Default)]
pub(super) struct Nvk {
    dump: Option<Dump>,
    entries: u32,
    lacking: LineCount,
    lacking_words: u64,
}

impl Nvk {
    /// Whether the log has a push buffer of NVK.
    pub(super) fn has_dump(&self) -> bool {
        self.entries > 0
    }

    /// Handles a line. Returns whether it is part of a push buffer.
    pub(super) fn take(&mut self, line: &str, log: &mut DriverLog) -> bool {
        if let Some((index, word)) = header(line) {
            self.take_header(index, word, log);
            log.mark(line);
            return true;
        }
        let Some(dump) = &mut self.dump else { return false };
        let text = line.trim();
        if let Some((name, value)) = text.strip_prefix('.').and_then(|field| field.split_once(" = ")) {
            let value = value.trim_matches(['(', ')']);
            if let Some(method) = dump.method.as_mut().filter(|m| m.fields.len() < MAX_FIELDS) {
                method.fields.push((name.to_owned(), value.to_owned()));
            }
            log.mark(line);
            return true;
        }
        let word = (dump.left > 0).then_some(dump.words.len());
        let Some(method) = OpenMethod::parse(text, word) else {
            self.finish_dump(log);
            return false;
        };
        dump.finish_method();
        if word.is_some() {
            dump.words.push(None);
            dump.left -= 1;
        }
        dump.method = Some(method);
        log.mark(line);
        true
    }

    fn take_header(&mut self, index: usize, word: u32, log: &mut DriverLog) {
        if let Some(dump) = &mut self.dump {
            dump.finish_header();
            if index != dump.first.saturating_add(dump.words.len()) || dump.words.len() >= MAX_WORDS {
                self.finish_dump(log);
            }
        }
        let dump = self.dump.get_or_insert_with(|| Dump {
            first: index.min(MAX_WORDS),
            words: Vec::new(),
            left: 0,
            method: None,
        });
        dump.words.push(Some(word));
        dump.left = Header::decode(word).map_or(0, Header::data_words);
    }

    /// Adds the push buffer that has ended as a ring entry.
    fn finish_dump(&mut self, log: &mut DriverLog) {
        let Some(mut dump) = self.dump.take() else { return };
        dump.finish_header();
        let words: Vec<u32> = dump.words.iter().copied().flatten().collect();
        let lacking = dump.words.len() - words.len();
        if lacking > 0 {
            self.lacking.add(log.lines());
            self.lacking_words += lacking as u64;
        }
        let row = RingEntryRow {
            va: GpuVa::new(dump.first as u64 * 4),
            bytes: dump.words.len() as u64 * 4,
            index: self.entries,
            ..RingEntryRow::default()
        };
        log.ring_entry(row, (lacking == 0).then_some(&words));
        self.entries = self.entries.saturating_add(1);
    }

    /// Handles the end of the log.
    pub(super) fn finish(&mut self, log: &mut DriverLog) {
        self.finish_dump(log);
        if self.entries == 0 {
            return;
        }
        let message = "NVK prints no addresses and channels: its push buffers are entries of channel 0 at address 0. Data \
                       words are put together from their printed fields";
        log.finding(FindingKind::Assumed, "ring entries", message);
        let what = format!(
            "push buffers up to here have no content: the text does not determine {} of their data words, so they are \
             only marks",
            self.lacking_words
        );
        log.line_finding(FindingKind::NotRecorded, self.lacking, &what);
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_logs::{import_as, messages};
    use super::*;

    const COMPLETE: &str = "\
[0x00000000] HDR 20012000 subch 1 NINC
\tmthd 0000 NVC3C0_SET_OBJECT
\t\t.CLASS_ID = (0xc3c0)
\t\t.ENGINE_ID = (0x1)

[0x00000002] HDR 80052100 subch 1 IMMD
\tmthd 0400 NVC3C0_SOMETHING
\t\t.V = (0x5)

[0x00000003] HDR 2002206c subch 1 NINC
\tmthd 01b0 NVC3C0_LAUNCH_DMA
\t\t.DST_MEMORY_LAYOUT = PITCH
\t\t.REDUCTION_ENABLE = FALSE
\t\t.REDUCTION_FORMAT = UNSIGNED_32
\t\t.COMPLETION_TYPE = FLUSH_DISABLE
\t\t.SYSMEMBAR_DISABLE = TRUE
\t\t.INTERRUPT_TYPE = NONE
\t\t.SEMAPHORE_STRUCT_SIZE = FOUR_WORDS
\t\t.REDUCTION_OP = RED_ADD
\tmthd 01b4 NVC3C0_LOAD_INLINE_DATA
\t\t.V = (0xdeadbeef)

[0x00000006] HDR 20010000 subch 0 NINC
\tmthd 0000 NV9097_SET_OBJECT
\t\t.CLASS_ID = (0x9097)
\t\t.ENGINE_ID = (0x0)
";

    #[test]
    fn words_are_put_together_from_fields() {
        let r = import_as("nouveau-pushbuf", COMPLETE);
        let row = r.events.ring_entries.get(0).unwrap();
        assert_eq!((row.channel, row.va, row.bytes), (0, GpuVa::new(0), 32));
        let content = r.content(&row.stored()).unwrap();
        let words: Vec<u32> = content.as_chunks().0.iter().map(|w| u32::from_le_bytes(*w)).collect();
        assert_eq!(
            words,
            [
                0x2001_2000,
                0x1_c3c0,
                0x8005_2100,
                0x2002_206c,
                0x41,
                0xdead_beef,
                0x2001_0000,
                0x9097
            ]
        );
        assert_eq!(messages(&r, FindingKind::NotRecorded), Vec::<&str>::new());
        assert_eq!(r.metadata.identity.tool, "NVK");
    }

    #[test]
    fn unknown_fields_leave_the_content_open() {
        let text = "\
[0x00000000] HDR 20020100 subch 0 NINC
\tmthd 0400 NV9097_SOMETHING
\t\t.A = TRUE
\t\t.B = (0x1)
other output
[0x00000000] HDR 20010000 subch 0 NINC
";
        let r = import_as("nouveau-pushbuf", text);
        let sizes: Vec<u64> = r.events.ring_entries.iter().map(|e| e.bytes).collect();
        assert_eq!(sizes, [12, 8]);
        assert!(r.events.call_pages.is_empty());
        let [message] = messages(&r, FindingKind::NotRecorded)[..] else {
            panic!("one finding")
        };
        assert!(
            message.starts_with("2 push buffers") && message.contains("3 of their data words"),
            "{message}"
        );
    }
}
