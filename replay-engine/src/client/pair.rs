//! Pairing from the client's side: both ends show a code, both persons confirm, both keep the other's key.

use super::error::{ClientError, Stage};
use super::session::{Endpoint, at, establish_pairing};
use crate::wire::message::PairMessage;
use crate::wire::{Channel, Concern, KeyStore, KeyStoreError, PublicKey, WireError, code, name_is_sound};
use std::time::Duration;

/// How long the agent's person may take to compare the codes.
const PERSON_LIMIT: Duration = Duration::from_secs(300);

/// An agent that was just paired.
#[derive(Clone, Debug)]
pub struct Paired {
    /// Its name in the key store.
    pub name: String,
    /// Its key.
    pub key: PublicKey,
    /// The address that was kept for it.
    pub address: String,
}

fn next(channel: &mut Channel) -> Result<PairMessage, ClientError> {
    let frame = channel.receiver.receive().map_err(|e| at(Stage::Pair, e))?;
    if frame.concern != Concern::Pair {
        let text = format!("a frame about {:?} while pairing", frame.concern);
        return Err(at(Stage::Pair, WireError::Unexpected(text)));
    }
    frame.message().map_err(|e| at(Stage::Pair, e.into()))
}

fn odd(what: &str) -> ClientError {
    ClientError::Protocol {
        stage: Stage::Pair,
        reason: format!("{what} was expected"),
    }
}

/// This machine's name for an agent's list of clients.
fn own_name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let user = std::env::var("USER").unwrap_or_default();
    let name = format!("{user}-{}", host.trim());
    let name = name.trim_matches('-');
    if name_is_sound(name) {
        name.to_owned()
    } else {
        "client".to_owned()
    }
}

/// Pairs with an agent that is in pairing mode, and keeps its key under `name`. `confirm` gets the code
/// (`123 456 789`), which a person compares with the one that the agent shows; it may take its time, up to five
/// minutes.
///
/// # Errors
/// When the agent cannot be reached, is not in pairing mode, one of the two persons declines, or the key cannot be
/// kept.
pub fn pair(
    endpoint: &Endpoint,
    name: &str,
    keys: &KeyStore,
    confirm: impl FnOnce(&str) -> bool,
) -> Result<Paired, ClientError> {
    if !name_is_sound(name) {
        return Err(KeyStoreError::BadName(name.to_owned()).into());
    }
    let mut channel = establish_pairing(endpoint, keys.own())?;
    if let Some(other) = keys.by_name(name)?.filter(|p| p.key != channel.remote) {
        return Err(KeyStoreError::NameTaken(other.name).into());
    }
    let sender = channel.sender.clone();
    let send = |message: &PairMessage| sender.send(Concern::Pair, message).map_err(|e| at(Stage::Pair, e));
    let nonce = code::nonce().map_err(KeyStoreError::from)?;
    send(&PairMessage::Commit {
        digest: code::commitment(&channel.hash, &nonce),
        name: own_name(),
    })?;
    let PairMessage::Nonce(theirs) = next(&mut channel)? else {
        return Err(odd("the agent's nonce"));
    };
    send(&PairMessage::Reveal(nonce))?;
    let accepted = confirm(&code::code(&channel.hash, &nonce, &theirs));
    send(&PairMessage::Confirm {
        accepted,
        service_port: None,
    })?;
    if !accepted {
        return Err(ClientError::PairingDeclined {
            by: "on this end".into(),
        });
    }
    channel
        .receiver
        .set_silence(PERSON_LIMIT)
        .map_err(|e| at(Stage::Pair, e))?;
    let declined = || ClientError::PairingDeclined {
        by: "by the agent".into(),
    };
    let PairMessage::Confirm { accepted, .. } = next(&mut channel)? else {
        return Err(odd("a confirmation"));
    };
    if !accepted {
        return Err(declined());
    }
    // The agent says once more that it has kept this client's key.
    let PairMessage::Confirm { accepted, service_port } = next(&mut channel)? else {
        return Err(odd("a confirmation"));
    };
    if !accepted {
        return Err(declined());
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
    Ok(Paired {
        name: name.to_owned(),
        key: channel.remote,
        address,
    })
}
