//! Tests that arbitrary bytes decode or give an error, and never panic. Each decoded clause has a text.
#![allow(clippy::unwrap_used)]

use bifrost::{Clause, Instruction, Modifier, Unit, Value, clause_text, disassemble};
use proptest::prelude::*;

/// Generates a word that often has the tag of a format that may follow the first word of a clause.
fn word() -> impl Strategy<Value = [u8; 16]> {
    let tag = prop::sample::select(vec![
        0x0d, 0x2d, 0x4d, 0x68, 0x03, 0x43, 0x21, 0x61, 0x05, 0x45, 0x30, 0x70, 0x90, 0xd0,
    ]);
    (any::<[u8; 16]>(), prop::option::of(tag)).prop_map(|(mut w, tag)| {
        if let Some(tag) = tag {
            w[0] = tag;
        }
        w
    })
}

proptest! {
    #[test]
    fn arbitrary_code_disassembles_or_is_an_error(words in prop::collection::vec(word(), 1..24)) {
        let code = words.concat();
        let shader = disassemble(&code);
        for c in &shader.clauses {
            prop_assert!((1..=8).contains(&c.tuples.len()));
            prop_assert!(!clause_text(c, 0).is_empty());
        }
    }

    #[test]
    fn truncated_clause_is_an_error(words in prop::collection::vec(word(), 1..12)) {
        let code = words.concat();
        if let Ok(c) = Clause::from_code(&code, 0) {
            let short = &code[..(c.words * 16) - 1];
            prop_assert!(Clause::from_code(short, 0).is_err());
        }
    }

    #[test]
    fn every_encoding_decodes_from_its_bits(bits in any::<u32>()) {
        for unit in [Unit::Fma, Unit::Add] {
            for (op, mask, exact) in Instruction::encodings(unit) {
                let bits = exact | bits & !mask & ((1 << unit.bits()) - 1);
                // The free bits may be reserved, or may select a narrower encoding.
                if let Some(i) = Instruction::decode(unit, bits) {
                    prop_assert_eq!(i.bits(), bits);
                    if i.op() == op {
                        let all: Vec<(Modifier, Value, bool)> = i.modifiers().collect();
                        prop_assert!(all.iter().all(|(m, v, _)| i.get(*m) == *v));
                    }
                }
            }
        }
    }
}
