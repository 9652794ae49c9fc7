//! The messages about runs of WebAssembly programs. Variants are never reordered: a new one is added at the end.

use crate::wasm::{WasmCall, WasmEnd, WasmReport, WasmRun};
use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;
use std::marker::PhantomData;

/// First protocol version with these messages.
pub const WASM_VERSION: u16 = 6;

/// Maximum number of inputs of one message.
pub const MAX_INPUTS_OF_MESSAGE: usize = 1 << 12;
/// Maximum number of requests of one input: their sizes must fit in one message.
pub const MAX_REQUESTS_OF_INPUT: usize = 1 << 20;

/// Client to agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WasmRequest {
    /// Run a program. The program follows as bulk after [`WasmReply::Accepted`], the inputs after [`WasmReply::Ready`].
    Start(Box<WasmRun>),
    /// The next inputs, at most [`MAX_INPUTS_OF_MESSAGE`]. Their requests follow as bulk, one after the other.
    Inputs(#[serde(deserialize_with = "deserialize_inputs")] Vec<WasmInputHeader>),
    /// Stop as soon as possible.
    Cancel,
}

/// An input without its bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WasmInputHeader {
    /// Name of the input.
    pub name: String,
    /// Sizes of its requests in bytes, at most [`MAX_REQUESTS_OF_INPUT`]; the first is the standard input.
    #[serde(deserialize_with = "deserialize_lengths")]
    pub lengths: Vec<u64>,
}

fn deserialize_inputs<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<WasmInputHeader>, D::Error> {
    deserialize_list(from, MAX_INPUTS_OF_MESSAGE, "inputs of a message")
}

fn deserialize_lengths<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u64>, D::Error> {
    deserialize_list(from, MAX_REQUESTS_OF_INPUT, "requests of an input")
}

/// Decodes a list of at most `max` values. A longer list is an error after `max` values, so it occupies no more memory.
fn deserialize_list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
    max: usize,
    what: &'static str,
) -> Result<Vec<T>, D::Error> {
    from.deserialize_seq(ListVisitor {
        max,
        what,
        of: PhantomData,
    })
}

struct ListVisitor<T> {
    max: usize,
    what: &'static str,
    of: PhantomData<T>,
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for ListVisitor<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at most {} {}", self.max, self.what)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Vec<T>, A::Error> {
        let mut list = Vec::new();
        while let Some(value) = values.next_element()? {
            if list.len() == self.max {
                return Err(A::Error::custom(format_args!("more than {} {}", self.max, self.what)));
            }
            list.push(value);
        }
        Ok(list)
    }
}

/// Agent to client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WasmReply {
    /// The target is the client's until the end of the run. The agent waits for the program.
    Accepted,
    /// The program is valid. The agent waits for the inputs, and runs the program after the last one.
    Ready,
    /// The agent does not run the program.
    Refused(WasmRefusal),
    /// The result of an input. Standard output and standard error follow as bulk.
    Result(Box<WasmResultHeader>),
    /// All inputs have results.
    Finished(WasmReport),
    /// The run failed, with the reason.
    Failed(String),
    /// The client cancelled the run.
    Cancelled,
}

/// The result of an input, without its outputs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WasmResultHeader {
    /// Position of the input, from 0.
    pub index: u64,
    /// How the copy ended.
    pub end: WasmEnd,
    /// Size of the standard output, bytes.
    pub output_bytes: u64,
    /// Size of the standard error, bytes.
    pub error_bytes: u64,
    /// The first system calls.
    pub calls: Vec<WasmCall>,
    /// Number of later calls.
    pub lost_calls: u64,
}

/// Why an agent does not run a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WasmRefusal {
    /// No target with this name runs programs.
    NoTarget {
        /// The targets that do.
        known: Vec<String>,
    },
    /// Another client has the target.
    Busy {
        /// Name of that client.
        holder: String,
        /// How long the client has had it, seconds.
        since_s: u64,
    },
    /// The target cannot be used.
    OutOfOrder(String),
    /// The request exceeds a limit of the agent.
    Limit(String),
    /// The program is not valid, or cannot run with the options.
    Program(String),
}

impl fmt::Display for WasmRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTarget { known } if known.is_empty() => f.write_str("no target runs programs"),
            Self::NoTarget { known } => write!(f, "the target runs no programs; {} do", known.join(", ")),
            Self::Busy { holder, since_s } => write!(f, "{holder} has had the target for {since_s} s"),
            Self::OutOfOrder(why) => write!(f, "the target cannot be used: {why}"),
            Self::Limit(why) | Self::Program(why) => f.write_str(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace_core::encode::{from_bytes, to_bytes};

    #[test]
    fn a_message_has_a_maximum_of_inputs_and_requests() {
        let inputs = |count: usize, requests: usize| {
            let header = WasmInputHeader {
                name: String::new(),
                lengths: vec![0; requests],
            };
            WasmRequest::Inputs(vec![header; count])
        };
        let decode = |request: &WasmRequest| from_bytes::<WasmRequest>(&to_bytes(request).unwrap());
        for request in [inputs(MAX_INPUTS_OF_MESSAGE, 1), inputs(1, MAX_REQUESTS_OF_INPUT)] {
            assert_eq!(decode(&request).unwrap(), request);
        }
        let text = decode(&inputs(MAX_INPUTS_OF_MESSAGE + 1, 0)).unwrap_err().to_string();
        assert!(text.contains("more than 4096 inputs of a message"), "{text}");
        let text = decode(&inputs(1, MAX_REQUESTS_OF_INPUT + 1)).unwrap_err().to_string();
        assert!(text.contains("more than 1048576 requests of an input"), "{text}");
    }
}
