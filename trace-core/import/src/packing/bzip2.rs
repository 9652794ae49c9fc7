//! The unpacker of bzip2 streams, one after another.
//!
//! The format is that of bzip2 1.0: blocks of up to 900,000 bytes, each sorted (Burrows and Wheeler), moved to front and
//! coded with two to six Huffman tables. The rare randomised blocks of versions before 0.9.5 are refused.

use super::bzip2_bits::{BitReader, invalid};
use super::huffman::{HuffmanTable, MAX_CODE_BITS};
use std::io::{self, BufRead, Read};

/// Number of bytes of a block for each level of compression.
const LEVEL_BYTES: usize = 100_000;
/// First 48 bits of a block, and of the end of a stream.
const BLOCK: u64 = 0x3141_5926_5359;
const END: u64 = 0x1772_4538_5090;
/// Number of symbols that are coded with the same table.
const GROUP_SYMBOLS: usize = 50;
/// Maximum number of selectors that a block can use: more may be listed.
const MAX_SELECTORS: usize = 18_002;
/// Number of equal bytes before which a repeat count stands.
const RUN_BYTES: u8 = 4;

/// A reader of the unpacked bytes of bzip2 streams.
pub(crate) struct Bzip2Reader<R> {
    bits: BitReader<R>,
    state: State,
    /// Maximum size of a block before its runs are expanded, bytes.
    block_bytes: usize,
    /// The sorted block: a byte in the lower 8 bits, the index of the next entry above them.
    entries: Vec<u32>,
    output: Output,
    /// Check value of the stream so far.
    stream_crc: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before a stream; whether it is the first.
    Stream(bool),
    /// Before a block or the end of a stream.
    Block,
    /// In the output of a block.
    Output,
    End,
}

/// The part of a block that is not read yet.
#[derive(Default)]
struct Output {
    position: u32,
    entries_left: usize,
    /// The latest byte and how often it stood in a row.
    last: Option<u8>,
    run: u8,
    /// Number of further repeats of the latest byte.
    repeats: u8,
    expected_crc: u32,
    crc: u32,
}

impl<R: BufRead> Bzip2Reader<R> {
    pub(crate) fn new(from: R) -> Self {
        Self {
            bits: BitReader::new(from),
            state: State::Stream(true),
            block_bytes: 0,
            entries: Vec::new(),
            output: Output::default(),
            stream_crc: 0,
        }
    }

    /// Reads the head of a stream. At the end of the file, there is none.
    fn begin_stream(&mut self, first: bool) -> io::Result<State> {
        self.bits.align();
        if !first && self.bits.is_at_end()? {
            return Ok(State::End);
        }
        let head = self.bits.take(32)?;
        let level = (head & 0xff).wrapping_sub(u64::from(b'0'));
        if head >> 8 != 0x42_5a68 || !(1..=9).contains(&level) {
            return Err(invalid("no bzip2 stream begins here"));
        }
        self.block_bytes = level as usize * LEVEL_BYTES;
        self.stream_crc = 0;
        Ok(State::Block)
    }

    fn begin_block(&mut self) -> io::Result<State> {
        match self.bits.take(48)? {
            BLOCK => {
                self.read_block()?;
                Ok(State::Output)
            }
            END => match self.bits.take(32)? as u32 == self.stream_crc {
                true => Ok(State::Stream(false)),
                false => Err(invalid("the check value of the stream is wrong")),
            },
            _ => Err(invalid("no bzip2 block begins here")),
        }
    }

    fn read_block(&mut self) -> io::Result<()> {
        let expected_crc = self.bits.take(32)? as u32;
        if self.bits.take(1)? == 1 {
            return Err(invalid("a randomised block, which no bzip2 since 0.9.5 writes"));
        }
        let origin = self.bits.take(24)? as usize;
        let used = self.read_used_bytes()?;
        let symbols = used.len() + 2;
        let (selectors, tables) = self.read_tables(symbols)?;
        self.read_symbols(&used, &selectors, &tables)?;
        self.sort_back(origin)?;
        self.output = Output {
            position: self.entries.get(origin).copied().unwrap_or_default() >> 8,
            entries_left: self.entries.len(),
            expected_crc,
            crc: u32::MAX,
            ..Output::default()
        };
        Ok(())
    }

    /// Reads which bytes a block has.
    fn read_used_bytes(&mut self) -> io::Result<Vec<u8>> {
        let rows = self.bits.take(16)?;
        let mut used = Vec::with_capacity(256);
        for row in (0..16u8).filter(|row| rows >> (15 - row) & 1 == 1) {
            let bits = self.bits.take(16)?;
            used.extend((0..16u8).filter(|n| bits >> (15 - n) & 1 == 1).map(|n| row << 4 | n));
        }
        match used.is_empty() {
            true => Err(invalid("a block without bytes")),
            false => Ok(used),
        }
    }

    /// Reads the table of each group of symbols, and the tables.
    fn read_tables(&mut self, symbols: usize) -> io::Result<(Vec<u8>, Vec<HuffmanTable>)> {
        let count = self.bits.take(3)? as usize;
        let listed = self.bits.take(15)? as usize;
        if !(2..=6).contains(&count) || listed == 0 {
            return Err(invalid("a block has two to six tables and at least one selector"));
        }
        let mut order: Vec<u8> = (0..count as u8).collect();
        let mut selectors = Vec::with_capacity(listed.min(MAX_SELECTORS));
        for _ in 0..listed {
            let mut index = 0;
            while self.bits.take(1)? == 1 {
                index += 1;
                if index >= count {
                    return Err(invalid("a selector names no table"));
                }
            }
            let table = order.remove(index);
            order.insert(0, table);
            if selectors.len() < MAX_SELECTORS {
                selectors.push(table);
            }
        }
        let mut tables = Vec::with_capacity(count);
        for _ in 0..count {
            let mut length = self.bits.take(5)?;
            let mut lengths = Vec::with_capacity(symbols);
            for _ in 0..symbols {
                loop {
                    if !(1..=u64::from(MAX_CODE_BITS)).contains(&length) {
                        return Err(invalid("a code has 1 to 20 bits"));
                    }
                    if self.bits.take(1)? == 0 {
                        break;
                    }
                    match self.bits.take(1)? {
                        0 => length += 1,
                        _ => length -= 1,
                    }
                }
                lengths.push(length as u8);
            }
            tables.push(HuffmanTable::new(&lengths));
        }
        Ok((selectors, tables))
    }

    /// Reads the symbols of a block into `entries`, with runs of the most recent byte expanded.
    fn read_symbols(&mut self, used: &[u8], selectors: &[u8], tables: &[HuffmanTable]) -> io::Result<()> {
        let too_long = || invalid("a block is longer than its level allows");
        let end = used.len() as u16 + 1;
        let mut order = used.to_vec();
        let (mut run, mut weight) = (0usize, 1usize);
        self.entries.clear();
        self.entries.reserve(self.block_bytes);
        for selector in selectors {
            let table = tables.get(usize::from(*selector)).ok_or_else(too_long)?;
            for _ in 0..GROUP_SYMBOLS {
                let symbol = table.decode(&mut self.bits)?;
                if symbol <= 1 {
                    // Digits of a run length, base 2 with the digits 1 and 2.
                    run = run.saturating_add(weight << symbol);
                    weight = weight.saturating_mul(2).min(1 << 24);
                    if run > self.block_bytes {
                        return Err(too_long());
                    }
                    continue;
                }
                if run > 0 {
                    let byte = order.first().copied().unwrap_or_default();
                    let bytes = self.entries.len() + run;
                    if bytes > self.block_bytes {
                        return Err(too_long());
                    }
                    self.entries.resize(bytes, u32::from(byte));
                    (run, weight) = (0, 1);
                }
                if symbol == end {
                    return Ok(());
                }
                let index = usize::from(symbol) - 1;
                let Some(part) = order.get_mut(..=index) else {
                    return Err(invalid("a symbol that the block does not use"));
                };
                part.rotate_right(1);
                if self.entries.len() >= self.block_bytes {
                    return Err(too_long());
                }
                let byte = part.first().copied().unwrap_or_default();
                self.entries.push(u32::from(byte));
            }
        }
        Err(invalid("a block without an end"))
    }

    /// Links each entry to the one of the next byte.
    fn sort_back(&mut self, origin: usize) -> io::Result<()> {
        if origin >= self.entries.len() {
            return Err(invalid("the origin of a block lies beyond its end"));
        }
        let mut next = [0u32; 256];
        for entry in &self.entries {
            if let Some(count) = next.get_mut((entry & 0xff) as usize) {
                *count += 1;
            }
        }
        let mut before = 0;
        for count in &mut next {
            (*count, before) = (before, before + *count);
        }
        for index in 0..self.entries.len() {
            let byte = self.entries.get(index).copied().unwrap_or_default() & 0xff;
            let Some(position) = next.get_mut(byte as usize) else {
                continue;
            };
            if let Some(entry) = self.entries.get_mut(*position as usize) {
                *entry |= (index as u32) << 8;
            }
            *position += 1;
        }
        Ok(())
    }

    /// Fills a part of `out`, and returns its length; zero at the end of the block.
    fn write_output(&mut self, out: &mut [u8]) -> usize {
        let o = &mut self.output;
        let mut written = 0;
        for byte in out.iter_mut() {
            if o.repeats > 0 {
                o.repeats -= 1;
            } else {
                loop {
                    if o.entries_left == 0 {
                        return written;
                    }
                    o.entries_left -= 1;
                    let entry = self.entries.get(o.position as usize).copied().unwrap_or_default();
                    o.position = entry >> 8;
                    let next = entry as u8;
                    if o.run == RUN_BYTES {
                        o.run = 0;
                        // The bytes after a run begin another one, equal or not.
                        if next == 0 {
                            continue;
                        }
                        o.repeats = next - 1;
                    } else {
                        o.run = if o.last == Some(next) { o.run + 1 } else { 1 };
                        o.last = Some(next);
                    }
                    break;
                }
            }
            *byte = o.last.unwrap_or_default();
            o.crc = update_crc(o.crc, *byte);
            written += 1;
        }
        written
    }

    fn end_block(&mut self) -> io::Result<State> {
        let crc = !self.output.crc;
        if crc != self.output.expected_crc {
            return Err(invalid("the check value of a block is wrong"));
        }
        self.stream_crc = self.stream_crc.rotate_left(1) ^ crc;
        Ok(State::Block)
    }
}

impl<R: BufRead> Read for Bzip2Reader<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        loop {
            self.state = match self.state {
                State::Stream(first) => self.begin_stream(first)?,
                State::Block => self.begin_block()?,
                State::Output => match self.write_output(out) {
                    0 => self.end_block()?,
                    written => return Ok(written),
                },
                State::End => return Ok(0),
            };
        }
    }
}

/// Check values of bytes: CRC-32 with the highest bit first.
const CRC: [u32; 256] = {
    let mut table = [0u32; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u32) << 24;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc >> 31 == 1 {
                crc << 1 ^ 0x04c1_1db7
            } else {
                crc << 1
            };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

fn update_crc(crc: u32, byte: u8) -> u32 {
    let index = (crc >> 24) as u8 ^ byte;
    crc << 8 ^ CRC.get(usize::from(index)).copied().unwrap_or_default()
}
