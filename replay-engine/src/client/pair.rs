//! Pairing from the client side: both ends show a code, both users confirm, both store the other's key.

use super::connection::wire_error_at;
use super::error::{ClientError, Stage};
use super::session::{Endpoint, OTHER_CLIENT, establish_pairing};
use crate::serve::{ANSWER_LIMIT, ANSWER_MARGIN};
use crate::wire::message::PairMessage;
use crate::wire::{
    Channel, KeyStore, KeyStoreError, NamedKey, PublicKey, Topic, WireError, is_valid_name, pairing_code,
};
use std::time::Instant;

/// An agent that was just paired.
#[derive(Clone, Debug)]
pub struct PairedAgent {
    /// Its name in the key store.
    pub name: String,
    /// Its key.
    pub key: PublicKey,
    /// The address that was stored for it.
    pub address: String,
}

fn next(channel: &mut Channel, by: Option<Instant>) -> Result<PairMessage, ClientError> {
    let frame = match by {
        Some(by) => channel.receiver.receive_by(by),
        None => channel.receiver.receive(),
    };
    let frame = frame.map_err(|e| match (e, by) {
        (WireError::Silent, Some(_)) => declined_error(&format!("by the agent within {} s", ANSWER_LIMIT.as_secs())),
        (e, _) => wire_error_at(Stage::Pair, e),
    })?;
    if frame.concern != Topic::Pair {
        let text = format!("a frame about {:?} while pairing", frame.concern);
        return Err(wire_error_at(Stage::Pair, WireError::Unexpected(text)));
    }
    match frame.message().map_err(|e| wire_error_at(Stage::Pair, e.into()))? {
        PairMessage::Busy => Err(ClientError::Refused(OTHER_CLIENT.to_owned())),
        message => Ok(message),
    }
}

fn declined_error(by: &str) -> ClientError {
    ClientError::PairingDeclined { by: by.to_owned() }
}

fn odd(what: &str) -> ClientError {
    ClientError::Protocol {
        stage: Stage::Pair,
        reason: format!("{what} was expected"),
    }
}

/// Returns this machine's name for an agent's client list.
fn own_name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let user = std::env::var("USER").unwrap_or_default();
    let name = format!("{user}-{}", host.trim());
    let name = name.trim_matches('-');
    if is_valid_name(name) {
        name.to_owned()
    } else {
        "client".to_owned()
    }
}

/// Pairs with an agent that is in pairing mode, and stores its key under `name`. `confirm` receives the code
/// (`123 456 789`), which the user compares with the code that the agent shows. It may block for up to
/// [`ANSWER_LIMIT`].
///
/// # Errors
/// If the agent cannot be reached, is not in pairing mode, one of the two users declines, or the key cannot be stored.
pub fn pair(
    endpoint: &Endpoint,
    name: &str,
    keys: &KeyStore,
    confirm: impl FnOnce(&str) -> bool,
) -> Result<PairedAgent, ClientError> {
    exchange(endpoint, name, keys, |_| Ok(()), confirm)
}

/// Pairs like [`pair`], with the agent that has this key. No user is asked.
///
/// # Errors
/// Same as [`pair`], and if the agent has another key. This client's key is then not sent.
pub fn pair_with_key(
    endpoint: &Endpoint,
    name: &str,
    keys: &KeyStore,
    key: &NamedKey,
) -> Result<PairedAgent, ClientError> {
    let check = |shown: PublicKey| match key.matches(&shown) {
        true => Ok(()),
        false => Err(ClientError::OtherKey {
            address: endpoint.address(),
            expected: key.to_string(),
            fingerprint: shown.fingerprint(),
        }),
    };
    exchange(endpoint, name, keys, check, |_| true)
}

/// Pairs with an agent if `check` accepts its key. Only then this client's key is sent.
fn exchange(
    endpoint: &Endpoint,
    name: &str,
    keys: &KeyStore,
    check: impl FnOnce(PublicKey) -> Result<(), ClientError>,
    confirm: impl FnOnce(&str) -> bool,
) -> Result<PairedAgent, ClientError> {
    if !is_valid_name(name) {
        return Err(KeyStoreError::BadName(name.to_owned()).into());
    }
    let mut channel = establish_pairing(endpoint, keys.key_pair(), check)?;
    if let Some(other) = keys.find_by_name(name)?.filter(|p| p.key != channel.remote) {
        return Err(KeyStoreError::NameTaken(other.name).into());
    }
    let sender = channel.sender.clone();
    let send = |message: &PairMessage| {
        sender
            .send(Topic::Pair, message)
            .map_err(|e| wire_error_at(Stage::Pair, e))
    };
    let nonce = pairing_code::nonce().map_err(KeyStoreError::from)?;
    send(&PairMessage::Commit {
        digest: pairing_code::commitment(&channel.hash, &nonce),
        name: own_name(),
    })?;
    let PairMessage::Nonce(theirs) = next(&mut channel, None)? else {
        return Err(odd("the agent's nonce"));
    };
    send(&PairMessage::Reveal(nonce))?;
    // Both users are asked from now on.
    let by = Instant::now() + ANSWER_LIMIT + ANSWER_MARGIN;
    let accepted = confirm(&pairing_code::code(&channel.hash, &nonce, &theirs));
    let sent = send(&PairMessage::Confirm {
        accepted,
        service_port: None,
    });
    if !accepted {
        return Err(declined_error("on this end"));
    }
    // An agent that has rejected this client has closed the connection and has sent the reason first.
    let PairMessage::Confirm { accepted, .. } = next(&mut channel, Some(by)).map_err(|e| match &sent {
        Err(_) => declined_error("on both ends in time"),
        Ok(()) => e,
    })?
    else {
        return Err(odd("a confirmation"));
    };
    if !accepted {
        return Err(declined_error("by the agent"));
    }
    // The agent confirms that it has stored this client's key.
    let PairMessage::Confirm { accepted, service_port } = next(&mut channel, Some(by))? else {
        return Err(odd("a confirmation"));
    };
    if !accepted {
        return Err(declined_error("by the agent"));
    }
    let address = match (endpoint, service_port) {
        (Endpoint::Tcp(address), Some(port)) => {
            let host = address.rsplit_once(':').map_or(address.as_str(), |(host, _)| host);
            format!("{host}:{port}")
        }
        _ => endpoint.address(),
    };
    keys.pin(name, channel.remote, &address)?;
    channel.sender.close();
    Ok(PairedAgent {
        name: name.to_owned(),
        key: channel.remote,
        address,
    })
}
