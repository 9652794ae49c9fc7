//! Messages of CUDA API remoting: calls of the driver API as a program's stand-in driver sends them to a worker process.
//!
//! Both ends compile the same table of calls ([`calls!`]). It names the form of each argument, so that one macro on each
//! side makes the code of most calls. Calls whose arguments are lists, memory or structures with pointers have messages
//! of their own in [`message`].
//!
//! The crate contains no `unsafe`: a worker reads messages of an unknown program with it.

mod codec;
mod error;
mod form;
mod handle;
mod header;
pub mod library;
pub mod message;
mod policy;
mod table;
#[cfg(test)]
mod tests;

pub use codec::{Decoder, Encoder, Scalar};
pub use error::MessageError;
pub use form::{
    Created, Destroyed, Form, Input, InputBytes, Kind, Object, OptionalOutput, Output, OutputBytes, Resolved, Text,
    Value, kinds,
};
pub use handle::{HandleKind, HandleNumber};
pub use header::{ANSWER_HEADER_BYTES, AnswerHeader, REQUEST_HEADER_BYTES, RequestFlags, RequestHeader};
pub use policy::Policy;
pub use table::{CallId, TABLE_DIGEST};

/// Re-exported for the macro [`calls!`], whose forms name the driver's structures.
pub use cuda_driver;
