//! The threads of a connection: one reads frames and answers heartbeats, one (on the agent) sends heartbeats.

use super::answers::HeartbeatAnswers;
use super::error::WireError;
use super::frame::{Frame, Topic};
use super::receiver::{ReceivedFrame, Receiver};
use super::sender::Sender;
use super::stream::{LIVE_WRITE_LIMIT, Stream};
use super::times::HEARTBEAT;
use std::fmt;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Maximum number of queued frames. If the queue is full, the other end has to wait.
pub const WAITING_FRAMES: usize = 8;
const ASK: u8 = 0;

/// Takes the payloads of frames of calls, on the reading thread of their connection. An error ends the connection.
pub type CallsHandler = Box<dyn FnMut(&[u8]) -> Result<(), String> + Send>;

/// The way of frames of calls from the reading thread to their handler. A clone is another handle to the same way.
///
/// Such frames do not pass the queue of the other frames: every call of a program waits for them. A frame without a
/// handler breaks the protocol.
#[derive(Clone, Default)]
pub struct CallsRoute {
    shared: Arc<(Mutex<RouteState>, Condvar)>,
    /// The socket of the connection.
    socket: Option<Arc<Stream>>,
}

/// The state of a [`CallsRoute`].
#[derive(Default)]
enum RouteState {
    /// No frame is allowed.
    #[default]
    NotAllowed,
    /// The reading thread waits for the handler when the first frame arrives.
    Expected,
    /// The reading thread takes this handler when the first frame arrives.
    Ready(CallsHandler),
    /// The reading thread has the handler, or the connection is over.
    Closed,
}

impl fmt::Debug for CallsRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self.lock() {
            RouteState::NotAllowed => "CallsRoute(not allowed)",
            RouteState::Expected => "CallsRoute(expected)",
            RouteState::Ready(_) => "CallsRoute(ready)",
            RouteState::Closed => "CallsRoute(closed)",
        })
    }
}

impl CallsRoute {
    fn lock(&self) -> MutexGuard<'_, RouteState> {
        self.shared.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates the route of a connection. `socket` is another handle to its socket.
    pub fn new(socket: Stream) -> Self {
        Self {
            shared: Arc::default(),
            socket: Some(Arc::new(socket)),
        }
    }

    /// Lets writes wait for the other end as long as it lives: it takes no frames while its own receiver of them waits.
    pub fn allow_long_writes(&self) {
        self.set_write_limit(LIVE_WRITE_LIMIT);
    }

    /// Sets the maximum time of later writes.
    pub fn set_write_limit(&self, limit: Duration) {
        if let Some(socket) = &self.socket {
            // A socket that has ended needs no limit.
            let _ = socket.set_write_limit(limit);
        }
    }

    /// Replaces the state, unless the connection is over.
    fn change(&self, next: RouteState) {
        let mut state = self.lock();
        if !matches!(*state, RouteState::Closed) {
            *state = next;
            self.shared.1.notify_all();
        }
    }

    /// Announces a handler: frames that arrive before [`CallsRoute::set_handler`] wait for it.
    pub fn expect_handler(&self) {
        self.change(RouteState::Expected);
    }

    /// Sets the handler, once for a connection.
    pub fn set_handler(&self, handler: CallsHandler) {
        self.change(RouteState::Ready(handler));
    }

    /// Ends the wait for a handler that never comes.
    pub fn close(&self) {
        self.change(RouteState::Closed);
    }

    /// Takes the handler, and waits for it if it is announced.
    fn take_handler(&self) -> Option<CallsHandler> {
        let waited = self
            .shared
            .1
            .wait_while(self.lock(), |state| matches!(state, RouteState::Expected));
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut *state, RouteState::Closed) {
            RouteState::Ready(handler) => Some(handler),
            other => {
                *state = other;
                None
            }
        }
    }
}

/// A message from a connection's reading thread.
#[derive(Debug)]
pub enum ReaderMessage {
    /// A frame other than a heartbeat or calls.
    Frame(Frame),
    /// The connection has ended. This is the last message.
    Ended(WireError),
}

/// Starts the reading thread. It ends with the connection, or when its receiver is dropped. Frames of calls go to the
/// handler of `calls`, other frames to `to`. The connection stays open after an error of the handler, so that this end
/// can still send the reason.
///
/// # Errors
/// If the operating system cannot start a thread.
pub fn start_reader<T: Send + 'static>(
    mut receiver: Receiver,
    sender: Sender,
    to: SyncSender<T>,
    wrap: fn(ReaderMessage) -> T,
    calls: &CallsRoute,
) -> Result<(), WireError> {
    let calls = calls.clone();
    let work = move || {
        let mut handler: Option<CallsHandler> = None;
        let mut answers: Option<HeartbeatAnswers> = None;
        // The receiver of this message may be gone, so the message can be lost.
        let end = |e| drop(to.send(wrap(ReaderMessage::Ended(e))));
        loop {
            match receiver.receive_in_place() {
                Ok(ReceivedFrame::Other(Frame {
                    concern: Topic::Heartbeat,
                    payload,
                })) => {
                    if payload == [ASK] {
                        match answers_of(&mut answers, &sender) {
                            Some(answers) => answers.answer(),
                            // The other end hears nothing, and ends the connection.
                            None => sender.close(),
                        }
                    }
                }
                Ok(ReceivedFrame::Calls(payload)) => {
                    let is_first = handler.is_none();
                    if is_first {
                        handler = calls.take_handler();
                    }
                    let Some(handler) = &mut handler else {
                        sender.close();
                        end(WireError::Unexpected("a frame of calls without a live program".into()));
                        break;
                    };
                    let passed = match answers_of(&mut answers, &sender) {
                        Some(answers) => answers.while_passing(|| handler(payload)),
                        None => handler(payload),
                    };
                    if let Err(why) = passed {
                        end(WireError::CallsRejected(why));
                        break;
                    }
                    if is_first {
                        receiver.expect_calls();
                    }
                }
                Ok(ReceivedFrame::Other(frame)) => {
                    if to.send(wrap(ReaderMessage::Frame(frame))).is_err() {
                        break;
                    }
                }
                Err(e) => {
                    sender.close();
                    end(e);
                    break;
                }
            }
        }
    };
    thread::Builder::new()
        .name("kinescope-read".into())
        .spawn(work)
        .map(drop)
        .map_err(WireError::from)
}

/// Returns what answers heartbeats, and starts it at the first use. Returns `None` if no thread can be started.
fn answers_of<'a>(answers: &'a mut Option<HeartbeatAnswers>, sender: &Sender) -> Option<&'a HeartbeatAnswers> {
    if answers.is_none() {
        *answers = HeartbeatAnswers::start(sender.clone()).ok();
    }
    answers.as_ref()
}

/// Starts the thread that sends a heartbeat every [`HEARTBEAT`]. It ends with the connection.
///
/// # Errors
/// If the operating system cannot start a thread.
pub fn start_heartbeat(sender: Sender, open: impl Fn() -> bool + Send + 'static) -> Result<(), WireError> {
    let work = move || {
        let mut last = Instant::now();
        while open() {
            thread::sleep(Duration::from_millis(100));
            if last.elapsed() >= HEARTBEAT {
                last = Instant::now();
                if sender.send_bytes(Topic::Heartbeat, &[ASK]).is_err() {
                    sender.close();
                    break;
                }
            }
        }
    };
    thread::Builder::new()
        .name("kinescope-beat".into())
        .spawn(work)
        .map(drop)
        .map_err(WireError::from)
}
