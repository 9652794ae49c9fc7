//! A system call of a recorded WebAssembly run: arguments and result in words, and the bytes that it moved.

use super::run_copies::RunCopies;
use crate::text;
use std::ops::Range;
use wasm_recording::{CopyStream, RecordedCall};
use wasm_system::{SystemCall, SystemFunction, error_name};

/// Maximum number of bytes of a call that are read.
const MAX_READ_BYTES: u64 = 4096;

/// A system call with what surrounds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallDetails {
    /// The copy that called.
    pub copy: u32,
    /// Position of the call in the log of the copy, from 0.
    pub index: u64,
    /// The call.
    pub call: SystemCall,
    /// The bytes that it moved to or from a stream, if they are recorded.
    pub moved: Option<MovedBytes>,
}

/// Bytes of a stream that a call moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MovedBytes {
    /// The stream.
    pub stream: CopyStream,
    /// Their place in the stream.
    pub range: Range<u64>,
    /// The first of them, at most 4 KiB; `None` if they are damaged.
    pub bytes: Option<Vec<u8>>,
}

impl RunCopies {
    /// Returns the details of the system call at an event, or `None` if the event is no system call. Reads the calls
    /// before it in the same copy.
    #[must_use]
    pub fn call_details(&self, event: u64) -> Option<CallDetails> {
        let copy = self.find_copy_at(event)?;
        let index = event.checked_sub(self.copy(copy)?.call_events.start)?;
        let RecordedCall { call, .. } = self.run().call(copy as usize, index)?;
        Some(CallDetails {
            copy,
            index,
            call,
            moved: self.moved_bytes(copy, index, &call),
        })
    }

    fn moved_bytes(&self, copy: u32, index: u64, call: &SystemCall) -> Option<MovedBytes> {
        let stream = stream_of(call).filter(|_| call.bytes > 0)?;
        let number = copy as usize;
        let before = (0..index).filter_map(|i| self.run().call(number, i));
        let before: Vec<SystemCall> = before
            .map(|c| c.call)
            .filter(|c| stream_of(c) == Some(stream))
            .collect();
        // A request that `invoke` returns ends what was left of the one before it: only calls of one kind follow each
        // other in the stream.
        if stream == CopyStream::Input && before.iter().any(|c| c.function != call.function) {
            return None;
        }
        let start = before
            .iter()
            .fold(0u64, |sum, c| sum.saturating_add(u64::from(c.bytes)));
        // The output limit cuts the last call off.
        let all = self.copy(copy)?.stream_bytes.get(stream as usize).copied()?;
        let end = start.saturating_add(u64::from(call.bytes)).min(all);
        if start >= end {
            return None;
        }
        let size = usize::try_from((end - start).min(MAX_READ_BYTES)).ok()?;
        let mut bytes = vec![0; size];
        let is_read = self.run().read_stream(number, stream, start, &mut bytes);
        Some(MovedBytes {
            stream,
            range: start..end,
            bytes: is_read.then_some(bytes),
        })
    }
}

/// Returns the stream to or from which a call moves its bytes.
fn stream_of(call: &SystemCall) -> Option<CopyStream> {
    let [descriptor, _] = call.arguments;
    match (call.name()?, descriptor) {
        ("fd_read", 0) | ("invoke", _) => Some(CopyStream::Input),
        ("fd_write", 1) | ("respond", _) => Some(CopyStream::Output),
        ("fd_write", 2) => Some(CopyStream::Error),
        _ => None,
    }
}

/// Returns the name of the function of a call.
#[must_use]
pub fn function_name(call: &SystemCall) -> String {
    call.name()
        .map_or_else(|| format!("function {}", call.function), str::to_owned)
}

/// Returns the names and values of the logged arguments: `fd` and `1, standard output`.
#[must_use]
pub fn describe_arguments(call: &SystemCall) -> Vec<(&'static str, String)> {
    let Some(function) = SystemFunction::from_number(call.function) else {
        return Vec::new();
    };
    let named = function.arguments.into_iter().zip(call.arguments);
    named
        .filter(|(name, _)| !name.is_empty())
        .map(|(name, value)| (name, describe_argument(function.name, name, value)))
        .collect()
}

fn describe_argument(function: &str, name: &str, value: u32) -> String {
    let number = text::count(value.into());
    match name {
        "fd" | "old_fd" | "to" => match CopyStream::ALL.into_iter().find(|s| *s as u32 == value) {
            Some(stream) => format!("{number}, {}", stream.name()),
            None => number,
        },
        "id" => match value {
            0 => format!("{number}, realtime"),
            1 => format!("{number}, monotonic"),
            2 => format!("{number}, process CPU time"),
            3 => format!("{number}, thread CPU time"),
            _ => number,
        },
        "precision" => text::duration(value.into()),
        "buf_len" | "capacity" | "length" | "size" | "old_path_len" => text::count_noun(value.into(), "byte", "bytes"),
        "nsubscriptions" | "code" | "signal" | "how" => number,
        // `fd_tell` stores its result at an address.
        "offset" if function != "fd_tell" => number,
        "flags" | "old_flags" | "dirflags" | "rights" | "atim" => format!("{value:#x}"),
        // The others are addresses in the memory of the copy.
        _ => format!("{value:#010x}"),
    }
}

/// Returns the result of a call in words, and whether the call failed: `success`, `EBADF (8)`.
#[must_use]
pub fn describe_result(call: &SystemCall) -> (String, bool) {
    match (call.name(), call.result) {
        (Some("proc_exit"), _) => ("does not return".to_owned(), false),
        (Some("invoke"), -1) => ("no further request".to_owned(), false),
        (Some("invoke"), 0..) => {
            let length = text::count_noun(call.result.unsigned_abs().into(), "byte", "bytes");
            match call.result.unsigned_abs() > call.bytes {
                true => (format!("{length}, more than the capacity"), false),
                false => (length, false),
            }
        }
        (_, result) => {
            let number = result.unsigned_abs();
            match error_name(number) {
                Some(name) if number == 0 => (name.to_owned(), false),
                Some(name) => (format!("{name} ({number})"), true),
                None => (format!("error {number}"), true),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(name: &str, result: i32, arguments: [u32; 2], bytes: u32) -> SystemCall {
        let function = SystemFunction::all().iter().position(|f| f.name == name).unwrap();
        SystemCall {
            function: function as u32,
            result,
            arguments,
            time: 0,
            bytes,
        }
    }

    #[test]
    fn arguments_and_results_have_words() {
        let write = call("fd_write", 0, [1, 0x1000], 4);
        let expected = vec![("fd", "1, standard output".into()), ("iovs", "0x00001000".into())];
        assert_eq!(describe_arguments(&write), expected);
        assert_eq!(describe_result(&write), ("success".to_owned(), false));
        let read = call("fd_read", 8, [7, 0x40], 0);
        assert_eq!(describe_arguments(&read)[0], ("fd", "7".to_owned()));
        assert_eq!(describe_result(&read), ("EBADF (8)".to_owned(), true));
        let random = call("random_get", 0, [0x40, 1], 1);
        assert_eq!(describe_arguments(&random)[1], ("buf_len", "1 byte".to_owned()));
        let time = call("clock_time_get", 0, [1, 1000], 0);
        assert_eq!(describe_arguments(&time)[0], ("id", "1, monotonic".to_owned()));
        assert_eq!(describe_arguments(&call("sched_yield", 0, [0, 0], 0)), []);
        assert_eq!(
            describe_result(&call("proc_exit", 0, [3, 0], 0)).0,
            "does not return".to_owned()
        );
    }

    #[test]
    fn requests_have_lengths_or_errors() {
        let invoke = |result, bytes| describe_result(&call("invoke", result, [0x40, 16], bytes));
        assert_eq!(invoke(5, 5), ("5 bytes".to_owned(), false));
        assert_eq!(invoke(50, 0), ("50 bytes, more than the capacity".to_owned(), false));
        assert_eq!(invoke(-1, 0), ("no further request".to_owned(), false));
        assert_eq!(invoke(-21, 0), ("EFAULT (21)".to_owned(), true));
    }

    #[test]
    fn unknown_function_has_its_number() {
        let unknown = SystemCall {
            function: 99,
            ..call("fd_read", 300, [0, 0], 0)
        };
        assert_eq!(function_name(&unknown), "function 99");
        assert_eq!(describe_arguments(&unknown), []);
        assert_eq!(describe_result(&unknown), ("error 300".to_owned(), true));
    }
}
