//! A request of this library: its arguments, and the way to the worker and back.

use crate::answer::Answer;
use crate::connection::{self, Connection};
use crate::{CallResult, thread_state};
use remote_calls::{CallId, Encoder, Policy, RequestFlags};
use std::cell::Cell;

thread_local! {
    /// Memory of this thread's last request, used again.
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// How a call is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallMode {
    /// Whether the default stream is the calling thread's own.
    pub is_per_thread: bool,
    /// Whether the call waits for its result, whatever its policy.
    pub needs_answer: bool,
}

impl From<bool> for CallMode {
    fn from(is_per_thread: bool) -> Self {
        Self {
            is_per_thread,
            needs_answer: false,
        }
    }
}

/// A request whose arguments are being written.
pub struct Request {
    /// Arguments.
    pub encoder: Encoder,
    /// Whether the default stream is the calling thread's own.
    pub is_per_thread: bool,
    /// Whether an argument can be wrong: then the call waits, so that the error comes from it.
    pub is_uncertain: bool,
    call: CallId,
    connection: &'static Connection,
}

impl Request {
    /// Begins a request.
    ///
    /// # Errors
    /// If the program has not called `cuInit`, or may not call the driver here.
    pub fn new(call: CallId, mode: impl Into<CallMode>) -> CallResult<Self> {
        let mode = mode.into();
        let connection = connection::current()?;
        let buffer = BUFFER.try_with(Cell::take).unwrap_or_default();
        Ok(Self {
            encoder: Encoder::with_buffer(buffer),
            is_per_thread: mode.is_per_thread,
            is_uncertain: mode.needs_answer || !has_context(),
            call,
            connection,
        })
    }

    /// Sends the request as its policy says. A call without an answer returns `None`, unless each call waits, or an
    /// argument is uncertain.
    ///
    /// # Errors
    /// The result of the call, if it is not success.
    pub fn finish(self) -> CallResult<Option<Answer>> {
        match self.call.policy() {
            Policy::Quiet if !self.is_uncertain && !self.connection.waits_for_each() => {
                self.send()?;
                Ok(None)
            }
            _ => self.ask().map(Some),
        }
    }

    /// Sends the request without an answer, whatever its policy, unless each call waits.
    ///
    /// # Errors
    /// If the worker is gone, or an earlier error stays.
    pub fn finish_quietly(self) -> CallResult {
        match self.connection.waits_for_each() {
            true => self.ask().map(drop),
            false => self.send(),
        }
    }

    /// Sends the request and returns the answer.
    ///
    /// # Errors
    /// The result of the call, if it is not success.
    pub fn ask(self) -> CallResult<Answer> {
        self.begin()?.wait()
    }

    /// Sends the request, whose answer the caller waits for later: the worker's work goes on meanwhile.
    ///
    /// # Errors
    /// If the worker is gone.
    pub fn begin(self) -> CallResult<PendingAnswer> {
        let flags = match self.call.policy() {
            Policy::Blocking => RequestFlags::ANSWERED.with(RequestFlags::BLOCKING),
            _ => RequestFlags::ANSWERED,
        };
        let sequence = self.connection.send(self.call, flags, self.encoder.as_bytes());
        let (connection, call) = (self.connection, self.call);
        self.keep_buffer();
        Ok(PendingAnswer {
            connection,
            call,
            sequence: sequence?,
        })
    }

    fn send(self) -> CallResult {
        self.connection.check_health()?;
        let sent = self
            .connection
            .send(self.call, RequestFlags::default(), self.encoder.as_bytes());
        self.keep_buffer();
        sent.map(drop)
    }

    fn keep_buffer(self) {
        let buffer = self.encoder.into_buffer();
        let _ = BUFFER.try_with(|cell| cell.set(buffer));
    }

    /// Returns the connection of the request.
    #[must_use]
    pub const fn connection(&self) -> &'static Connection {
        self.connection
    }
}

/// An answer that is still to come. Each has to be waited for.
#[must_use]
pub struct PendingAnswer {
    connection: &'static Connection,
    call: CallId,
    sequence: u64,
}

impl PendingAnswer {
    /// Waits for the answer.
    ///
    /// # Errors
    /// The result of the call, if it is not success.
    pub fn wait(self) -> CallResult<Answer> {
        let answer = self.connection.wait(self.sequence)?;
        if reports_deferred_errors(self.call) {
            self.connection.take_deferred()?;
        }
        Ok(answer)
    }
}

/// Returns whether a call reports errors of earlier calls without answers. Such a call has no result that the program
/// would lose.
const fn reports_deferred_errors(call: CallId) -> bool {
    matches!(
        call,
        CallId::cuCtxSynchronize
            | CallId::cuStreamSynchronize
            | CallId::cuEventSynchronize
            | CallId::cuStreamQuery
            | CallId::cuEventQuery
            | CallId::copy_to_host
            | CallId::finish_copy_to_device
            | CallId::copy_memory
    )
}

/// Returns whether this thread has a current context. The worker's driver decides for all calls that wait for an answer.
#[must_use]
pub fn has_context() -> bool {
    thread_state::current_context() != remote_calls::HandleNumber::NULL
}
