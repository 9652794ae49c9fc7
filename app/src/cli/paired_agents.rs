//! Output about a paired agent, shared by the verbs that pair with agents and forget them.

use super::{Exit, Failure, Out};
use replay_engine::wire::KeyStore;
use serde::Serialize;

#[derive(Serialize)]
struct ForgottenAgent {
    name: String,
    address: String,
    fingerprint: Option<String>,
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
        out.value(&ForgottenAgent {
            name: gone.name,
            address: gone.address,
            fingerprint: gone.fingerprint,
        })?;
    } else {
        out.line(format_args!("forgot {gone}"))?;
    }
    Ok(Exit::Good)
}
