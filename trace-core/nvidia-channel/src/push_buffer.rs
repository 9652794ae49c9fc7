//! Push buffers: words as headers with their data, and as methods.

use crate::bindings::{Bindings, SET_OBJECT};
use crate::header::{Advance, Header, ReservedHeader};
use thiserror::Error;

/// Damage of a push buffer. The runs and methods before it are sound.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PushBufferError {
    /// A word is not a header.
    #[error("byte {byte}: {source}")]
    Reserved {
        /// Offset of the word in bytes.
        byte: usize,
        /// The word.
        source: ReservedHeader,
    },
    /// A header announces more words than there are.
    #[error("byte {byte}: the header announces {announced} words, and {available} follow")]
    Truncated {
        /// Offset of the header in bytes.
        byte: usize,
        /// Number of words that the header announces.
        announced: usize,
        /// Number of words that follow.
        available: usize,
    },
    /// The size is not a multiple of four bytes.
    #[error("byte {byte}: {bytes} bytes remain, a word has 4")]
    PartialWord {
        /// Offset of the incomplete word in bytes.
        byte: usize,
        /// Number of its bytes.
        bytes: usize,
    },
}

/// The words of a push buffer, little-endian.
#[derive(Debug, Clone, Copy)]
pub struct PushBuffer<'a> {
    bytes: &'a [u8],
}

/// A header and its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run<'a> {
    /// Offset of the header in words.
    pub word: usize,
    /// The header.
    pub header: Header,
    /// The data that follow, a multiple of four bytes. A truncated run has less than its header announces.
    pub data: &'a [u8],
}

/// A method with its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Method {
    /// Subchannel, 0 to 7.
    pub subchannel: u8,
    /// Class that the method belongs to, or `None` if the subchannel has none.
    pub class: Option<u16>,
    /// Byte address of the method.
    pub method: u16,
    /// Value of the method.
    pub value: u32,
    /// Offset of the value in words; that of the header for an immediate value.
    pub word: usize,
}

impl<'a> PushBuffer<'a> {
    /// Returns the push buffer of these bytes.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Returns the number of complete words.
    #[must_use]
    pub fn words(&self) -> usize {
        self.bytes.len() / 4
    }

    /// Returns a word, or `None` beyond the end.
    #[must_use]
    pub fn word(&self, index: usize) -> Option<u32> {
        word_at(self.bytes, index)
    }

    /// Returns the headers with their data. An error ends the iteration.
    #[must_use]
    pub fn runs(&self) -> Runs<'a> {
        Runs {
            buffer: *self,
            word: 0,
            error: None,
            ended: false,
        }
    }

    /// Returns the methods, and binds classes as `SET_OBJECT` says. An error ends the iteration.
    #[must_use]
    pub fn methods<'b>(&self, bindings: &'b mut Bindings) -> Methods<'a, 'b> {
        Methods {
            runs: self.runs(),
            bindings,
            run: None,
            index: 0,
        }
    }
}

/// Returns a word of little-endian bytes.
fn word_at(bytes: &[u8], index: usize) -> Option<u32> {
    let at = index.checked_mul(4)?;
    let word = bytes.get(at..)?.first_chunk::<4>()?;
    Some(u32::from_le_bytes(*word))
}

/// Iterator over the headers of a push buffer.
#[derive(Debug, Clone)]
pub struct Runs<'a> {
    buffer: PushBuffer<'a>,
    word: usize,
    error: Option<PushBufferError>,
    ended: bool,
}

impl Runs<'_> {
    /// Returns the offset in words of what is read next: after the iteration, of the unread rest.
    #[must_use]
    pub fn position(&self) -> usize {
        self.word
    }
}

impl<'a> Iterator for Runs<'a> {
    type Item = Result<Run<'a>, PushBufferError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(error) = self.error.take() {
            return Some(Err(error));
        }
        if self.ended {
            return None;
        }
        let (word, byte) = (self.word, self.word * 4);
        let Some(value) = self.buffer.word(word) else {
            self.ended = true;
            let bytes = self.buffer.bytes.len().saturating_sub(byte);
            return (bytes > 0).then_some(Err(PushBufferError::PartialWord { byte, bytes }));
        };
        let header = match Header::decode(value) {
            Ok(header) => header,
            Err(source) => {
                self.ended = true;
                return Some(Err(PushBufferError::Reserved { byte, source }));
            }
        };
        self.word += 1;
        let announced = header.data_words();
        let available = self.buffer.words() - self.word;
        if header == Header::EndOfSegment {
            self.ended = true;
        }
        if announced > available {
            self.ended = true;
            self.error = Some(PushBufferError::Truncated {
                byte,
                announced,
                available,
            });
        }
        let from = self.word * 4;
        self.word += announced.min(available);
        let data = self.buffer.bytes.get(from..self.word * 4).unwrap_or_default();
        Some(Ok(Run { word, header, data }))
    }
}

/// Iterator over the methods of a push buffer.
#[derive(Debug)]
pub struct Methods<'a, 'b> {
    runs: Runs<'a>,
    bindings: &'b mut Bindings,
    run: Option<Run<'a>>,
    index: usize,
}

impl<'a> Methods<'a, '_> {
    /// Returns the offset in words of the header that is read next.
    #[must_use]
    pub fn position(&self) -> usize {
        self.runs.position()
    }

    /// Returns the run of the method that was returned last.
    #[must_use]
    pub fn run(&self) -> Option<Run<'a>> {
        self.run
    }

    /// Returns the value of the method that was returned last, and the values that follow in its run if they are for the
    /// same method. These are skipped. Returns `None` for an immediate value, which is in the header.
    pub fn take_values(&mut self) -> Option<&'a [u8]> {
        let run = self.run?;
        let Header::Methods { advance, .. } = run.header else {
            return None;
        };
        let first = self.index.checked_sub(1)?;
        let repeats = match advance {
            Advance::Each => false,
            // The first value is for another method than the later ones.
            Advance::Once => first > 0,
            Advance::Never => true,
        };
        if repeats {
            self.index = run.data.len() / 4;
        }
        run.data.get(first * 4..self.index * 4)
    }

    /// Returns the next method of the current run.
    fn method_of_run(&mut self) -> Option<Method> {
        let run = self.run?;
        let (subchannel, method, value, word) = match run.header {
            Header::Methods {
                advance,
                subchannel,
                method,
                ..
            } => {
                let value = word_at(run.data, self.index)?;
                let steps = match advance {
                    Advance::Each => self.index,
                    Advance::Once => self.index.min(1),
                    Advance::Never => 0,
                };
                // The address has 14 bits and the count 13, so that the sum fits.
                let method = method.saturating_add(u16::try_from(steps * 4).unwrap_or(u16::MAX));
                (subchannel, method, value, run.word + 1 + self.index)
            }
            Header::Immediate {
                subchannel,
                method,
                value,
            } if self.index == 0 => (subchannel, method, u32::from(value), run.word),
            _ => return None,
        };
        self.index += 1;
        if method == SET_OBJECT {
            self.bindings.bind(subchannel, value as u16);
        }
        Some(Method {
            subchannel,
            class: self.bindings.class_of_method(subchannel, method),
            method,
            value,
            word,
        })
    }
}

impl Iterator for Methods<'_, '_> {
    type Item = Result<Method, PushBufferError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(method) = self.method_of_run() {
                return Some(Ok(method));
            }
            self.index = 0;
            self.run = match self.runs.next()? {
                Ok(run) => Some(run),
                Err(error) => {
                    self.run = None;
                    return Some(Err(error));
                }
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|w| w.to_le_bytes()).collect()
    }

    /// Class, address and value of a method.
    type Parts = (Option<u16>, u16, u32);

    /// Returns all methods, and the error.
    fn read(words: &[u32]) -> (Vec<Parts>, Option<PushBufferError>) {
        let bytes = bytes(words);
        let mut bindings = Bindings::new(0xc86f);
        let mut methods = Vec::new();
        for method in PushBuffer::new(&bytes).methods(&mut bindings) {
            match method {
                Ok(m) => methods.push((m.class, m.method, m.value)),
                Err(error) => return (methods, Some(error)),
            }
        }
        (methods, None)
    }

    #[test]
    fn methods_follow_their_binding() {
        let (methods, error) = read(&[
            0x2001_2000,
            0xcbc0, // SET_OBJECT on subchannel 1
            0x2002_2062,
            0x7f2b,
            0xd229_0000, // increments
            0xa003_2062,
            1,
            2,
            3, // increments once
            0x6002_206d,
            8,
            9,           // never increments
            0x8007_2044, // immediate
            0x2001_001b,
            1, // a method of the channel
            0x2001_4062,
            5, // a subchannel without class
        ]);
        assert_eq!(error, None);
        let (host, compute) = (Some(0xc86f), Some(0xcbc0));
        assert_eq!(
            methods,
            [
                (host, 0, 0xcbc0),
                (compute, 0x188, 0x7f2b),
                (compute, 0x18c, 0xd229_0000),
                (compute, 0x188, 1),
                (compute, 0x18c, 2),
                (compute, 0x18c, 3),
                (compute, 0x1b4, 8),
                (compute, 0x1b4, 9),
                (compute, 0x110, 7),
                (host, 0x6c, 1),
                (None, 0x188, 5),
            ]
        );
    }

    #[test]
    fn damage_keeps_the_methods_before() {
        let (methods, error) = read(&[0x2001_001b, 1, 0x2003_001b, 2]);
        assert_eq!(methods, [(Some(0xc86f), 0x6c, 1), (Some(0xc86f), 0x6c, 2)]);
        assert_eq!(
            error,
            Some(PushBufferError::Truncated {
                byte: 8,
                announced: 3,
                available: 1
            })
        );
        let (methods, error) = read(&[0x2001_001b, 1, 0xc000_0000, 5]);
        assert_eq!(methods.len(), 1);
        let text = error.map(|e| e.to_string());
        assert_eq!(
            text.as_deref(),
            Some("byte 8: 0xc0000000 is not the header of a push buffer: its operation is reserved")
        );
    }

    #[test]
    fn partial_word_is_an_error() {
        let mut bytes = bytes(&[0x2001_001b, 1]);
        bytes.extend([1, 2, 3]);
        let runs: Vec<_> = PushBuffer::new(&bytes).runs().collect();
        assert_eq!(runs.len(), 2);
        assert_eq!(runs[1], Err(PushBufferError::PartialWord { byte: 8, bytes: 3 }));
    }

    #[test]
    fn end_of_segment_stops_the_reader() {
        let bytes = bytes(&[0, 0xe000_0000, 0x2001_001b, 1]);
        let mut runs = PushBuffer::new(&bytes).runs();
        assert_eq!(runs.by_ref().count(), 2);
        assert_eq!(runs.position(), 2);
    }

    #[test]
    fn values_of_one_method_are_taken_together() {
        let bytes = bytes(&[
            0x6003_206d,
            1,
            2,
            3, // never increments
            0xa003_2062,
            4,
            5,
            6, // increments once
            0x2002_2062,
            7,
            8,           // increments
            0x8009_2044, // immediate
        ]);
        let mut bindings = Bindings::new(0xc86f);
        let buffer = PushBuffer::new(&bytes);
        let mut methods = buffer.methods(&mut bindings);
        let mut taken = Vec::new();
        while let Some(Ok(method)) = methods.next() {
            let words = methods.take_values().map(|v| v.len() / 4);
            taken.push((method.method, method.value, words));
        }
        assert_eq!(
            taken,
            [
                (0x1b4, 1, Some(3)),
                (0x188, 4, Some(1)),
                (0x18c, 5, Some(2)),
                (0x188, 7, Some(1)),
                (0x18c, 8, Some(1)),
                (0x110, 9, None),
            ]
        );
    }

    #[test]
    fn words_of_values_are_named() {
        let bytes = bytes(&[0x2002_001b, 1, 2, 0x8007_001b]);
        let mut bindings = Bindings::new(0xc86f);
        let words: Vec<usize> = PushBuffer::new(&bytes)
            .methods(&mut bindings)
            .map(|m| m.map_or(0, |m| m.word))
            .collect();
        assert_eq!(words, [1, 2, 3]);
    }
}
