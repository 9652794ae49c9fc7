//! New connections: preamble, handshake, and admission of the client.

use super::pairing;
use super::session::Session;
use super::sessions::SessionLimit;
use super::shared::Shared;
use super::unknown_client_log::LogTopic;
use super::unknown_clients::UnknownClient;
use crate::wire::message::{SessionRefusal, SessionReply};
use crate::wire::{
    Channel, LOWEST, Limits, Preamble, PreambleWord, PublicKey, Stream, Topic, WRITE_LIMIT, WireError,
    describe_mismatch,
};
use std::sync::Arc;
use std::time::Instant;

/// The clients that a connection admits.
#[derive(Clone, Debug)]
pub(crate) enum Admission {
    /// Clients that the key store pins, and unknown ones while pairing is open.
    Pinned,
    /// The client in this process with this key.
    Only(PublicKey),
}

/// Serves one connection to its end.
pub(crate) fn accept_connection(
    shared: &Arc<Shared>,
    stream: Stream,
    admit: &Admission,
    stranger: Option<UnknownClient>,
) {
    let peer = stream.peer();
    let mut known = false;
    match serve(shared, stream, admit, &peer, stranger, &mut known) {
        Ok(()) => tracing::debug!(peer, "connection ended"),
        Err(e) if known => tracing::info!(peer, "connection ended: {e}"),
        // Any unknown client can cause any number of these.
        Err(e) => {
            let line = format!("the connection of an unknown client at {peer} ended: {e}");
            shared.stranger_log.note(LogTopic::Ended, &line);
        }
    }
}

/// Serves the connection. `known` is set once the other end's key is paired, or the user is asked about it. From then
/// on every log line belongs to a known client.
fn serve(
    shared: &Arc<Shared>,
    mut stream: Stream,
    admit: &Admission,
    peer: &str,
    stranger: Option<UnknownClient>,
    known: &mut bool,
) -> Result<(), WireError> {
    let limit = shared.options.introduction;
    let by = Instant::now() + limit;
    stream.set_limits(limit, WRITE_LIMIT)?;
    let arrived = Preamble::receive(&mut stream, by);
    if stranger.as_ref().is_some_and(|s| !s.greet()) {
        // Nothing was written before, so these few bytes do not block.
        Preamble::new(PreambleWord::Full).send(&mut stream)?;
        return Err(WireError::Refused(
            "it was dropped to make room for later connections".into(),
        ));
    }
    let (theirs, their_bytes) = match arrived {
        Ok(p) => p,
        Err(e) if e.kind() == std::io::ErrorKind::InvalidData => {
            // The peer learns what this program is, and nothing else.
            let _ = Preamble::new(PreambleWord::NoVersion).send(&mut stream);
            return Err(WireError::Refused(format!("it does not speak this protocol ({e})")));
        }
        Err(e) => return Err(WireError::from(e).within(limit)),
    };
    let pairs = theirs.known_word() == Some(PreambleWord::Pair);
    let version = Preamble::new(PreambleWord::Go).common_version(&theirs);
    let word = if shared.sessions.is_full() {
        PreambleWord::Full
    } else if version.is_none() {
        PreambleWord::NoVersion
    } else {
        match theirs.known_word() {
            Some(PreambleWord::Session) => PreambleWord::Go,
            Some(PreambleWord::Pair) => pairing::preamble_word(shared),
            _ => PreambleWord::NoVersion,
        }
    };
    let ours = Preamble::new(word);
    let our_bytes = ours.send(&mut stream);
    if word != PreambleWord::Go {
        our_bytes?;
        return Err(WireError::Refused(match word {
            PreambleWord::NoVersion if ours.common_version(&theirs).is_none() => describe_mismatch(&theirs, &ours),
            PreambleWord::NoVersion => format!(
                "it ({}) asks for the word {}, which this agent does not know",
                theirs.program, theirs.word
            ),
            PreambleWord::NotPairing => "it wants to pair, but pairing is not open".to_owned(),
            PreambleWord::Asking => "it wants to pair while another client waits for confirmation".to_owned(),
            _ => "it is one connection more than the limit".to_owned(),
        }));
    }
    let prologue: Vec<u8> = their_bytes.into_iter().chain(our_bytes?).collect();
    let socket = stream.try_clone()?;
    let mut channel =
        Channel::respond(stream, &shared.own, &prologue, Limits::FromClient, by).map_err(|e| e.within(limit))?;
    channel.version = version.unwrap_or(LOWEST);
    if pairs {
        // Still an unknown client, which no user has seen. It takes no place from others until the code can be shown.
        let introduced = pairing::introduce(&mut channel, peer, Instant::now() + limit);
        let request = introduced.map_err(|e| e.within(limit))?;
        drop(stranger);
        return pairing::pair(shared, channel, request, known);
    }
    let refuse = |why: SessionRefusal| -> Result<(), WireError> {
        let key = channel.remote.fingerprint();
        let line = format!("a client at {peer} with key {key} was refused: {why}");
        shared.stranger_log.note(LogTopic::Refused, &line);
        channel.sender.send(Topic::Session, &SessionReply::Refused(why))
    };
    let not_paired = || SessionRefusal::NotPaired {
        fingerprint: channel.remote.fingerprint(),
    };
    let (name, pinned) = match (admit, &shared.keys) {
        (Admission::Only(key), _) if *key == channel.remote => ("this process".to_owned(), false),
        (Admission::Pinned, Some(keys)) => match keys.find_by_key(&channel.remote) {
            Ok(Some(peer)) => (peer.name, true),
            Ok(None) => return refuse(not_paired()),
            Err(e) => {
                shared
                    .stranger_log
                    .note(LogTopic::Refused, &format!("the key store cannot be read: {e}"));
                return refuse(SessionRefusal::KeysUnreadable);
            }
        },
        _ => return refuse(not_paired()),
    };
    let place = match shared.sessions.enter(channel.remote, &channel.sender, pinned) {
        Ok(place) => place,
        Err(SessionLimit::Full) => return refuse(SessionRefusal::Full),
        Err(SessionLimit::Share) => {
            let max = u32::try_from(shared.options.share).unwrap_or(u32::MAX);
            return refuse(SessionRefusal::Share { max });
        }
    };
    *known = true;
    drop(stranger);
    Session::serve(shared, channel, socket, name, place)
}
