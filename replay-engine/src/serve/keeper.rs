//! Periodic work of a server, a few times a second: detection of removed keys, and log lines for counted events.

use super::shared::Shared;
use crate::wire::{KeyStore, KeyStoreError, PublicKey};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;
use std::{io, thread};

/// Interval of the checks. A removed key's connection ends within a second: one check detects it, one closes it if its
/// session does not end by itself.
const TICK: Duration = Duration::from_millis(200);

/// Starts the thread. It ends with the server.
///
/// # Errors
/// If the operating system cannot start a thread.
pub(super) fn start(shared: &Arc<Shared>, keys: &Arc<KeyStore>) -> io::Result<()> {
    let (of, keys) = (Arc::downgrade(shared), Arc::clone(keys));
    let thread = thread::Builder::new().name("kinescope-keeper".into());
    thread.spawn(move || keep(&of, &keys)).map(drop)
}

fn keep(of: &Weak<Shared>, keys: &KeyStore) {
    let mut seen = keys.stamp();
    let mut known = list_pinned_keys(keys).unwrap_or_default();
    loop {
        thread::sleep(TICK);
        let Some(shared) = of.upgrade() else { return };
        if shared.stopping.load(Ordering::SeqCst) {
            return;
        }
        shared.stranger_log.settle();
        // Sessions that were notified at an earlier check have had their time.
        shared.sessions.close_all();
        let now = keys.stamp();
        if now != seen {
            seen = now;
            forget(&shared, keys, &mut known);
        }
    }
}

/// Returns the keys that the store pins.
fn list_pinned_keys(keys: &KeyStore) -> Result<Vec<PublicKey>, KeyStoreError> {
    match keys.peers() {
        Ok(peers) => Ok(peers.into_iter().map(|p| p.key).collect()),
        // Removal of the file removes all keys.
        Err(KeyStoreError::Missing { .. }) => Ok(Vec::new()),
        Err(e) => Err(e),
    }
}

/// Processes a change of the key store: connections of removed keys end.
fn forget(shared: &Shared, keys: &KeyStore, before: &mut Vec<PublicKey>) {
    let now = match list_pinned_keys(keys) {
        Ok(now) => now,
        // An unreadable store ends no session, and grants nothing: each request looks the key up.
        Err(e) => {
            tracing::error!("the key store cannot be read: {e}");
            return;
        }
    };
    let closed = shared.sessions.keep_only(&now);
    match closed.len() {
        0 => {}
        1 => tracing::warn!("1 connection is closed: its client's key was forgotten"),
        n => tracing::warn!("{n} connections are closed: their clients' keys were forgotten"),
    }
    let mut gone: Vec<PublicKey> = before.iter().filter(|k| !now.contains(k)).copied().collect();
    // A key that was pinned and removed between two checks was never in the earlier list.
    for key in &closed {
        if !gone.contains(key) {
            gone.push(*key);
        }
    }
    let entries: Vec<(PublicKey, usize)> = gone
        .into_iter()
        .map(|key| (key, closed.iter().filter(|c| **c == key).count()))
        .collect();
    if !entries.is_empty()
        && let Err(e) = keys.write_closed(&entries)
    {
        tracing::warn!("the number of closed connections cannot be reported to other processes: {e}");
    }
    *before = now;
}
