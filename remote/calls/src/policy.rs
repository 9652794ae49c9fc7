//! How a call travels: without an answer, with one, or with one after a wait.

/// How a call travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The client does not wait. The worker remembers the first failure and reports it with its next answer.
    Quiet,
    /// The client waits for the answer. The call does not wait for the device.
    Answered,
    /// The client waits for the answer. The call can wait for the device, so that the worker continues with the calls of
    /// other threads meanwhile.
    Blocking,
}
