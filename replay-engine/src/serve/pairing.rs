//! Pairing from the agent's side: one unknown client, a code that a person compares, a key that is kept.

use super::Shared;
use crate::wire::message::PairMessage;
use crate::wire::{Channel, Concern, PublicKey, WireError, code, name_is_sound};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long the client's person may take to compare the codes.
pub(crate) const PERSON_LIMIT: Duration = Duration::from_secs(300);
/// How long the agent's person may take.
pub const ANSWER_LIMIT: Duration = Duration::from_secs(120);
/// Failed attempts after which pairing closes.
const ATTEMPTS: u32 = 3;

/// An unknown client that wants to pair.
#[derive(Clone, Debug)]
pub struct PairingRequest {
    /// The code, `123 456 789`: the same on both ends unless somebody sits in between.
    pub code: String,
    /// Name that the client proposes for itself; sound, but nobody vouches for it.
    pub name: String,
    /// Where it comes from.
    pub peer: String,
    /// Its key.
    pub key: PublicKey,
}

type Confirm = Arc<dyn Fn(&PairingRequest) -> bool + Send + Sync>;
type Finished = Arc<dyn Fn(&Result<String, String>) + Send + Sync>;

/// Pairing that is open for one unknown client. It closes when one has paired, or after three failed attempts: ones
/// that a person was asked about. What strangers do before that closes nothing and keeps nobody out.
#[derive(Clone)]
pub struct PairingWindow {
    confirm: Confirm,
    finished: Finished,
    service_port: Option<u16>,
    attempts: u32,
    answer: Duration,
}

impl PairingWindow {
    /// `confirm` shows the code to a person and tells what they say. `finished` hears of each attempt: the name under
    /// which the client was kept, or why it was not. `service_port` is the TCP port that clients use later, when
    /// that is another one than pairing's.
    pub fn new(
        confirm: impl Fn(&PairingRequest) -> bool + Send + Sync + 'static,
        finished: impl Fn(&Result<String, String>) + Send + Sync + 'static,
        service_port: Option<u16>,
    ) -> Self {
        Self {
            confirm: Arc::new(confirm),
            finished: Arc::new(finished),
            service_port,
            attempts: ATTEMPTS,
            answer: ANSWER_LIMIT,
        }
    }

    /// The same, where `confirm` has `limit` to come back instead of [`ANSWER_LIMIT`]. A person who did not answer
    /// has declined.
    #[must_use]
    pub fn answer_within(self, limit: Duration) -> Self {
        Self { answer: limit, ..self }
    }
}

/// The window while one client uses it; it goes back when that client fails and attempts are left.
pub(crate) struct Taken<'a> {
    shared: &'a Shared,
    window: Option<PairingWindow>,
}

impl<'a> Taken<'a> {
    /// Takes the open window; `None` when there is none, or another client is being asked about.
    fn new(shared: &'a Shared) -> Option<Self> {
        let window = shared.pairing.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        Some(Self {
            shared,
            window: Some(window),
        })
    }

    /// The client is through: `result` is its name, or why it was not paired. Whoever hears of a failure may try
    /// again at once, so the window goes back first.
    pub fn settle(&mut self, result: &Result<String, String>) {
        let Some(window) = self.window.take() else { return };
        let finished = Arc::clone(&window.finished);
        let open = result.is_err() && self.put_back(window);
        finished(result);
        if result.is_err() && !open {
            finished(&Err("pairing closed after three failed attempts".into()));
        }
    }

    /// Opens the window again after a failed attempt; `false` when that was its last.
    fn put_back(&self, mut window: PairingWindow) -> bool {
        window.attempts = window.attempts.saturating_sub(1);
        if window.attempts == 0 {
            return false;
        }
        let mut open = self.shared.pairing.lock().unwrap_or_else(PoisonError::into_inner);
        // A window that was opened in between counts more.
        open.get_or_insert(window);
        true
    }
}

impl Drop for Taken<'_> {
    /// A client that broke off, or a panic, counts as a failed attempt too.
    fn drop(&mut self) {
        self.settle(&Err("the client broke off".into()));
    }
}

/// Whether an unknown client may try to pair now.
pub(crate) fn is_open(shared: &Shared) -> bool {
    shared.pairing.lock().unwrap_or_else(PoisonError::into_inner).is_some()
}

fn next(channel: &mut Channel, by: Option<Instant>) -> Result<PairMessage, WireError> {
    let frame = match by {
        Some(by) => channel.receiver.receive_by(by)?,
        None => channel.receiver.receive()?,
    };
    if frame.concern != Concern::Pair {
        return Err(WireError::Unexpected(format!(
            "a frame about {:?} while pairing",
            frame.concern
        )));
    }
    Ok(frame.message()?)
}

fn unexpected<T>(message: &PairMessage) -> Result<T, WireError> {
    let name = match message {
        PairMessage::Commit { .. } => "commit",
        PairMessage::Nonce(_) => "nonce",
        PairMessage::Reveal(_) => "reveal",
        PairMessage::Confirm { .. } => "confirm",
    };
    Err(WireError::Unexpected(format!("pairing message `{name}`")))
}

/// Makes the code together with the client: its commitment, the agent's nonce, the client's nonce, all `by` then.
pub(crate) fn introduce(channel: &mut Channel, peer: &str, by: Instant) -> Result<PairingRequest, WireError> {
    let (digest, proposed) = match next(channel, Some(by))? {
        PairMessage::Commit { digest, name } => (digest, name),
        other => return unexpected(&other),
    };
    let nonce = code::nonce().map_err(|e| WireError::Crypto(e.to_string()))?;
    channel.sender.send(Concern::Pair, &PairMessage::Nonce(nonce))?;
    let revealed = match next(channel, Some(by))? {
        PairMessage::Reveal(nonce) => nonce,
        other => return unexpected(&other),
    };
    if code::commitment(&channel.hash, &revealed) != digest {
        return Err(WireError::Crypto(
            "the client revealed another nonce than it committed to".into(),
        ));
    }
    Ok(PairingRequest {
        code: code::code(&channel.hash, &revealed, &nonce),
        name: if name_is_sound(&proposed) {
            proposed
        } else {
            "client".to_owned()
        },
        peer: peer.to_owned(),
        key: channel.remote,
    })
}

/// Asks the agent's person; an error says why the answer is no.
fn ask(window: &PairingWindow, request: &PairingRequest) -> Result<(), String> {
    let (tell, answer) = sync_channel(1);
    let (confirm, request) = (Arc::clone(&window.confirm), request.clone());
    // A thread of its own: what the person's end does with the question must not hold pairing for ever.
    let work = move || {
        // Too late is as good as never.
        let _ = tell.try_send(confirm(&request));
    };
    let spawned = thread::Builder::new().name("kinescope-ask".into()).spawn(work);
    if let Err(e) = spawned {
        return Err(format!("nobody could be asked: {e}"));
    }
    match answer.recv_timeout(window.answer) {
        Ok(true) => Ok(()),
        Ok(false) => Err("it was not confirmed on this end".into()),
        Err(RecvTimeoutError::Timeout) => Err(format!("nobody answered within {} s", window.answer.as_secs_f32())),
        Err(RecvTimeoutError::Disconnected) => Err("the question was not answered".into()),
    }
}

/// Pairs with the client on this channel, when both persons say so.
pub(crate) fn pair(shared: &Shared, mut channel: Channel, request: &PairingRequest) -> Result<(), WireError> {
    let declined = PairMessage::Confirm {
        accepted: false,
        service_port: None,
    };
    let Some(mut taken) = Taken::new(shared) else {
        channel.sender.send(Concern::Pair, &declined)?;
        return Err(WireError::Unexpected(
            "a client that wants to pair while another one is being asked about".into(),
        ));
    };
    // However this client ends, the window goes back.
    let result = match &taken.window {
        Some(window) => with_person(shared, &mut channel, request, window)?,
        None => Err("pairing is not open".into()),
    };
    taken.settle(&result);
    Ok(())
}

/// The part of pairing that persons take: the client's name in the key store, or why it was not paired.
fn with_person(
    shared: &Shared,
    channel: &mut Channel,
    request: &PairingRequest,
    window: &PairingWindow,
) -> Result<Result<String, String>, WireError> {
    let Some(keys) = &shared.keys else {
        return Err(WireError::Unexpected("pairing without a key store".into()));
    };
    let answer = ask(window, request);
    channel.sender.send(
        Concern::Pair,
        &PairMessage::Confirm {
            accepted: answer.is_ok(),
            service_port: window.service_port,
        },
    )?;
    if let Err(why) = answer {
        return Ok(Err(why));
    }
    channel.receiver.set_silence(PERSON_LIMIT)?;
    match next(channel, None)? {
        PairMessage::Confirm { accepted: true, .. } => {}
        PairMessage::Confirm { accepted: false, .. } => return Ok(Err("it was not confirmed by the client".into())),
        other => return unexpected(&other),
    }
    let kept = keep(keys, request);
    // The client keeps the agent's key only when it hears that the agent kept its own.
    channel.sender.send(
        Concern::Pair,
        &PairMessage::Confirm {
            accepted: kept.is_ok(),
            service_port: window.service_port,
        },
    )?;
    Ok(kept)
}

/// Pins the client's key under its name, or that with a number when the name is another client's.
fn keep(keys: &crate::wire::KeyStore, request: &PairingRequest) -> Result<String, String> {
    let mut name = request.name.clone();
    for n in 2..100 {
        match keys.pin(&name, request.key, "") {
            Ok(()) => return Ok(name),
            Err(crate::wire::KeyStoreError::NameTaken(_)) => {
                name = format!("{}-{n}", request.name.get(..60).unwrap_or(&request.name));
            }
            Err(e) => return Err(e.to_string()),
        }
    }
    Err(format!("too many clients are called `{}`", request.name))
}
