//! The record reader of a log: a type byte, the fields of the record format, an end byte, and lines of valgrind between
//! records.

use super::forms::{END, FORMS, Field, Form, Kind, NVIDIA, TEXT};
use std::io::{self, Read};

/// Maximum number of payload bytes that are kept; the rest is counted and skipped.
pub(super) const KEPT: usize = 256;
/// Maximum number of bytes of a line or text that are kept.
const KEPT_TEXT: usize = 200;

/// The payload of a record: its first bytes, and its total size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RecordPayload {
    pub(super) kept: Vec<u8>,
    pub(super) bytes: u64,
}

/// A record.
#[derive(Clone, Debug)]
pub(super) struct Record {
    pub(super) form: &'static Form,
    /// Numbers by name.
    numbers: Vec<(&'static str, u64)>,
    /// Text, if the format has one, without the terminating byte.
    pub(super) text: Option<String>,
    /// Bytes, if the format has some.
    pub(super) data: Option<RecordPayload>,
}

impl Record {
    /// Returns the number of this name, or 0 if its format has none.
    pub(super) fn number(&self, name: &str) -> u64 {
        self.has(name).unwrap_or(0)
    }

    /// Returns the number of this name, if its format has one.
    pub(super) fn has(&self, name: &str) -> Option<u64> {
        self.numbers.iter().find(|(n, _)| *n == name).map(|(_, v)| *v)
    }

    /// Formats its numbers: `offset 0x0, id 0x1`.
    pub(super) fn describe(&self) -> String {
        let all: Vec<String> = self.numbers.iter().map(|(n, v)| format!("{n} {v:#x}")).collect();
        all.join(", ")
    }
}

/// The reason why there are no more records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The log ends after a record.
    Whole,
    /// The log is damaged: the reason, and the byte of the unpacked log where the record starts.
    Broken(String, u64),
}

/// The record format of a line of text between records.
static LINE: Form = Form {
    code: (b'=', None),
    kind: Kind::Message,
    name: "valgrind",
    fields: &[],
};

/// Reads records.
pub(super) struct Records<R> {
    from: R,
    at: u64,
}

/// The reason why a record is invalid.
enum Stop {
    Io(io::Error),
    /// The log ends in the record.
    Cut,
    /// A description of the error.
    Wrong(String),
}

impl From<io::Error> for Stop {
    fn from(e: io::Error) -> Self {
        Self::Io(e)
    }
}

impl<R: Read> Records<R> {
    pub(super) fn new(from: R) -> Self {
        Self { from, at: 0 }
    }

    /// Returns the number of bytes of the unpacked log that were read.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// Reads up to `bytes` bytes; fewer if the log ends.
    fn some(&mut self, bytes: u64, out: &mut Vec<u8>) -> io::Result<u64> {
        let read = (&mut self.from).take(bytes).read_to_end(out)? as u64;
        self.at += read;
        Ok(read)
    }

    fn exact<const N: usize>(&mut self) -> Result<[u8; N], Stop> {
        let mut out = [0; N];
        let mut filled = 0;
        while let Some(room) = out.get_mut(filled..).filter(|r| !r.is_empty()) {
            match self.from.read(room) {
                Ok(0) => return Err(Stop::Cut),
                Ok(n) => {
                    filled += n;
                    self.at += n as u64;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e.into()),
            }
        }
        Ok(out)
    }

    /// Reads `bytes` bytes and keeps the first ones.
    fn carried(&mut self, bytes: u64, max: usize) -> Result<RecordPayload, Stop> {
        let mut kept = Vec::new();
        let first = bytes.min(max as u64);
        if self.some(first, &mut kept)? < first {
            return Err(Stop::Cut);
        }
        let rest = bytes - first;
        let passed = io::copy(&mut (&mut self.from).take(rest), &mut io::sink())?;
        self.at += passed;
        if passed < rest {
            return Err(Stop::Cut);
        }
        Ok(RecordPayload { kept, bytes })
    }

    /// Returns the next record, or the end of the log.
    pub(super) fn next(&mut self) -> io::Result<Result<Record, End>> {
        let begin = self.at;
        match self.record() {
            Ok(record) => Ok(Ok(record)),
            Err(Stop::Io(e)) => Err(e),
            Err(Stop::Cut) if self.at == begin => Ok(Err(End::Whole)),
            Err(Stop::Cut) => {
                let why = format!("the log ends within a record, after {} of its bytes", self.at - begin);
                Ok(Err(End::Broken(why, begin)))
            }
            Err(Stop::Wrong(why)) => Ok(Err(End::Broken(why, begin))),
        }
    }

    fn record(&mut self) -> Result<Record, Stop> {
        let [first] = self.exact()?;
        if TEXT.contains(&first) {
            return self.line(first);
        }
        let second = match first {
            NVIDIA => Some(self.exact::<1>()?[0]),
            _ => None,
        };
        let Some(form) = FORMS.iter().find(|f| f.code == (first, second)) else {
            let second = second.map(|s| format!(" {s:#04x}")).unwrap_or_default();
            return Err(Stop::Wrong(format!("no record begins with {first:#04x}{second}")));
        };
        let mut record = Record {
            form,
            numbers: Vec::with_capacity(form.fields.len()),
            text: None,
            data: None,
        };
        for field in form.fields {
            match *field {
                Field::Word(name) => record.numbers.push((name, u64::from(self.word()?))),
                Field::Long(name) => record.numbers.push((name, u64::from_le_bytes(self.exact()?))),
                Field::Short => {
                    let [bytes] = self.exact()?;
                    record.data = Some(self.carried(u64::from(bytes), KEPT)?);
                }
                Field::Bytes(_) => {
                    let bytes = self.word()?;
                    record.data = Some(self.carried(u64::from(bytes), KEPT)?);
                }
                Field::Text(_) => {
                    let bytes = self.word()?;
                    let kept = self.carried(u64::from(bytes), KEPT_TEXT)?.kept;
                    record.text = Some(text(&kept));
                }
            }
        }
        match self.exact()? {
            [END] => Ok(record),
            [other] => Err(Stop::Wrong(format!(
                "a record ({}) ends with {other:#04x} (expected {END:#04x})",
                form.name
            ))),
        }
    }

    fn word(&mut self) -> Result<u32, Stop> {
        Ok(u32::from_le_bytes(self.exact()?))
    }

    /// Reads the rest of a line; the end of the log ends a line too.
    fn line(&mut self, first: u8) -> Result<Record, Stop> {
        let mut kept = vec![first];
        loop {
            match self.exact() {
                Ok([END]) | Err(Stop::Cut) => break,
                Ok([byte]) if kept.len() < KEPT_TEXT => kept.push(byte),
                Ok(_) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(Record {
            form: &LINE,
            numbers: Vec::new(),
            text: Some(text(&kept)),
            data: None,
        })
    }
}

/// Returns a text up to its first zero byte, as far as it is printable.
fn text(bytes: &[u8]) -> String {
    let end = memchr::memchr(0, bytes).unwrap_or(bytes.len());
    let text = String::from_utf8_lossy(bytes.get(..end).unwrap_or_default());
    text.chars().filter(|c| !c.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: &[u8]) -> (Vec<Record>, End) {
        let mut records = Records::new(bytes);
        let mut out = Vec::new();
        loop {
            match records.next().unwrap() {
                Ok(r) => out.push(r),
                Err(end) => return (out, end),
            }
        }
    }

    #[test]
    fn every_mmt_record_form_is_parsed_completely() {
        for form in FORMS {
            let mut bytes = vec![form.code.0];
            bytes.extend(form.code.1);
            for (n, field) in (1u8..).zip(form.fields) {
                match field {
                    Field::Word(_) => bytes.extend(u32::from(n).to_le_bytes()),
                    Field::Long(_) => bytes.extend((u64::from(n) << 32).to_le_bytes()),
                    Field::Short => bytes.extend([2, 0xaa, 0xbb]),
                    Field::Bytes(_) => bytes.extend([3, 0, 0, 0, 7, 8, 9]),
                    Field::Text(_) => bytes.extend([3, 0, 0, 0, b'a', b'b', 0]),
                }
            }
            bytes.push(END);
            let twice = bytes.repeat(2);
            let (records, end) = all(&twice);
            assert_eq!((records.len(), end), (2, End::Whole), "{form:?}");
            assert_eq!(records[1].numbers, records[0].numbers);
            assert!(records[0].text.as_ref().is_none_or(|t| t == "ab"));
            for cut in 1..bytes.len() {
                let (records, end) = all(&bytes[..cut]);
                assert!(records.is_empty() && matches!(end, End::Broken(_, 0)), "{form:?} {cut}");
            }
            *bytes.last_mut().unwrap() = b'x';
            assert!(matches!(all(&bytes).1, End::Broken(why, 0) if why.contains("ends with 0x78")));
        }
    }

    #[test]
    fn record_codes_are_distinct_and_lengths_are_not_preallocated() {
        for (n, form) in FORMS.iter().enumerate() {
            assert!(FORMS[..n].iter().all(|f| f.code != form.code), "{form:?}");
        }
        // A length of 4 GiB without the data.
        let mut bytes = vec![b'y'];
        bytes.extend([0; 8]);
        bytes.extend([0xff; 4]);
        bytes.extend([1; 1000]);
        let (records, end) = all(&bytes);
        assert!(records.is_empty() && matches!(end, End::Broken(why, 0) if why.contains("after 1013 of its bytes")));
        let (records, end) = all(b"==1== a line\n--1-- another\nq");
        assert_eq!(records.len(), 2);
        assert!(matches!(end, End::Broken(why, 27) if why.contains("0x71")));
        let (records, end) = all(b"==1== cut");
        assert_eq!((records[0].text.as_deref(), end), (Some("==1== cut"), End::Whole));
    }

    #[test]
    fn long_record_data_is_counted_and_skipped() {
        let mut bytes = vec![b'y'];
        bytes.extend([0; 8]);
        bytes.extend(100_000u32.to_le_bytes());
        bytes.extend(vec![5; 100_000]);
        bytes.push(END);
        bytes.extend(b"S\x01\0\0\0\n");
        let (records, end) = all(&bytes);
        assert_eq!((records.len(), end), (2, End::Whole));
        let data = records[0].data.as_ref().unwrap();
        assert_eq!((data.kept.len(), data.bytes), (KEPT, 100_000));
        assert_eq!(records[1].number("number"), 1);
    }
}
