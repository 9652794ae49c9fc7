//! The table of instructions: operation, name, and fields with their bits.

use std::fmt::Write as _;

/// Operations that a decoder runs.
pub(super) mod opcode {
    pub const NOP: u64 = 0;
    pub const MOVE48: u64 = 1;
    pub const MOVE32: u64 = 2;
    pub const RUN_COMPUTE: u64 = 4;
    pub const ADD_IMMEDIATE32: u64 = 16;
    pub const ADD_IMMEDIATE64: u64 = 17;
    pub const COMPARE_SELECT32: u64 = 18;
    pub const LOAD_MULTIPLE: u64 = 20;
    pub const BRANCH: u64 = 22;
    pub const CALL: u64 = 32;
    pub const JUMP: u64 = 33;
    pub const PROGRESS_LOAD: u64 = 43;
}

/// How a field is shown.
#[derive(Clone, Copy)]
enum Form {
    Number,
    Signed,
    Hex,
    /// A bit; it is shown if it is set.
    Flag,
    /// A register, `r3`.
    Register,
    /// Two registers, `d4`.
    Pair,
    /// A value with names.
    Names(&'static [(u64, &'static str)]),
}
use Form::{Flag, Hex, Names, Number, Pair, Register, Signed};

/// A field: its name, first bit and number of bits.
type Field = (&'static str, u32, u32, Form);

/// An instruction.
struct Instruction {
    code: u64,
    name: &'static str,
    fields: &'static [Field],
}

const fn instruction(code: u64, name: &'static str, fields: &'static [Field]) -> Instruction {
    Instruction { code, name, fields }
}

const CONDITIONS: &[(u64, &str)] = &[
    (0, "<= 0"),
    (1, "> 0"),
    (2, "= 0"),
    (3, "!= 0"),
    (4, "< 0"),
    (5, ">= 0"),
    (6, "always"),
];
const SCOPES: &[(u64, &str)] = &[(0, "system"), (2, "group")];
const FLUSHES: &[(u64, &str)] = &[
    (0, "none"),
    (1, "clean"),
    (2, "invalidate"),
    (3, "clean and invalidate"),
];
const AXES: &[(u64, &str)] = &[(0, "X"), (1, "Y"), (2, "Z")];
const HEAP_OPERATIONS: &[(u64, &str)] = &[
    (0, "vertex/tiler started"),
    (1, "vertex/tiler completed"),
    (3, "fragment completed"),
];
const STATES: &[(u64, &str)] = &[
    (0, "timestamp"),
    (1, "cycle count"),
    (2, "disjoint count"),
    (3, "error status"),
];
const PROGRESS: Field = ("progress", 32, 1, Flag);
const WAIT: Field = ("wait", 16, 16, Hex);
const SIGNAL: Field = ("signal slot", 48, 4, Number);
const SELECTS: [Field; 4] = [
    ("resources", 40, 2, Number),
    ("shader", 42, 2, Number),
    ("thread storage", 44, 2, Number),
    ("uniforms", 46, 2, Number),
];
const RUN_COMPUTE: &[Field] = &[
    ("task increment", 0, 14, Number),
    ("axis", 14, 2, Names(AXES)),
    PROGRESS,
    SELECTS[0],
    SELECTS[1],
    SELECTS[2],
    SELECTS[3],
];
const RUN_COMPUTE_INDIRECT: &[Field] = &[
    ("workgroups per task", 0, 16, Number),
    PROGRESS,
    SELECTS[0],
    SELECTS[1],
    SELECTS[2],
    SELECTS[3],
];
const RUN_TILING: &[Field] = &[
    ("flags", 0, 32, Hex),
    PROGRESS,
    SELECTS[0],
    SELECTS[1],
    SELECTS[2],
    SELECTS[3],
];
const RUN_IDVS: &[Field] = &[
    ("flags", 0, 32, Hex),
    PROGRESS,
    ("malloc", 33, 1, Flag),
    ("draw id in a register", 34, 1, Flag),
    ("varying resources", 35, 1, Flag),
    ("varying uniforms", 36, 1, Flag),
    ("varying thread storage", 37, 1, Flag),
    ("fragment resources", 38, 1, Flag),
    ("fragment thread storage", 39, 1, Flag),
    ("draw id", 40, 8, Register),
];
const MULTIPLE: &[Field] = &[
    ("registers from", 48, 8, Register),
    ("mask", 16, 16, Hex),
    ("address", 40, 8, Pair),
    ("offset", 0, 16, Signed),
];
const TARGET: &[Field] = &[("address", 40, 8, Pair), ("length", 32, 8, Register)];
const SYNC: &[Field] = &[
    ("error propagates", 0, 1, Flag),
    ("scope", 1, 2, Names(SCOPES)),
    WAIT,
    ("data", 32, 8, Register),
    ("address", 40, 8, Pair),
    SIGNAL,
];
const SYNC_WIDE: &[Field] = &[
    ("error propagates", 0, 1, Flag),
    ("scope", 1, 2, Names(SCOPES)),
    WAIT,
    ("data", 32, 8, Pair),
    ("address", 40, 8, Pair),
    SIGNAL,
];
const SYNC_WAIT: &[Field] = &[
    ("error rejects", 0, 1, Flag),
    ("condition", 28, 4, Names(&[(0, "<="), (1, ">")])),
    ("data", 32, 8, Register),
    ("address", 40, 8, Pair),
];
const ADD: &[Field] = &[
    ("destination", 48, 8, Register),
    ("source", 40, 8, Register),
    ("immediate", 0, 32, Signed),
];
const ADD_WIDE: &[Field] = &[
    ("destination", 48, 8, Pair),
    ("source", 40, 8, Pair),
    ("immediate", 0, 32, Signed),
];

const INSTRUCTIONS: [Instruction; 38] = [
    instruction(0, "NOP", &[]),
    instruction(1, "MOVE48", &[("destination", 48, 8, Pair), ("immediate", 0, 48, Hex)]),
    instruction(
        2,
        "MOVE32",
        &[("destination", 48, 8, Register), ("immediate", 0, 32, Hex)],
    ),
    instruction(3, "WAIT", &[("slots", 16, 16, Hex), PROGRESS]),
    instruction(4, "RUN_COMPUTE", RUN_COMPUTE),
    instruction(5, "RUN_TILING", RUN_TILING),
    instruction(6, "RUN_IDVS", RUN_IDVS),
    instruction(
        7,
        "RUN_FRAGMENT",
        &[("tile enable map", 0, 1, Flag), ("tile order", 4, 4, Number), PROGRESS],
    ),
    instruction(
        8,
        "RUN_FULLSCREEN",
        &[("flags", 0, 32, Hex), PROGRESS, ("draw", 40, 8, Pair)],
    ),
    instruction(9, "FINISH_TILING", &[PROGRESS]),
    instruction(
        11,
        "FINISH_FRAGMENT",
        &[
            ("counts", 0, 1, Flag),
            WAIT,
            ("last heap chunk", 32, 8, Pair),
            ("first heap chunk", 40, 8, Pair),
            SIGNAL,
        ],
    ),
    instruction(16, "ADD_IMMEDIATE32", ADD),
    instruction(17, "ADD_IMMEDIATE64", ADD_WIDE),
    instruction(
        18,
        "UMIN32",
        &[
            ("destination", 48, 8, Register),
            ("sources", 40, 8, Register),
            ("and", 32, 8, Register),
        ],
    ),
    instruction(20, "LOAD_MULTIPLE", MULTIPLE),
    instruction(21, "STORE_MULTIPLE", MULTIPLE),
    instruction(
        22,
        "BRANCH",
        &[
            ("value", 40, 8, Register),
            ("condition", 28, 3, Names(CONDITIONS)),
            ("offset", 0, 16, Signed),
        ],
    ),
    instruction(
        23,
        "SET_SB_ENTRY",
        &[("endpoint", 0, 4, Number), ("other", 4, 4, Number)],
    ),
    instruction(24, "PROGRESS_WAIT", &[("queue", 0, 5, Number), ("source", 40, 8, Pair)]),
    instruction(
        25,
        "SET_EXCEPTION_HANDLER",
        &[
            ("exception", 0, 8, Number),
            ("address", 40, 8, Pair),
            ("length", 32, 8, Register),
        ],
    ),
    instruction(32, "CALL", TARGET),
    instruction(33, "JUMP", TARGET),
    instruction(
        34,
        "REQ_RESOURCE",
        &[
            ("compute", 0, 1, Flag),
            ("fragment", 1, 1, Flag),
            ("tiler", 2, 1, Flag),
            ("idvs", 3, 1, Flag),
        ],
    ),
    instruction(
        36,
        "FLUSH_CACHE2",
        &[
            ("L2", 0, 4, Names(FLUSHES)),
            ("load/store cache", 4, 4, Names(FLUSHES)),
            ("others", 8, 4, Names(FLUSHES)),
            WAIT,
            ("flush id", 40, 8, Register),
            SIGNAL,
        ],
    ),
    instruction(37, "SYNC_ADD32", SYNC),
    instruction(38, "SYNC_SET32", SYNC),
    instruction(39, "SYNC_WAIT32", SYNC_WAIT),
    instruction(
        40,
        "STORE_STATE",
        &[
            ("state", 32, 2, Names(STATES)),
            ("address", 40, 8, Pair),
            ("offset", 0, 16, Signed),
            WAIT,
            SIGNAL,
        ],
    ),
    instruction(41, "PROT_REGION", &[("eight-byte units", 0, 16, Number)]),
    instruction(42, "PROGRESS_STORE", &[("source", 40, 8, Pair)]),
    instruction(43, "PROGRESS_LOAD", &[("destination", 48, 8, Pair)]),
    instruction(44, "RUN_COMPUTE_INDIRECT", RUN_COMPUTE_INDIRECT),
    instruction(47, "ERROR_BARRIER", &[]),
    instruction(48, "HEAP_SET", &[("address", 40, 8, Pair)]),
    instruction(
        49,
        "HEAP_OPERATION",
        &[("operation", 32, 2, Names(HEAP_OPERATIONS)), WAIT, SIGNAL],
    ),
    instruction(
        50,
        "TRACE_POINT",
        &[
            ("registers from", 32, 8, Register),
            ("count", 40, 8, Number),
            WAIT,
            SIGNAL,
        ],
    ),
    instruction(51, "SYNC_ADD64", SYNC_WIDE),
    instruction(52, "SYNC_SET64", SYNC_WIDE),
];
/// It comes last in the numbers and has the fields of the narrow form.
const SYNC_WAIT64: Instruction = instruction(53, "SYNC_WAIT64", SYNC_WAIT);

/// Describes an instruction: its name and fields, or returns `None` if its operation is unknown.
pub(super) fn describe_instruction(word: u64) -> Option<String> {
    let code = word >> 56;
    let known = INSTRUCTIONS.iter().chain([&SYNC_WAIT64]).find(|i| i.code == code)?;
    let mut text = known.name.to_owned();
    let mut separator = ": ";
    for (name, start, bits, form) in known.fields {
        let value = word >> start & ((1u64 << bits) - 1);
        let value = match form {
            Flag if value == 0 => continue,
            Flag => String::new(),
            Number => format!(" {value}"),
            Hex => format!(" {value:#x}"),
            Register => format!(" r{value}"),
            Pair => format!(" d{value}"),
            Signed => {
                let unused = 64 - bits;
                format!(" {}", (value << unused) as i64 >> unused)
            }
            Names(names) => match names.iter().find(|n| n.0 == value) {
                Some((_, name)) => format!(" {name}"),
                None => format!(" {value}"),
            },
        };
        // Writing to a string cannot fail.
        let _ = write!(text, "{separator}{name}{value}");
        separator = ", ";
    }
    Some(text)
}
