//! The text of clauses and operations in the notation of Mesa's disassembler.

use crate::clause::{Clause, ClauseError, Constant, Flow, Header, PcRelative, Tuple};
use crate::op::Staging;
use crate::registers::{Port2, Port3, Registers, Uniform, WriteHalf, uniform};
use crate::table::{Instruction, Source, Unit};
use crate::{Modifier, WORD_BYTES};
use std::fmt::Write as _;

/// Returns the name of a message type in the text of a header.
fn message(kind: u8) -> &'static str {
    const NAMES: [&str; 16] = [
        "",
        "vary",
        "attr",
        "tex",
        "vartex",
        "load",
        "store",
        "atomic",
        "barrier",
        "blend",
        "tile",
        "reserved",
        "z_stencil",
        "atest",
        "job",
        "64",
    ];
    NAMES.get(usize::from(kind)).copied().unwrap_or("reserved")
}

fn flow(flow: Flow) -> &'static str {
    match flow {
        Flow::End => "eos",
        Flow::BranchPc => "nbb br_pc",
        Flow::Reconverge => "nbb r_uncond",
        Flow::Plain => "nbb",
        Flow::BackToBackReconverge => "bb r_uncond",
        Flow::BackToBack => "bb",
        Flow::ElisionReconverge => "we r_uncond",
        Flow::Elision => "we",
    }
}

/// Formats a clause's header: dependency slot, flow, modes, messages, slots to wait for.
#[must_use]
pub fn header_text(h: Header) -> String {
    let mut parts = vec![format!("ds({})", h.slot())];
    let mut word = |on: bool, text: &str| {
        if on {
            parts.push(text.to_owned());
        }
    };
    word(h.staging_barrier(), "osrb");
    word(true, flow(h.flow()));
    word(h.suppress_inf(), "inf_suppress");
    word(h.suppress_nan(), "nan_suppress");
    word(h.flush_to_zero() == 1, "ftz_dx11");
    word(h.flush_to_zero() == 2, "ftz_hsa");
    word(h.flush_to_zero() == 3, "ftz_au");
    word(h.exceptions() == 1, "fpe_ts");
    word(h.exceptions() == 2, "fpe_pd");
    word(h.exceptions() == 3, "fpe_psqr");
    word(h.message() != 0, message(h.message()));
    word(h.terminate_discarded(), "td");
    word(h.prefetch(), "ncph");
    word(h.next_message() != 0, &format!("next_{}", message(h.next_message())));
    if h.wait() != 0 {
        let slots = (0..8u8).filter(|n| h.wait() >> n & 1 != 0).map(|n| n.to_string());
        word(true, &format!("dwb({})", slots.collect::<Vec<_>>().join(", ")));
    }
    parts.join(" ")
}

/// Formats a number together with its value as a float.
fn constant(word: u32) -> String {
    let float = f32::from_bits(word);
    if float.is_nan() {
        let sign = if float.is_sign_negative() { "-" } else { "" };
        return format!("{word:#010x} /* {sign}nan */");
    }
    format!("{word:#010x} /* {float:.6} */")
}

fn constant_word(c: &Constant, low: u8, high: bool, number: i64) -> String {
    let Some(by) = c.offset(low, high) else {
        return constant(c.word(low, high, 0));
    };
    let mut text = format!("clause_{}", number.saturating_add(by / WORD_BYTES as i64));
    if by % WORD_BYTES as i64 != 0 {
        let _ = write!(text, " + {}", by % WORD_BYTES as i64);
    }
    if c.relative == PcRelative::Low && high {
        text.push_str(" >> 32");
    }
    text
}

/// Formats the value of the tuple's uniform selector as an operand.
fn uniform_text(selector: u8, high: bool, constants: &[Constant; 6], number: i64) -> String {
    const SPECIAL: [&str; 7] = [
        "#0",
        "lane_id",
        "warp_id",
        "core_id",
        "framebuffer_size",
        "atest_datum",
        "sample",
    ];
    let word = if high { "y" } else { "x" };
    match uniform(selector) {
        Uniform::Push(n) => format!("u{n}.w{}", u8::from(high)),
        Uniform::Constant { index, low } => {
            let c = constants.get(usize::from(index)).copied().unwrap_or_default();
            constant_word(&c, low, high, number)
        }
        Uniform::Zero => format!("#0.{word}"),
        Uniform::Special(n) => match SPECIAL.get(usize::from(n)) {
            Some(name) => format!("{name}.{word}"),
            None => format!("blend_descriptor_{}.{word}", n.saturating_sub(8)),
        },
        Uniform::Reserved(n) => format!("reserved{n}.{word}"),
    }
}

fn half(h: WriteHalf) -> &'static str {
    match h {
        WriteHalf::Full => "",
        WriteHalf::Low => ".h0",
        WriteHalf::High => ".h1",
    }
}

/// Formats the destination of a unit's result: its temporary, and a register if the next block writes it.
fn destination(unit: Unit, writes: &Registers) -> String {
    match (unit, writes.port2, writes.port3) {
        (Unit::Fma, Port2::WriteFma(h), _) => format!("r{}:t0{}", writes.register2, half(h)),
        (Unit::Fma, _, Port3::WriteFma(h)) => format!("r{}:t0{}", writes.register3, half(h)),
        (Unit::Fma, ..) => "t0".to_owned(),
        (Unit::Add, _, Port3::WriteAdd(h)) => format!("r{}:t1{}", writes.register3, half(h)),
        (Unit::Add, ..) => "t1".to_owned(),
    }
}

fn source_text(source: Source, unit: Unit, r: &Registers, constants: &[Constant; 6], number: i64) -> String {
    match source {
        Source::Port(0) => format!("r{}", r.field0),
        Source::Port(1) => format!("r{}", r.field1),
        Source::Port(_) => format!("r{}", r.register2),
        Source::Stage if unit == Unit::Fma => "#0".to_owned(),
        Source::Stage => "t".to_owned(),
        Source::Uniform { high } => uniform_text(r.uniform, high, constants, number),
        Source::Passed { add } => (if add { "t1" } else { "t0" }).to_owned(),
    }
}

impl Clause {
    /// Formats one of its operations: name, modifiers, destination, operands. Labels of clauses count from `base`, in
    /// words of 16 bytes.
    #[must_use]
    pub fn instruction_text(&self, tuple: usize, unit: Unit, base: u64) -> String {
        let (Some(t), Some(writes)) = (self.tuples.get(tuple), self.writes_of(tuple)) else {
            return String::new();
        };
        let number = self.address.wrapping_sub(base) as i64 / WORD_BYTES as i64;
        let (bits, found) = match unit {
            Unit::Fma => (t.fma_bits, t.fma),
            Unit::Add => (t.add_bits, t.add),
        };
        match found {
            None => format!("{}unknown {bits:#07x}", unit.sign()),
            Some(i) => self.known_text(&i, t, writes, number),
        }
    }

    fn known_text(&self, i: &Instruction, t: &Tuple, writes: &Registers, number: i64) -> String {
        let unit = i.unit();
        let mut text = format!("{}{}", unit.sign(), i.op().name());
        let of_source = |m: Modifier, n: usize| m.source() == Some(n);
        let dotted = |text: &mut String, keep: &dyn Fn(Modifier) -> bool| {
            for (_, value, _) in i.modifiers().filter(|(m, _, shown)| *shown && keep(*m)) {
                let _ = write!(text, ".{}", value.name());
            }
        };
        let sources = i.source_count();
        dotted(&mut text, &|m| m.source().is_none_or(|n| n >= sources));
        let _ = write!(text, " {}", destination(unit, writes));
        for n in 0..sources {
            let Some(source) = i.source(n) else { continue };
            let _ = write!(
                text,
                ", {}",
                source_text(source, unit, &t.registers, &self.constants, number)
            );
            if !i.source_allowed(n) {
                text.push_str("(INVALID)");
            }
            dotted(&mut text, &|m| of_source(m, n));
        }
        for (name, value) in i.immediates() {
            let _ = write!(text, ", {name}:{value}");
        }
        if i.op().staging() != Staging::None && (unit == Unit::Add) {
            let _ = write!(text, ", @r{}", self.header.staging_register());
        }
        text
    }
}

/// Formats a clause: label, header, operations.
#[must_use]
pub fn clause_text(c: &Clause, base: u64) -> String {
    let number = c.address.wrapping_sub(base) / WORD_BYTES as u64;
    let mut text = format!("clause_{number}:\n{}\n{{\n", header_text(c.header));
    for n in 0..c.tuples.len() {
        for unit in [Unit::Fma, Unit::Add] {
            let _ = writeln!(text, "    {}", c.instruction_text(n, unit, base));
        }
    }
    text.push_str("}\n");
    text
}

/// Disassembled code: clauses up to the end of the code or to the first word that cannot be unpacked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shader {
    /// The clauses in order; their addresses are byte distances from the start.
    pub clauses: Vec<Clause>,
    /// The error that stopped the decoder, or `None` if it stopped at padding or at the end of the code.
    pub stopped: Option<ClauseError>,
}

/// Unpacks code from its start to the zero padding after it.
#[must_use]
pub fn disassemble(code: &[u8]) -> Shader {
    let mut clauses = Vec::new();
    let mut at = 0;
    while code.get(at..at + 4).is_some_and(|w| w != [0; 4]) {
        match Clause::from_code(code, at) {
            Ok(c) => {
                at += c.words * WORD_BYTES;
                clauses.push(c);
            }
            Err(e) => {
                return Shader {
                    clauses,
                    stopped: Some(e),
                };
            }
        }
    }
    Shader { clauses, stopped: None }
}
