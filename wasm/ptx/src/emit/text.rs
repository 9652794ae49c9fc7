//! Operands as PTX text, and calls of PTX functions.

use std::fmt::{self, Display, Write};

/// Writes one line of PTX to a `String`, which never fails.
macro_rules! line {
    ($out:expr, $($format:tt)*) => {{
        use std::fmt::Write as _;
        let _ = writeln!($out, $($format)*);
    }};
}
pub(crate) use line;

/// An operand of an integer or bit instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Source {
    /// Register of 32 bits.
    Word(u32),
    /// Register of 64 bits.
    Wide(u32),
    /// Constant of 32 bits.
    WordConstant(u32),
    /// Constant of 64 bits.
    WideConstant(u64),
}

impl Source {
    /// Returns true for constants.
    pub fn is_constant(self) -> bool {
        matches!(self, Self::WordConstant(_) | Self::WideConstant(_))
    }
}

impl Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Word(register) => write!(f, "%r{register}"),
            Self::Wide(register) => write!(f, "%d{register}"),
            Self::WordConstant(value) => write!(f, "{}", value.cast_signed()),
            Self::WideConstant(value) => match i32::try_from(value.cast_signed()) {
                Ok(small) => write!(f, "{small}"),
                Err(_) => write!(f, "0x{value:x}"),
            },
        }
    }
}

/// An operand of a floating-point instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FloatSource(pub Source);

impl Display for FloatSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Source::WordConstant(value) => write!(f, "0f{value:08X}"),
            Source::WideConstant(value) => write!(f, "0d{value:016X}"),
            register => register.fmt(f),
        }
    }
}

/// What a PTX function returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReturnForm {
    /// The status alone: 4 bytes.
    Status,
    /// Status, then 32 bits at byte 4.
    Word,
    /// Status, then 64 bits at byte 8.
    Wide,
}

impl ReturnForm {
    /// Returns the parameter declaration with `name`.
    pub fn declaration(self, name: &str) -> String {
        match self {
            Self::Status => format!(".param .b32 {name}"),
            Self::Word => format!(".param .align 8 .b8 {name}[8]"),
            Self::Wide => format!(".param .align 8 .b8 {name}[16]"),
        }
    }
}

/// A call of a PTX function with parameters in `.param` space.
pub(crate) struct Call<'a> {
    /// Name of the function, or the register with its address.
    pub target: &'a str,
    /// Prototype label of an indirect call.
    pub prototype: Option<&'a str>,
    pub arguments: &'a [Source],
    pub form: ReturnForm,
    /// Register that receives the status.
    pub status: u32,
    /// Register that receives the value.
    pub result: Option<Source>,
}

impl Call<'_> {
    /// Writes the call.
    pub fn write(&self, out: &mut String) {
        // The assembler does not let these names hide those of the function's own parameters.
        let _ = writeln!(out, "{{");
        let mut list = String::new();
        for (index, argument) in self.arguments.iter().enumerate() {
            let bits = match argument {
                Source::Word(_) | Source::WordConstant(_) => 32,
                Source::Wide(_) | Source::WideConstant(_) => 64,
            };
            line!(
                out,
                ".param .b{bits} x{index};\nst.param.b{bits} [x{index}], {argument};"
            );
            let _ = write!(list, "{}x{index}", if index == 0 { "" } else { "," });
        }
        line!(out, "{};", self.form.declaration("y"));
        let _ = write!(out, "call (y), {}, ({list})", self.target);
        if let Some(prototype) = self.prototype {
            let _ = write!(out, ", {prototype}");
        }
        line!(out, ";\nld.param.b32 %r{}, [y];", self.status);
        match (self.form, self.result) {
            (ReturnForm::Word, Some(result)) => line!(out, "ld.param.b32 {result}, [y+4];"),
            (ReturnForm::Wide, Some(result)) => line!(out, "ld.param.b64 {result}, [y+8];"),
            _ => {}
        }
        let _ = writeln!(out, "}}");
    }
}
