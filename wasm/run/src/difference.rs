//! The first difference of two results of the same input, for comparisons of targets and of runs.

use crate::{ProgramRun, RunEnd, TrapKind};
use std::fmt;
use wasm_system::{Stream, SystemCall};

/// The first difference of two results. The system calls come before the outputs: they say when the copies part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunDifference {
    /// A system call differs, or only one copy made it.
    Call {
        /// Number of the call, from 0.
        index: usize,
        /// The call of the first copy.
        first: Option<SystemCall>,
        /// The call of the second copy.
        second: Option<SystemCall>,
    },
    /// The numbers of calls after the end of the logs differ.
    LostCalls {
        /// Number of calls of the first copy after its log.
        first: u64,
        /// Number of calls of the second copy after its log.
        second: u64,
    },
    /// An output differs, or is longer.
    Output {
        /// The stream.
        stream: Stream,
        /// Offset of the first byte that differs or is missing.
        offset: usize,
    },
    /// The copies end in different ways.
    End {
        /// End of the first copy.
        first: RunEnd,
        /// End of the second copy.
        second: RunEnd,
    },
}

impl RunDifference {
    /// Returns the first difference of two results, or `None` if they are equal.
    ///
    /// Places of traps count only where both are known, and not for nested calls: targets count them at other places.
    #[must_use]
    pub fn find(first: &ProgramRun, second: &ProgramRun) -> Option<Self> {
        Self::list(first, second).next()
    }

    /// Returns all differences in their order: the first system call, each output, the end.
    ///
    /// Places of traps count as for [`RunDifference::find`].
    #[must_use]
    pub fn find_all(first: &ProgramRun, second: &ProgramRun) -> Vec<Self> {
        Self::list(first, second).collect()
    }

    fn list(first: &ProgramRun, second: &ProgramRun) -> impl Iterator<Item = Self> {
        type Search = fn(&ProgramRun, &ProgramRun) -> Option<RunDifference>;
        let searches: [Search; 4] = [
            find_call,
            |a, b| find_output(Stream::Output, &a.standard_output, &b.standard_output),
            |a, b| find_output(Stream::Error, &a.standard_error, &b.standard_error),
            find_end,
        ];
        searches.into_iter().filter_map(move |search| search(first, second))
    }
}

fn find_call(first: &ProgramRun, second: &ProgramRun) -> Option<RunDifference> {
    let count = first.calls.len().max(second.calls.len());
    let pairs = (0..count).map(|i| (i, first.calls.get(i), second.calls.get(i)));
    let differing = pairs.into_iter().find(|(_, a, b)| a != b);
    let call = differing.map(|(index, a, b)| RunDifference::Call {
        index,
        first: a.copied(),
        second: b.copied(),
    });
    call.or_else(|| {
        (first.lost_calls != second.lost_calls).then_some(RunDifference::LostCalls {
            first: first.lost_calls,
            second: second.lost_calls,
        })
    })
}

fn find_output(stream: Stream, first: &[u8], second: &[u8]) -> Option<RunDifference> {
    let same = first.iter().zip(second).take_while(|(a, b)| a == b).count();
    (same < first.len().max(second.len())).then_some(RunDifference::Output { stream, offset: same })
}

fn find_end(first: &ProgramRun, second: &ProgramRun) -> Option<RunDifference> {
    let differs = !is_same_end(&first.end, &second.end);
    differs.then(|| RunDifference::End {
        first: first.end.clone(),
        second: second.end.clone(),
    })
}

fn is_same_end(first: &RunEnd, second: &RunEnd) -> bool {
    match (first, second) {
        (RunEnd::Trap(a), RunEnd::Trap(b)) => {
            let has_place = a.kind != TrapKind::CallStackExhausted;
            a.kind == b.kind && (!has_place || a.place.as_ref().zip(b.place.as_ref()).is_none_or(|(a, b)| a == b))
        }
        _ => first == second,
    }
}

impl fmt::Display for RunDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call { index, first, second } => {
                let name = |call: &Option<SystemCall>| call.map_or_else(|| "none".to_owned(), |c| c.to_string());
                write!(f, "system call {index}: {} and {}", name(first), name(second))
            }
            Self::LostCalls { first, second } => {
                write!(f, "{first} and {second} system calls after the end of the log")
            }
            Self::Output { stream, offset } => {
                let name = match stream {
                    Stream::Output => "output",
                    Stream::Error => "error",
                };
                write!(f, "standard {name} differs at byte {offset}")
            }
            Self::End { first, second } => write!(f, "{first} and {second}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Trap, TrapPlace};

    fn call(result: i32) -> SystemCall {
        SystemCall {
            function: 26,
            result,
            arguments: [1, 0x1000],
            time: 5,
            bytes: 3,
        }
    }

    fn run() -> ProgramRun {
        ProgramRun {
            end: RunEnd::Exit(0),
            standard_output: b"abc".to_vec(),
            standard_error: Vec::new(),
            calls: vec![call(0), call(8)],
            lost_calls: 0,
        }
    }

    /// Returns the text of the difference to a changed copy of a result.
    fn difference(change: impl FnOnce(&mut ProgramRun)) -> Option<String> {
        let mut other = run();
        change(&mut other);
        RunDifference::find(&run(), &other).map(|d| d.to_string())
    }

    #[test]
    fn the_first_difference_is_found() {
        assert_eq!(difference(|_| {}), None);
        let changed = difference(|r| {
            r.calls[1].result = 28;
            r.standard_output.clear();
        });
        let calls =
            "system call 1: fd_write(fd=1, iovs=0x1000) = 8 (3 bytes) and fd_write(fd=1, iovs=0x1000) = 28 (3 bytes)";
        assert_eq!(changed.as_deref(), Some(calls));
        let mut other = run();
        other.standard_output.clear();
        other.end = RunEnd::Exit(1);
        let all = RunDifference::find_all(&run(), &other);
        let texts: Vec<String> = all.iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            ["standard output differs at byte 0", "exit code 0 and exit code 1"]
        );
        let fewer = difference(|r| r.calls.truncate(1));
        let none = "system call 1: fd_write(fd=1, iovs=0x1000) = 8 (3 bytes) and none";
        assert_eq!(fewer.as_deref(), Some(none));
        let lost = difference(|r| r.lost_calls = 4);
        assert_eq!(lost.as_deref(), Some("0 and 4 system calls after the end of the log"));
        let longer = difference(|r| r.standard_output.push(0));
        assert_eq!(longer.as_deref(), Some("standard output differs at byte 3"));
        let byte = difference(|r| r.standard_error.push(0));
        assert_eq!(byte.as_deref(), Some("standard error differs at byte 0"));
        let end = difference(|r| r.end = RunEnd::Exit(3));
        assert_eq!(end.as_deref(), Some("exit code 0 and exit code 3"));
    }

    #[test]
    fn an_unknown_place_is_no_difference() {
        let trap = |kind, offset: Option<u64>| ProgramRun {
            end: RunEnd::Trap(Trap {
                kind,
                place: offset.map(|offset| TrapPlace {
                    function: "f".into(),
                    function_index: 3,
                    offset,
                }),
            }),
            ..run()
        };
        let known = trap(TrapKind::Unreachable, Some(7));
        assert_eq!(RunDifference::find(&known, &trap(TrapKind::Unreachable, None)), None);
        assert_eq!(RunDifference::find(&known, &known), None);
        for other in [
            trap(TrapKind::Unreachable, Some(8)),
            trap(TrapKind::TimeLimit, None),
            run(),
        ] {
            let found = RunDifference::find(&known, &other);
            assert!(matches!(found, Some(RunDifference::End { .. })), "{found:?}");
        }
    }
}
