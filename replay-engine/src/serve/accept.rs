//! A new connection: preamble, handshake, and whether the client may come in.

use super::session::Session;
use super::strangers::Stranger;
use super::{Shared, pairing};
use crate::wire::message::{SessionRefusal, SessionReply};
use crate::wire::{Channel, Concern, Limits, Preamble, PublicKey, Stream, WRITE_LIMIT, WireError, Word, mismatch};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Who may come in on a connection.
#[derive(Clone, Debug)]
pub(crate) enum Admit {
    /// Clients that the key store pins, and unknown ones while pairing is open.
    Pinned,
    /// The client in this process that has this key.
    Only(PublicKey),
}

/// Counts a known client's connection for as long as it lives.
struct Counted<'a>(&'a Shared);

impl<'a> Counted<'a> {
    /// `None`: there are as many as may be.
    fn enter(shared: &'a Shared) -> Option<Self> {
        let counted = Self(shared);
        let before = shared.connections.fetch_add(1, Ordering::SeqCst);
        (before < shared.options.connections).then_some(counted)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Serves one connection to its end.
pub(crate) fn connection(shared: &Arc<Shared>, stream: Stream, admit: &Admit, stranger: Option<Stranger>) {
    let peer = stream.peer();
    match serve(shared, stream, admit, &peer, stranger) {
        Ok(()) => tracing::debug!(peer, "connection ended"),
        Err(e) => tracing::info!(peer, "connection ended: {e}"),
    }
}

fn serve(
    shared: &Arc<Shared>,
    mut stream: Stream,
    admit: &Admit,
    peer: &str,
    stranger: Option<Stranger>,
) -> Result<(), WireError> {
    let limit = shared.options.introduction;
    let by = Instant::now() + limit;
    stream.set_limits(limit, WRITE_LIMIT)?;
    let (theirs, their_bytes) = match Preamble::receive(&mut stream, by) {
        Ok(p) => p,
        Err(e) if e.kind() == std::io::ErrorKind::InvalidData => {
            // Whatever speaks there gets to know what this is, and nothing else.
            let _ = Preamble::own(Word::NoVersion).send(&mut stream);
            return Err(WireError::Unexpected(format!(
                "a connection that is not the protocol's ({e})"
            )));
        }
        Err(e) => return Err(e.into()),
    };
    let pairs = theirs.known_word() == Some(Word::Pair);
    let word = if shared.connections.load(Ordering::SeqCst) >= shared.options.connections {
        Word::Full
    } else if Preamble::own(Word::Go).common(&theirs).is_none() {
        Word::NoVersion
    } else {
        match theirs.known_word() {
            Some(Word::Session) => Word::Go,
            Some(Word::Pair) if pairing::is_open(shared) => Word::Go,
            Some(Word::Pair) => Word::NotPairing,
            _ => Word::NoVersion,
        }
    };
    let ours = Preamble::own(word);
    let our_bytes = ours.send(&mut stream);
    if word != Word::Go {
        our_bytes?;
        return Err(WireError::Unexpected(match word {
            Word::NoVersion => mismatch(&theirs, &ours),
            Word::NotPairing => "a client that wants to pair while pairing is not open".to_owned(),
            _ => "one connection more than the limit".to_owned(),
        }));
    }
    let prologue: Vec<u8> = their_bytes.into_iter().chain(our_bytes?).collect();
    let mut channel = Channel::respond(stream, &shared.own, &prologue, Limits::FromClient, by)?;
    if pairs {
        // Still a stranger, whom no person has seen: it takes nothing from others until the code can be shown.
        let request = pairing::introduce(&mut channel, peer, Instant::now() + limit)?;
        drop(stranger);
        return pairing::pair(shared, channel, &request);
    }
    let refuse = |why: SessionRefusal| -> Result<(), WireError> {
        tracing::warn!(peer, key = channel.remote.fingerprint(), "client refused: {why}");
        channel.sender.send(Concern::Session, &SessionReply::Refused(why))
    };
    let name = match (admit, &shared.keys) {
        (Admit::Only(key), _) if *key == channel.remote => "this process".to_owned(),
        (Admit::Pinned, Some(keys)) => match keys.by_key(&channel.remote) {
            Ok(Some(peer)) => peer.name,
            Ok(None) => {
                return refuse(SessionRefusal::NotPaired {
                    fingerprint: channel.remote.fingerprint(),
                });
            }
            Err(e) => {
                tracing::error!("the key store cannot be read: {e}");
                return refuse(SessionRefusal::KeysUnreadable);
            }
        },
        _ => {
            return refuse(SessionRefusal::NotPaired {
                fingerprint: channel.remote.fingerprint(),
            });
        }
    };
    let Some(_counted) = Counted::enter(shared) else {
        return refuse(SessionRefusal::Full);
    };
    drop(stranger);
    Session::serve(shared, channel, name)
}
