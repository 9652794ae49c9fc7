//! Output about a paired agent, shared by the verbs that pair with agents and forget them.

use super::{Exit, Failure, Out};
use replay_engine::wire::KeyStore;
use serde::Serialize;

/// An agent that was paired or forgotten, with the fingerprint instead of its key.
#[derive(Serialize)]
pub struct AgentRow<'a> {
    /// Name of the agent in this program.
    pub name: &'a str,
    /// Its address: `HOST:PORT`, or the path of its unix socket.
    pub address: &'a str,
    /// Fingerprint of its key; `null` if the forgotten entry had no valid key.
    pub fingerprint: Option<&'a str>,
}

/// Removes an agent from the key store and prints its entry.
pub fn forget(keys: &KeyStore, name: &str, out: &mut Out) -> Result<Exit, Failure> {
    let gone = keys.forget(name).map_err(|e| Failure::usage(format!("keys: {e}")))?;
    let Some(gone) = gone else {
        return Err(Failure::usage(format!(
            "no paired agent is named '{name}'; `kinescope agents` lists them"
        )));
    };
    if out.is_json() {
        out.value(&AgentRow {
            name: &gone.name,
            address: &gone.address,
            fingerprint: gone.fingerprint.as_deref(),
        })?;
    } else {
        out.line(format_args!("forgot {gone}"))?;
    }
    Ok(Exit::Good)
}
