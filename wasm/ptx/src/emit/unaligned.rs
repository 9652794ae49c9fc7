//! Accesses that are not aligned: the words around the value, shifted together or merged.

use super::function::FunctionEmitter;
use super::memory::Place;
use super::text::{Source, line};
use crate::access::Access;

/// Table of `lop3` for "first where the third is 1, second elsewhere".
const SELECT_BITS: &str = "0xe4";

impl FunctionEmitter<'_> {
    /// Writes an access whose address is inside and may have any alignment.
    ///
    /// A load writes `result`; a store takes `value`. There are no calls and no branches: loops keep their registers.
    pub fn unaligned(
        &mut self,
        out: &mut String,
        access: &Access,
        place: Place,
        value: Option<Source>,
        result: Option<Source>,
    ) {
        let shift = self.new_word();
        // The shifts take the count modulo 32.
        line!(out, "shl.b32 %r{shift}, {}, 3;", place.address);
        let words = Words {
            place,
            bytes: access.bytes,
        };
        match (value, result) {
            (Some(value), _) => self.store_words(out, access, &words, shift, value),
            (None, Some(result)) => self.load_words(out, access, &words, shift, result),
            (None, None) => {}
        }
    }

    fn load_words(&mut self, out: &mut String, access: &Access, words: &Words, shift: u32, result: Source) {
        let first = self.load_word(out, words, Position::First).1;
        if access.bytes == 8 {
            let second = self.load_word(out, words, Position::Second).1;
            let last = self.load_word(out, words, Position::Last).1;
            line!(out, "shf.r.wrap.b32 %r{first}, %r{first}, %r{second}, %r{shift};");
            line!(out, "shf.r.wrap.b32 %r{second}, %r{second}, %r{last}, %r{shift};");
            line!(out, "mov.b64 {result}, {{%r{first},%r{second}}};");
            return;
        }
        let last = self.load_word(out, words, Position::Last).1;
        let sign = if access.signed { 's' } else { 'u' };
        let form = match (access.bytes, access.ty.is_wide()) {
            (2, false) => format!("cvt.{sign}32.{sign}16"),
            (2, true) => format!("cvt.{sign}64.{sign}16"),
            (_, false) => "mov.b32".to_owned(),
            (_, true) => format!("cvt.{sign}64.{sign}32"),
        };
        line!(out, "shf.r.wrap.b32 %r{first}, %r{first}, %r{last}, %r{shift};");
        line!(out, "{form} {result}, %r{first};");
    }

    fn store_words(&mut self, out: &mut String, access: &Access, words: &Words, shift: u32, value: Source) {
        let mask = if access.bytes == 2 { "0xffff" } else { "-1" };
        let (low, high) = match value {
            Source::Wide(_) => {
                let (low, high) = (self.new_word(), self.new_word());
                line!(out, "mov.b64 {{%r{low},%r{high}}}, {value};");
                (Source::Word(low), Source::Word(high))
            }
            word => (word, word),
        };
        let whole = access.bytes == 8;
        let top = if whole { high } else { low };
        // The last word may be the first one: it is loaded after the first one is stored.
        self.merge_word(
            out,
            words,
            Position::First,
            shift,
            &format!("0, {low}"),
            &format!("0, {mask}"),
        );
        if whole {
            let (address, word) = self.word_address(out, words, Position::Second);
            line!(out, "shf.l.wrap.b32 %r{word}, {low}, {high}, %r{shift};");
            line!(out, "st.global.b32 [%d{address}], %r{word};");
        }
        self.merge_word(
            out,
            words,
            Position::Last,
            shift,
            &format!("{top}, 0"),
            &format!("{mask}, 0"),
        );
    }

    /// Replaces the bits of a word by those of the value. `value` and `mask` are pairs that are shifted to the left.
    fn merge_word(&mut self, out: &mut String, words: &Words, position: Position, shift: u32, value: &str, mask: &str) {
        let (address, word) = self.load_word(out, words, position);
        let (bits, kept) = (self.new_word(), self.new_word());
        line!(out, "shf.l.wrap.b32 %r{bits}, {value}, %r{shift};");
        line!(out, "shf.l.wrap.b32 %r{kept}, {mask}, %r{shift};");
        line!(out, "lop3.b32 %r{word}, %r{bits}, %r{word}, %r{kept}, {SELECT_BITS};");
        line!(out, "st.global.b32 [%d{address}], %r{word};");
    }

    /// Returns the registers of the address of a word, and of its value.
    fn load_word(&mut self, out: &mut String, words: &Words, position: Position) -> (u32, u32) {
        let (address, word) = self.word_address(out, words, position);
        line!(out, "ld.global.b32 %r{word}, [%d{address}];");
        (address, word)
    }

    fn word_address(&mut self, out: &mut String, words: &Words, position: Position) -> (u32, u32) {
        let (address, word, scratch) = (self.new_wide(), self.new_word(), self.new_word());
        let distance = match position {
            Position::First => 0,
            Position::Second => 4,
            // An address that is a multiple of 4 has no bytes in the word behind the value, which may be outside.
            Position::Last => words.bytes - 1,
        };
        if distance == 0 {
            line!(out, "and.b32 %r{word}, {}, -4;", words.place.address);
        } else {
            line!(
                out,
                "add.s32 %r{word}, {}, {distance};\nand.b32 %r{word}, %r{word}, -4;",
                words.place.address
            );
        }
        words
            .place
            .scheme
            .write_address(out, address, words.place.base, Source::Word(word), 4, scratch);
        (address, word)
    }
}

/// The words that an access touches.
struct Words {
    place: Place,
    bytes: u32,
}

#[derive(Clone, Copy)]
enum Position {
    First,
    Second,
    Last,
}
