//! Paired agents: the key store, which is only read.

use super::machine::Machine;
use super::report::{Area, Check};
use crate::cli::out::format_count;
use replay_engine::wire::{HOW_TO_PAIR, KeyStore};
use std::path::Path;

/// Checks the key store and counts its agents. Queries no agent.
pub fn check(machine: &Machine) -> Area {
    let check = match &machine.folders.keys {
        Some(folder) => check_keys(folder),
        None => Check::missing("paired agents", "this user has no folder for keys")
            .with_mend("set HOME to a folder of yours, or name a folder with `--keys`"),
    };
    Area::new("agents", "replay on other machines", vec![check])
}

/// Checks the key store in a folder.
fn check_keys(folder: &Path) -> Check {
    let name = "paired agents";
    let pair = || format!("{HOW_TO_PAIR}, then `kinescope pair ADDRESS:PORT NAME` here");
    // Opening a store that does not exist would create it.
    if !KeyStore::exists(folder) {
        return Check::note(name, "none; this user has no keys yet").with_mend(pair());
    }
    let peers = match KeyStore::open(folder).and_then(|keys| keys.peers()) {
        Ok(peers) => peers,
        Err(e) => {
            return Check::missing(name, e.to_string())
                .with_mend("follow the message, or pair again with an empty folder in `--keys`");
        }
    };
    // Clients of an agent that serves the same keys have no address.
    let agents: Vec<&str> = peers
        .iter()
        .filter(|p| !p.address.is_empty())
        .map(|p| p.name.as_str())
        .collect();
    match agents.is_empty() {
        true => Check::note(name, "none").with_mend(pair()),
        false => Check::ok(
            name,
            format!("{}: {}", format_count(agents.len() as u64, "agent"), agents.join(", ")),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::machine::fake::FakeMachine;
    use super::super::report::State;
    use super::*;

    #[test]
    fn a_store_that_does_not_exist_is_not_created() {
        let mut fake = FakeMachine::empty();
        assert_eq!(check(&fake.machine).checks[0].state, State::Missing);
        let folder = fake.root.path().join("keys");
        fake.machine.folders.keys = Some(folder.clone());
        assert_eq!(check(&fake.machine).checks[0].state, State::Note);
        assert!(!folder.exists());
    }

    #[test]
    fn paired_agents_are_counted() {
        let fake = FakeMachine::empty();
        let folder = fake.root.path().join("keys");
        let keys = KeyStore::open(&folder).unwrap();
        assert_eq!(check_keys(&folder).found, "none");
        keys.pin("lab", keys.key_pair().public(), "lab:7117").unwrap();
        assert_eq!(check_keys(&folder), Check::ok("paired agents", "1 agent: lab"));
    }

    #[test]
    fn a_damaged_store_is_named() {
        let fake = FakeMachine::empty();
        let folder = fake.root.path().join("keys");
        let path = KeyStore::open(&folder).unwrap().path().to_owned();
        std::fs::write(&path, "not TOML at all").unwrap();
        let check = check_keys(&folder);
        assert_eq!(check.state, State::Missing);
        assert!(check.found.contains("keys.toml"), "{}", check.found);
    }
}
