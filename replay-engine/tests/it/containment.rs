//! Tests that a device without containment runs nothing before a user has confirmed, whatever the client does.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::support;

use replay_engine::client::{Client, ClientError, Lease};
use replay_engine::device::Containment;
use replay_engine::run::Verdict;
use replay_engine::serve::{Options, Server};
use replay_engine::target::TargetRequest;
use replay_engine::wire::message::{LeaseRequest, RunReply, RunRequest};
use replay_engine::wire::{PreambleWord, Topic};
use std::sync::Arc;
use support::{Ends, Strings, UNCONTAINED, images, listen, plan, raw_client, tcp};
use trace_core::progress::Progress;

struct UncontainedServer {
    ends: Ends,
    server: Server,
    address: std::net::SocketAddr,
    strings: Strings,
}

impl UncontainedServer {
    fn new() -> Self {
        let (ends, strings) = (Ends::paired(""), Strings::default());
        let devices = [strings.factory(UNCONTAINED).into(), strings.factory("board").into()];
        let server = Server::new(&devices, Some(Arc::clone(&ends.agent)), Options::default()).unwrap();
        let address = listen(&server);
        Self {
            ends,
            server,
            address,
            strings,
        }
    }

    fn lease(&self, device: &str) -> Lease {
        let client = Client::connect(&tcp(self.address), &self.ends.client, Some("board")).unwrap();
        client.lease(device).unwrap()
    }
}

impl Drop for UncontainedServer {
    fn drop(&mut self) {
        self.server.stop();
    }
}

#[test]
fn uncontained_replays_need_consent_for_each_lease() {
    let uncontained = UncontainedServer::new();
    let compiled = plan(20, &images(2));
    let assert_refused = |lease: &mut Lease, bypass| {
        let e = lease.replay(&compiled, 1, &Progress::new(), bypass).unwrap_err();
        assert!(
            matches!(&e, ClientError::Uncontained { device } if device == UNCONTAINED),
            "{e}"
        );
        for words in [
            "nothing contains the device `uncontained`",
            "any memory",
            "--without-containment",
        ] {
            assert!(e.to_string().contains(words), "{e}");
        }
    };
    let mut lease = uncontained.lease(UNCONTAINED);
    assert_eq!(lease.info().containment, Containment::None);
    assert_refused(&mut lease, false);
    assert_eq!(lease.push_stats().bytes, 0, "the client sends nothing");
    // The agent does not rely on the client.
    assert_refused(&mut lease, true);
    lease.accept_no_containment().unwrap();
    lease.accept_no_containment().unwrap();
    let outcome = lease.replay(&compiled, 1, &Progress::new(), false).unwrap();
    assert_eq!(outcome.verdict, Verdict::Match, "{:?}", outcome.failure);
    drop(lease);
    assert_refused(&mut uncontained.lease(UNCONTAINED), true);
    // A contained device needs no consent.
    let mut contained = uncontained.lease("board");
    assert_eq!(
        contained.replay(&compiled, 1, &Progress::new(), false).unwrap().verdict,
        Verdict::Match
    );
    contained.accept_no_containment().unwrap();
    assert!(uncontained.strings.created.load(std::sync::atomic::Ordering::SeqCst) == 2);
}

#[test]
fn uncontained_start_is_refused_and_consent_needs_a_lease() {
    let uncontained = UncontainedServer::new();
    let mut channel = raw_client(
        uncontained.address,
        uncontained.ends.client.key_pair(),
        PreambleWord::Session,
    );
    let _welcome = channel.receiver.receive().unwrap();
    let take = LeaseRequest::Take(UNCONTAINED.into());
    channel.sender.send(Topic::Lease, &take).unwrap();
    let _granted = channel.receiver.receive().unwrap();
    channel
        .sender
        .send(Topic::Run, &RunRequest::Start(TargetRequest::Replay { repeat: 1 }))
        .unwrap();
    let reply: RunReply = channel.receiver.receive().unwrap().message().unwrap();
    assert_eq!(
        reply,
        RunReply::Uncontained {
            device: UNCONTAINED.into()
        }
    );
    let mut other = raw_client(
        uncontained.address,
        uncontained.ends.client.key_pair(),
        PreambleWord::Session,
    );
    let _welcome = other.receiver.receive().unwrap();
    other
        .sender
        .send(Topic::Lease, &LeaseRequest::WithoutContainment)
        .unwrap();
    assert!(other.receiver.receive().is_err());
}
