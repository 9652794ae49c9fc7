//! Pairing from the agent side: one unknown client, a code that the user compares, a stored key.

use super::shared::Shared;
use super::unknown_client_log::LogTopic;
use crate::wire::message::PairMessage;
use crate::wire::{
    CallsRoute, Channel, KeyStore, KeyStoreError, NamedKey, PreambleWord, PublicKey, ReaderMessage, Sender, Topic,
    WAITING_FRAMES, WireError, is_valid_name, pairing_code, start_reader,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Maximum time for each user to compare the codes. Both are asked at the same time.
pub const ANSWER_LIMIT: Duration = Duration::from_secs(120);
/// Maximum transmission time of the other end's answer after that.
pub(crate) const ANSWER_MARGIN: Duration = Duration::from_secs(5);
/// Number of failed attempts after which pairing closes.
const MAX_ATTEMPTS: u32 = 3;
/// Number of withdrawn questions, whose client was gone, after which pairing closes. They guess nothing, but each takes
/// a user's attention.
const MAX_WITHDRAWN: u32 = 20;
/// Number of alternative names that are tried if another client has the proposed one.
const MAX_NAMES: u32 = 100;

/// An unknown client that wants to pair.
#[derive(Clone, Debug)]
pub struct PairingRequest {
    /// The code, `123 456 789`: equal on both ends unless there is an attacker in between.
    pub code: String,
    /// The name that the client proposes. It is valid but not verified.
    pub name: String,
    /// The name under which it would be stored. It differs if a client with another key has the proposed name.
    pub kept_as: String,
    /// The name under which its key is already known.
    pub known_as: Option<String>,
    /// Its address.
    pub peer: String,
    /// Its key.
    pub key: PublicKey,
    withdrawn: Arc<AtomicBool>,
}

impl PairingRequest {
    /// Returns whether the request is withdrawn: the client is gone, or has declined.
    #[must_use]
    pub fn is_withdrawn(&self) -> bool {
        self.withdrawn.load(Ordering::SeqCst)
    }
}

type Confirm = Arc<dyn Fn(&PairingRequest) -> bool + Send + Sync>;
type Finished = Arc<dyn Fn(&Result<String, String>) + Send + Sync>;

/// Open pairing for one unknown client. It closes when one has paired, or after three failed attempts that a user was
/// asked about. Earlier actions of unknown clients close nothing and block no other client.
#[derive(Clone)]
pub struct PairingWindow {
    confirm: Confirm,
    finished: Finished,
    service_port: Option<u16>,
    attempts: u32,
    withdrawn: u32,
    answer: Duration,
    /// The only key that may pair. Others are declined and do not count.
    only: Option<NamedKey>,
}

impl PairingWindow {
    /// Creates a window. `confirm` shows the code to the user and returns the answer; it should return soon if the
    /// request is withdrawn. `finished` receives the result of each attempt: the stored name of the client, or the
    /// failure. `service_port` is the TCP port for later sessions, if it differs from the pairing port.
    pub fn new(
        confirm: impl Fn(&PairingRequest) -> bool + Send + Sync + 'static,
        finished: impl Fn(&Result<String, String>) + Send + Sync + 'static,
        service_port: Option<u16>,
    ) -> Self {
        Self {
            confirm: Arc::new(confirm),
            finished: Arc::new(finished),
            service_port,
            attempts: MAX_ATTEMPTS,
            withdrawn: MAX_WITHDRAWN,
            answer: ANSWER_LIMIT,
            only: None,
        }
    }

    /// Creates a window like [`PairingWindow::new`], for the client with one key, without asking a user. Clients with
    /// other keys are declined and change nothing.
    pub fn accepting(
        key: NamedKey,
        finished: impl Fn(&Result<String, String>) + Send + Sync + 'static,
        service_port: Option<u16>,
    ) -> Self {
        Self {
            only: Some(key),
            ..Self::new(|_| true, finished, service_port)
        }
    }

    /// Sets the time for `confirm` to `limit` instead of [`ANSWER_LIMIT`]. A missing answer counts as declined.
    #[must_use]
    pub fn answer_within(self, limit: Duration) -> Self {
        Self { answer: limit, ..self }
    }
}

/// Whether unknown clients may pair.
#[derive(Default)]
pub(super) enum Pairing {
    /// No client may pair.
    #[default]
    Closed,
    /// One client may pair.
    Open(PairingWindow),
    /// One client may pair, and the user is being asked about it.
    Asking,
}

fn state(shared: &Shared) -> MutexGuard<'_, Pairing> {
    shared.pairing.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the agent's answer to a client that wants to pair.
pub(super) fn preamble_word(shared: &Shared) -> PreambleWord {
    match &*state(shared) {
        Pairing::Closed => PreambleWord::NotPairing,
        Pairing::Open(_) => PreambleWord::Go,
        Pairing::Asking => PreambleWord::Asking,
    }
}

/// How an attempt failed.
#[derive(Debug)]
enum PairingFailure {
    /// It counts as one of the three attempts.
    Attempt(String),
    /// The client was gone before there was an answer.
    Withdrawn,
}

/// The window while one client uses it. It is returned if that client fails and attempts are left.
struct WindowGuard<'a> {
    shared: &'a Shared,
    window: Option<PairingWindow>,
}

/// The reason why a client does not get the window.
enum WindowRefusal {
    /// Another client has it, or it is not open any more.
    Busy,
    /// It is open for another key.
    OtherKey,
}

impl<'a> WindowGuard<'a> {
    fn new(shared: &'a Shared, key: &PublicKey) -> Result<Self, WindowRefusal> {
        let mut state = state(shared);
        let Pairing::Open(window) = &*state else {
            return Err(WindowRefusal::Busy);
        };
        if window.only.as_ref().is_some_and(|only| !only.matches(key)) {
            return Err(WindowRefusal::OtherKey);
        }
        let window = window.clone();
        *state = Pairing::Asking;
        Ok(Self {
            shared,
            window: Some(window),
        })
    }

    /// Ends the attempt: `result` is the client's name, or the reason for the failure. A notified caller may try again
    /// at once, so the window is returned first.
    fn settle(&mut self, result: Result<String, PairingFailure>) {
        let Some(mut window) = self.window.take() else { return };
        let finished = Arc::clone(&window.finished);
        let (left, outcome) = match result {
            Ok(name) => (None, Ok(name)),
            Err(PairingFailure::Attempt(why)) => {
                window.attempts = window.attempts.saturating_sub(1);
                (Some(window.attempts), Err(why))
            }
            Err(PairingFailure::Withdrawn) => {
                window.withdrawn = window.withdrawn.saturating_sub(1);
                let why = "the client disconnected before anybody answered; the question is withdrawn";
                (Some(window.withdrawn), Err(why.to_owned()))
            }
        };
        let closes = left.filter(|left| *left == 0).map(|_| match window.attempts {
            0 => format!("pairing closed after {} failed attempts", number(MAX_ATTEMPTS)),
            _ => format!("pairing closed: {MAX_WITHDRAWN} clients disconnected while their question waited"),
        });
        {
            let mut state = state(self.shared);
            // A window that was opened meanwhile has priority.
            if matches!(*state, Pairing::Asking) {
                *state = match left {
                    Some(1..) => Pairing::Open(window),
                    _ => Pairing::Closed,
                };
            }
        }
        finished(&outcome);
        if let Some(why) = closes {
            finished(&Err(why));
        }
    }
}

/// Returns small numbers as words.
fn number(n: u32) -> String {
    match n {
        3 => "three".to_owned(),
        n => n.to_string(),
    }
}

impl Drop for WindowGuard<'_> {
    /// A client that disconnected, or a panic, counts as a failed attempt too.
    fn drop(&mut self) {
        self.settle(Err(PairingFailure::Attempt("the client cancelled".into())));
    }
}

fn next(channel: &mut Channel, by: Instant) -> Result<PairMessage, WireError> {
    let frame = channel.receiver.receive_by(by)?;
    if frame.concern != Topic::Pair {
        return Err(WireError::Unexpected(format!(
            "a frame about {:?} while pairing",
            frame.concern
        )));
    }
    Ok(frame.message()?)
}

fn unexpected_message<T>(message: &PairMessage) -> Result<T, WireError> {
    let name = match message {
        PairMessage::Commit { .. } => "commit",
        PairMessage::Nonce(_) => "nonce",
        PairMessage::Reveal(_) => "reveal",
        PairMessage::Confirm { .. } => "confirm",
        PairMessage::Busy => "busy",
    };
    Err(WireError::Unexpected(format!("pairing message `{name}`")))
}

/// Creates the code together with the client: its commitment, the agent's nonce, the client's nonce, all before `by`.
pub(super) fn introduce(channel: &mut Channel, peer: &str, by: Instant) -> Result<PairingRequest, WireError> {
    let (digest, proposed) = match next(channel, by)? {
        PairMessage::Commit { digest, name } => (digest, name),
        other => return unexpected_message(&other),
    };
    let nonce = pairing_code::nonce().map_err(|e| WireError::Crypto(e.to_string()))?;
    channel.sender.send(Topic::Pair, &PairMessage::Nonce(nonce))?;
    let revealed = match next(channel, by)? {
        PairMessage::Reveal(nonce) => nonce,
        other => return unexpected_message(&other),
    };
    if pairing_code::commitment(&channel.hash, &revealed) != digest {
        return Err(WireError::Crypto(
            "the client revealed another nonce than it committed to".into(),
        ));
    }
    let name = if is_valid_name(&proposed) {
        proposed
    } else {
        "client".to_owned()
    };
    Ok(PairingRequest {
        code: pairing_code::code(&channel.hash, &revealed, &nonce),
        kept_as: name.clone(),
        name,
        known_as: None,
        peer: peer.to_owned(),
        key: channel.remote,
        withdrawn: Arc::default(),
    })
}

/// An event during the comparison of a code.
enum Event {
    /// The client sent a frame, or is gone.
    Client(ReaderMessage),
    /// The agent's user answered.
    Person(bool),
    /// There will be no answer.
    Nobody(String),
}

/// Reports that there is no answer if the asking code ends without one, for example by a panic.
struct AnswerGuard(SyncSender<Event>);

impl Drop for AnswerGuard {
    fn drop(&mut self) {
        // After an answer this message is not read.
        let _ = self.0.try_send(Event::Nobody("nobody answered the question".into()));
    }
}

/// Asks the agent's user, in a separate thread: a slow user interface must not block pairing forever.
fn ask(window: &PairingWindow, request: &PairingRequest, sender: &SyncSender<Event>) {
    let (confirm, request) = (Arc::clone(&window.confirm), request.clone());
    let unanswered = AnswerGuard(sender.clone());
    let work = move || {
        let answer = confirm(&request);
        // A late answer is ignored.
        let _ = unanswered.0.send(Event::Person(answer));
    };
    // Without the thread `unanswered` is dropped here, which reports it.
    if let Err(e) = thread::Builder::new().name("kinescope-ask".into()).spawn(work) {
        tracing::warn!("a thread for the question about a client could not be started: {e}");
    }
}

/// Pairs with the client on this channel if both users confirm. `known` is set when the user is asked.
pub(super) fn pair(
    shared: &Shared,
    channel: Channel,
    mut request: PairingRequest,
    known: &mut bool,
) -> Result<(), WireError> {
    let declined = PairMessage::Confirm {
        accepted: false,
        service_port: None,
    };
    let mut taken = match WindowGuard::new(shared, &request.key) {
        Ok(taken) => taken,
        Err(WindowRefusal::Busy) => {
            channel.sender.send(Topic::Pair, &PairMessage::Busy)?;
            return Err(WireError::Refused(
                "it wants to pair while another client waits for confirmation".into(),
            ));
        }
        Err(WindowRefusal::OtherKey) => {
            let line = format!(
                "a client at {} was declined: its key {} is not the one that --accept names",
                request.peer,
                request.key.fingerprint()
            );
            shared.stranger_log.note(LogTopic::Refused, &line);
            return channel.sender.send(Topic::Pair, &declined);
        }
    };
    *known = true;
    let Some(keys) = &shared.keys else {
        return Err(WireError::Unexpected("pairing without a key store".into()));
    };
    // The window is returned in every case.
    let Some(window) = taken.window.clone() else {
        return Err(WireError::Unexpected("pairing that is not open".into()));
    };
    let result = match names(keys, &request) {
        Ok((kept_as, known_as)) => {
            request.kept_as = kept_as;
            request.known_as = known_as;
            let sender = channel.sender.clone();
            let result = with_persons(keys, channel, &request, &window);
            request.withdrawn.store(true, Ordering::SeqCst);
            // Its reading thread ends with it.
            sender.close();
            result?
        }
        Err(why) => {
            channel.sender.send(Topic::Pair, &declined)?;
            Err(PairingFailure::Attempt(why))
        }
    };
    taken.settle(result);
    Ok(())
}

/// Runs the part of pairing with users. Returns the client's name in the key store, or the reason for the failure.
fn with_persons(
    keys: &KeyStore,
    channel: Channel,
    request: &PairingRequest,
    window: &PairingWindow,
) -> Result<Result<String, PairingFailure>, WireError> {
    let Channel { sender, receiver, .. } = channel;
    let limit = window.answer + ANSWER_MARGIN;
    receiver.set_silence(limit)?;
    // One more slot, so that the user's answer never finds the queue full.
    let (sync_sender, events) = sync_channel(WAITING_FRAMES + 1);
    start_reader(
        receiver,
        sender.clone(),
        sync_sender.clone(),
        Event::Client,
        &CallsRoute::default(),
    )?;
    ask(window, request, &sync_sender);
    drop(sync_sender);
    let confirm = |accepted| {
        let message = PairMessage::Confirm {
            accepted,
            service_port: window.service_port,
        };
        sender.send(Topic::Pair, &message)
    };
    if let Err(failed) = compare(&events, &sender, confirm, window.answer)? {
        return Ok(Err(failed));
    }
    let kept = keep(keys, request);
    // The client stores the agent's key only after the agent reports that it stored the client's.
    confirm(kept.is_ok())?;
    Ok(kept.map_err(PairingFailure::Attempt))
}

/// Waits until both users confirmed, in any order, or one of them declined.
fn compare(
    events: &Receiver<Event>,
    sender: &Sender,
    confirm: impl Fn(bool) -> Result<(), WireError>,
    limit: Duration,
) -> Result<Result<(), PairingFailure>, WireError> {
    let begin = Instant::now();
    let (mut here, mut there) = (false, false);
    let no = |why: &str| Ok(Err(PairingFailure::Attempt(why.to_owned())));
    while !(here && there) {
        let wait = if here { limit + ANSWER_MARGIN } else { limit };
        match events.recv_timeout(wait.saturating_sub(begin.elapsed())) {
            Ok(Event::Person(true)) => {
                here = true;
                confirm(true)?;
            }
            Ok(Event::Person(false)) => {
                confirm(false)?;
                return no("it was not confirmed on this end");
            }
            Ok(Event::Nobody(_)) if here => {}
            Ok(Event::Nobody(why)) => {
                confirm(false)?;
                return no(&why);
            }
            Ok(Event::Client(ReaderMessage::Frame(frame))) => {
                let message = match frame.concern {
                    Topic::Pair => frame.message()?,
                    other => {
                        let what = format!("a frame about {other:?} while pairing");
                        return Err(WireError::Unexpected(what));
                    }
                };
                match message {
                    PairMessage::Confirm { accepted: true, .. } if !there => there = true,
                    PairMessage::Confirm { accepted: false, .. } => return no("it was not confirmed by the client"),
                    other => return unexpected_message(&other),
                }
            }
            Ok(Event::Client(ReaderMessage::Ended(_))) if !here => return Ok(Err(PairingFailure::Withdrawn)),
            Ok(Event::Client(ReaderMessage::Ended(_))) | Err(RecvTimeoutError::Disconnected) => {
                return no("the client cancelled");
            }
            Err(RecvTimeoutError::Timeout) if here => {
                sender.close();
                return no(&format!(
                    "nobody confirmed it at the client within {} s",
                    limit.as_secs_f32()
                ));
            }
            Err(RecvTimeoutError::Timeout) => {
                confirm(false)?;
                return no(&format!("nobody answered within {} s", limit.as_secs_f32()));
            }
        }
    }
    Ok(Ok(()))
}

/// Returns a name for a client, and alternatives if another client has it.
fn candidates(name: &str) -> impl Iterator<Item = String> {
    let numbered = move |n: u32| format!("{}-{n}", name.get(..60).unwrap_or(name));
    std::iter::once(name.to_owned()).chain((2..MAX_NAMES).map(numbered))
}

/// Returns the name under which a client would be stored, and the existing name of its key.
fn names(keys: &KeyStore, request: &PairingRequest) -> Result<(String, Option<String>), String> {
    let peers = keys.peers().map_err(|e| e.to_string())?;
    let known_as = peers.iter().find(|p| p.key == request.key).map(|p| p.name.clone());
    let free = |name: &String| peers.iter().all(|p| p.name != *name || p.key == request.key);
    let kept_as = candidates(&request.name).find(free);
    let kept_as = kept_as.ok_or_else(|| format!("too many clients are called `{}`", request.name))?;
    Ok((kept_as, known_as))
}

/// Pins the client's key under the name shown to the user, or under the next one that is still free.
fn keep(keys: &KeyStore, request: &PairingRequest) -> Result<String, String> {
    let report = std::iter::once(request.kept_as.clone());
    for name in report.chain(candidates(&request.name)) {
        match keys.pin(&name, request.key, "") {
            Ok(()) => return Ok(name),
            Err(KeyStoreError::NameTaken(_)) => {}
            Err(e) => return Err(e.to_string()),
        }
    }
    Err(format!("too many clients are called `{}`", request.name))
}
