//! A new connection: preamble, handshake, and whether the client may come in.

use super::session::Session;
use super::{Shared, pairing};
use crate::wire::message::{SessionRefusal, SessionReply};
use crate::wire::{
    Channel, Concern, HANDSHAKE_LIMIT, Limits, Preamble, PublicKey, Stream, WRITE_LIMIT, WireError, Word, mismatch,
};
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

/// Counts a connection for as long as it lives.
struct Counted<'a>(&'a Shared);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Serves one connection to its end.
pub(crate) fn connection(shared: &Arc<Shared>, stream: Stream, admit: &Admit) {
    let peer = stream.peer();
    let full = shared.connections.fetch_add(1, Ordering::SeqCst) >= shared.options.connections;
    let _counted = Counted(shared);
    match serve(shared, stream, admit, &peer, full) {
        Ok(()) => tracing::debug!(peer, "connection ended"),
        Err(e) => tracing::info!(peer, "connection ended: {e}"),
    }
}

fn serve(shared: &Arc<Shared>, mut stream: Stream, admit: &Admit, peer: &str, full: bool) -> Result<(), WireError> {
    let by = Instant::now() + HANDSHAKE_LIMIT;
    stream.set_limits(HANDSHAKE_LIMIT, WRITE_LIMIT)?;
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
    let mut window = None;
    let word = if full {
        Word::Full
    } else if Preamble::own(Word::Go).common(&theirs).is_none() {
        Word::NoVersion
    } else {
        match theirs.known_word() {
            Some(Word::Session) => Word::Go,
            Some(Word::Pair) => {
                window = shared
                    .pairing
                    .lock()
                    .unwrap_or_else(std::sync::PoisonError::into_inner)
                    .take();
                if window.is_some() { Word::Go } else { Word::NotPairing }
            }
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
    // A window that was taken goes back, whatever happens to this client.
    let mut window = pairing::Taken::new(shared, window);
    let prologue: Vec<u8> = their_bytes.into_iter().chain(our_bytes?).collect();
    let channel = Channel::respond(stream, &shared.own, &prologue, Limits::FromClient, by)?;
    if let Some(open) = window.get() {
        let done = pairing::pair(shared, channel, peer, open)?;
        window.settle(&done);
        return Ok(());
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
    Session::serve(shared, channel, name)
}
