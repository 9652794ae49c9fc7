//! Tests that packed clauses unpack to the same clauses, and that shaders of Mesa's driver repack byte for byte.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use bifrost::pack::{self, PackError, Slots};
use bifrost::{Clause, Constant, Header, PcRelative, Port2, Port3, Registers, WriteHalf, disassemble};
use proptest::prelude::*;
use std::path::{Path, PathBuf};

fn half() -> impl Strategy<Value = WriteHalf> {
    prop::sample::select(vec![WriteHalf::Full, WriteHalf::Low, WriteHalf::High])
}

fn block() -> impl Strategy<Value = Registers> {
    let port2 = prop_oneof![Just(Port2::Idle), Just(Port2::Read), half().prop_map(Port2::WriteFma)];
    let port3 = prop_oneof![
        Just(Port3::Idle),
        half().prop_map(Port3::WriteFma),
        half().prop_map(Port3::WriteAdd)
    ];
    let ports = prop::option::of((0..64u8, prop::option::of(0..64u8)));
    (any::<u8>(), ports, 0..64u8, port2, 0..64u8, port3).prop_map(
        |(uniform, ports, register2, port2, register3, port3)| {
            let (port0, port1) = match ports {
                Some((a, Some(b))) if a != b => (Some(a.min(b)), Some(a.max(b))),
                Some((a, _)) => (Some(a), None),
                None => (None, None),
            };
            Registers {
                uniform,
                port0,
                port1,
                register2,
                port2,
                register3,
                port3,
                ..Registers::idle()
            }
        },
    )
}

/// Returns the effect of a register block, without the register numbers that it does not use.
fn meaning(r: &Registers) -> impl PartialEq + std::fmt::Debug + use<> {
    let two = (r.port2 != Port2::Idle).then_some(r.register2);
    let three = (r.port3 != Port3::Idle).then_some(r.register3);
    (r.uniform, r.port0, r.port1, r.port2, two, r.port3, three)
}

fn constant() -> impl Strategy<Value = Constant> {
    let relative = prop::sample::select(vec![
        PcRelative::None,
        PcRelative::None,
        PcRelative::None,
        PcRelative::High,
        PcRelative::Low,
        PcRelative::LowAndHigh,
    ]);
    (any::<u64>(), relative).prop_map(|(bits, relative)| Constant {
        bits: bits & !15,
        relative,
    })
}

/// Returns the values of a constant that operands can read.
fn operand_values(c: &Constant) -> Vec<(Option<i64>, u32)> {
    let words = [false, true].map(|high| (c.offset(5, high), c.word(5, high, 0x1000_0000)));
    words.to_vec()
}

proptest! {
    #[test]
    fn register_block_round_trips_through_packing(r in block(), first in any::<bool>()) {
        if let Ok(bits) = r.encode(first) {
            let back = Registers::decode(bits, first);
            prop_assert!(back.sound);
            prop_assert_eq!(meaning(&back), meaning(&r));
        }
    }

    #[test]
    fn valid_register_block_repacks(bits in 0..1u64 << 35, first in any::<bool>()) {
        let r = Registers::decode(bits, first);
        if r.sound {
            // Two reads of one register above 31 encode like two registers in falling order.
            let bits = r.encode(first);
            prop_assert!(bits.is_ok() || r.port0 >= r.port1, "{:?} {:?}", bits, r);
            if let Ok(bits) = bits {
                prop_assert_eq!(meaning(&Registers::decode(bits, first)), meaning(&r));
            }
        }
    }

    #[test]
    fn clause_round_trips_through_packing(
        header in 0..1u64 << 45,
        tuples in prop::collection::vec((block(), 0..1u32 << 23, 0..1u32 << 20), 1..=8),
        constants in prop::collection::vec(constant(), 0..=6),
    ) {
        let mut slots: Vec<Slots> = tuples.into_iter().map(|(registers, fma, add)| Slots { registers, fma, add }).collect();
        for (n, s) in slots.iter_mut().enumerate() {
            if s.registers.encode(n == 0).is_err() {
                s.registers = Registers::idle();
            }
        }
        match pack::clause(Header { bits: header }, &slots, &constants) {
            Ok(words) => {
                let back = Clause::from_code(&words.concat(), 0).unwrap();
                prop_assert_eq!(back.words, words.len());
                prop_assert_eq!(back.header.bits, header);
                prop_assert_eq!(back.tuples.len(), slots.len());
                for (t, s) in back.tuples.iter().zip(&slots) {
                    prop_assert_eq!((t.fma_bits, t.add_bits), (s.fma, s.add));
                    prop_assert_eq!(meaning(&t.registers), meaning(&s.registers));
                }
                for (a, b) in back.constants.iter().zip(&constants) {
                    prop_assert_eq!(a.relative, b.relative);
                    prop_assert_eq!(operand_values(a), operand_values(b));
                }
                // An unpacked clause packs again.
                prop_assert_eq!(Clause::from_code(&back.pack().unwrap().concat(), 0).unwrap().tuples, back.tuples);
            }
            Err(PackError::TooManyConstants { tuples, constants }) => prop_assert!(constants > tuples.min(3)),
            Err(PackError::ConstantPair { .. }) => prop_assert!(!constants.is_empty()),
            Err(e) => prop_assert!(false, "{e}"),
        }
    }

    #[test]
    fn decoded_clause_repacks_to_the_same(words in prop::collection::vec(any::<[u8; 16]>(), 1..12), tag in any::<u8>()) {
        let mut words = words;
        words[0][0] = 0x48 | tag & 7;
        if let Ok(c) = Clause::from_code(&words.concat(), 0)
            && let Ok(again) = c.pack()
        {
            let back = Clause::from_code(&again.concat(), 0).unwrap();
            prop_assert_eq!((back.header, back.tuples.len()), (c.header, c.tuples.len()));
            prop_assert_eq!(back.tuples[0].add_bits, c.tuples[0].add_bits);
        }
    }
}

fn binaries(root: &Path, into: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(root) else { return };
    for path in entries.map(|e| e.unwrap().path()) {
        if path.is_dir() {
            binaries(&path, into);
        } else if path.file_name().unwrap().to_string_lossy().starts_with("shader_") {
            into.push(path);
        }
    }
}

#[test]
fn mesa_shaders_repack_byte_for_byte() {
    let root = std::env::var_os("KINESCOPE_RECORDINGS").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/recordings"),
        PathBuf::from,
    );
    let mut all = Vec::new();
    binaries(&root.join("panfrost"), &mut all);
    if all.is_empty() {
        println!("skipped: {} is missing", root.display());
        return;
    }
    let mut clauses = 0;
    for path in &all {
        let code = std::fs::read(path).unwrap();
        let shader = disassemble(&code);
        assert_eq!(shader.stopped, None);
        for c in &shader.clauses {
            let from = c.address as usize;
            let words = c.pack().unwrap().concat();
            let expected = &code[from..from + c.bytes() as usize];
            assert_eq!(words, expected, "{} at {from:#x}", path.display());
            clauses += 1;
        }
    }
    assert!(clauses >= 200, "{clauses}");
}
