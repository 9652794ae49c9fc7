//! Check that the limits in docs/agent-protocol.md are those of the program.

use super::pairing::{ANSWER_LIMIT, ANSWER_MARGIN};
use super::{MAX_REPEATS, Options};
use crate::wire::{HANDSHAKE_LIMIT, HEARTBEAT, PREAMBLE_BYTES, SILENCE, WRITE_LIMIT};

#[test]
fn the_protocol_page_states_the_limits_of_the_program() {
    let page = include_str!("../../../docs/agent-protocol.md");
    let limits = Options::default();
    let [handshake, heartbeat, silence, write, answer, margin] = [
        HANDSHAKE_LIMIT,
        HEARTBEAT,
        SILENCE,
        WRITE_LIMIT,
        ANSWER_LIMIT,
        ANSWER_MARGIN,
    ]
    .map(|limit| limit.as_secs());
    for stated in [
        format!("must be over within {handshake} seconds on both ends"),
        format!("each has {handshake} s for its handshake"),
        format!("A client has {handshake} seconds from its handshake to commit and to reveal"),
        format!("asks every {heartbeat} seconds"),
        format!("receives nothing for {silence} seconds, or cannot write for {write} seconds"),
        format!("connection lost within {silence} s"),
        format!("each has {answer} seconds; a person who does not answer has declined"),
        format!("the question has a limit of {answer} s"),
        format!("waits {margin} seconds longer for the other's answer"),
        format!(
            "{} connections of known clients, and apart from them {}",
            limits.connections, limits.strangers
        ),
        format!("{} of the {} for one key", limits.share, limits.connections),
    ] {
        assert!(
            page.contains(&stated),
            "docs/agent-protocol.md does not state: {stated}"
        );
    }
    assert_eq!((PREAMBLE_BYTES, MAX_REPEATS), (64, 10_000), "the page states both");
}
