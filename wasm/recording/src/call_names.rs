//! The names of the calls of a run, and of their arguments.

use std::collections::HashMap;
use wasm_run::TrapKind;
use wasm_system::SystemFunction;

/// Start of the names of traps.
const TRAP: &str = "trap: ";
/// Start of the names of system calls that this version does not know.
const UNKNOWN_FUNCTION: &str = "function ";

/// The meaning of a call's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallName {
    /// The start of the run. Arguments: number of copies.
    Run,
    /// The start of a copy. Arguments: its number.
    Start,
    /// A system call. Arguments: those of the program, result, bytes, time.
    System(u32),
    /// System calls that the log did not keep. Arguments: their number.
    LostCalls,
    /// The end of a copy by an exit code. Arguments: the code.
    Exit,
    /// The run stopped while the copy ran. Arguments: none.
    Running,
    /// The run stopped before the copy started. Arguments: none.
    Waiting,
    /// The end of a copy by a trap. Arguments: function and byte offset, then the function's name.
    Trap(TrapKind),
}

impl CallName {
    /// Returns the meaning of a name in a recording.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "run" => Self::Run,
            "start" => Self::Start,
            "lost calls" => Self::LostCalls,
            "exit" => Self::Exit,
            "running" => Self::Running,
            "waiting" => Self::Waiting,
            _ => {
                if let Some(kind) = name.strip_prefix(TRAP) {
                    Self::Trap(TrapKind::ALL.into_iter().find(|k| k.name() == kind)?)
                } else if let Some(number) = name.strip_prefix(UNKNOWN_FUNCTION) {
                    Self::System(number.parse().ok()?)
                } else {
                    let number = SystemFunction::all().iter().position(|f| f.name == name)?;
                    Self::System(u32::try_from(number).ok()?)
                }
            }
        })
    }

    fn text(self) -> String {
        match self {
            Self::Run => "run".to_owned(),
            Self::Start => "start".to_owned(),
            Self::LostCalls => "lost calls".to_owned(),
            Self::Exit => "exit".to_owned(),
            Self::Running => "running".to_owned(),
            Self::Waiting => "waiting".to_owned(),
            Self::Trap(kind) => format!("{TRAP}{kind}"),
            Self::System(number) => match SystemFunction::from_number(number) {
                Some(function) => function.name.to_owned(),
                None => format!("{UNKNOWN_FUNCTION}{number}"),
            },
        }
    }

    /// Returns the names of the arguments. An empty one is not shown: the event has the same value.
    fn arguments(self) -> Vec<String> {
        let names: Vec<&str> = match self {
            Self::Run => vec!["copies"],
            Self::Start => vec!["copy"],
            Self::LostCalls => vec!["count"],
            Self::Exit => vec!["code"],
            Self::Running | Self::Waiting => Vec::new(),
            Self::Trap(_) => vec!["function", "offset"],
            Self::System(number) => {
                let [first, second] = SystemFunction::from_number(number).map_or(["", ""], |f| f.arguments);
                let is_request = SystemFunction::from_number(number).is_some_and(|f| f.name == "invoke");
                vec![first, second, if is_request { "length" } else { "" }, "bytes", ""]
            }
        };
        names.into_iter().map(str::to_owned).collect()
    }
}

/// The names of a recording while it is written.
#[derive(Debug, Default)]
pub(crate) struct CallNames {
    /// Names, in the order of their numbers.
    pub names: Vec<String>,
    /// Names of the arguments.
    pub arguments: Vec<Vec<String>>,
    /// Numbers by text. Traps of one kind share a number.
    numbers: HashMap<String, u32>,
    /// Numbers of system calls by function.
    functions: HashMap<u32, u32>,
}

impl CallNames {
    /// Returns the number of a name, which is added on first use.
    pub fn number(&mut self, name: CallName) -> u32 {
        if let CallName::System(function) = name
            && let Some(number) = self.functions.get(&function)
        {
            return *number;
        }
        let text = name.text();
        let next = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        let number = *self.numbers.entry(text.clone()).or_insert(next);
        if number == next {
            self.names.push(text);
            self.arguments.push(name.arguments());
        }
        if let CallName::System(function) = name {
            self.functions.insert(function, number);
        }
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed_back() {
        let fixed = [CallName::Run, CallName::Start, CallName::LostCalls, CallName::Exit];
        let traps = TrapKind::ALL.into_iter().map(CallName::Trap);
        for name in fixed.into_iter().chain(traps).chain((0..60).map(CallName::System)) {
            assert_eq!(CallName::parse(&name.text()), Some(name));
        }
        for text in ["", "cuLaunchKernel", "trap: unknown", "function x"] {
            assert_eq!(CallName::parse(text), None, "{text}");
        }
    }
}
