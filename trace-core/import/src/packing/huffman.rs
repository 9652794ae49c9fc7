//! A Huffman table of a bzip2 block.

use super::bzip2_bits::{BitReader, invalid};
use std::io::{self, BufRead};

/// Maximum length of a code, bits.
pub(super) const MAX_CODE_BITS: u32 = 20;
/// Length of codes that one look into a table decodes, bits.
const FAST_BITS: u32 = 10;

/// Canonical codes: codes of a length follow each other in the order of their symbols.
pub(super) struct HuffmanTable {
    /// Length and symbol by the next ten bits; length 0 for longer codes.
    fast: Vec<(u8, u16)>,
    /// By length: the code after the last one, and the index of the first symbol minus its code.
    ends: [u32; MAX_CODE_BITS as usize + 1],
    offsets: [i64; MAX_CODE_BITS as usize + 1],
    symbols: Vec<u16>,
}

impl HuffmanTable {
    /// Builds the table from the length of each symbol's code, 1 to 20 bits.
    pub(super) fn new(lengths: &[u8]) -> Self {
        let mut table = Self {
            fast: vec![(0, 0); 1 << FAST_BITS],
            ends: [0; MAX_CODE_BITS as usize + 1],
            offsets: [0; MAX_CODE_BITS as usize + 1],
            symbols: Vec::with_capacity(lengths.len()),
        };
        let mut code = 0u32;
        for bits in 1..=MAX_CODE_BITS {
            let first = table.symbols.len() as i64 - i64::from(code);
            for (symbol, _) in (0u16..).zip(lengths).filter(|(_, length)| u32::from(**length) == bits) {
                table.symbols.push(symbol);
                if bits <= FAST_BITS {
                    let shift = FAST_BITS - bits;
                    let from = (code << shift) as usize;
                    let range = from..from + (1 << shift);
                    // Codes of a damaged table may have more bits than their length.
                    if let Some(entries) = table.fast.get_mut(range) {
                        entries.fill((bits as u8, symbol));
                    }
                }
                code += 1;
            }
            if let (Some(end), Some(offset)) = (table.ends.get_mut(bits as usize), table.offsets.get_mut(bits as usize))
            {
                (*end, *offset) = (code, first);
            }
            code <<= 1;
        }
        table
    }

    /// Reads the next symbol.
    pub(super) fn decode<R: BufRead>(&self, bits: &mut BitReader<R>) -> io::Result<u16> {
        let next = bits.peek(MAX_CODE_BITS)? as u32;
        let fast = self.fast.get((next >> (MAX_CODE_BITS - FAST_BITS)) as usize);
        if let Some((length, symbol)) = fast.filter(|(length, _)| *length > 0) {
            bits.skip(u32::from(*length))?;
            return Ok(*symbol);
        }
        for length in FAST_BITS + 1..=MAX_CODE_BITS {
            let code = next >> (MAX_CODE_BITS - length);
            let at = length as usize;
            let (Some(end), Some(offset)) = (self.ends.get(at), self.offsets.get(at)) else {
                break;
            };
            if code < *end {
                bits.skip(length)?;
                let index = usize::try_from(i64::from(code) + offset).ok();
                let symbol = index.and_then(|i| self.symbols.get(i));
                return symbol.copied().ok_or_else(|| invalid("a code without a symbol"));
            }
        }
        Err(invalid("a code without a symbol"))
    }
}
