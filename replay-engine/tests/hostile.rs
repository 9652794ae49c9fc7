//! Bytes that nobody meant: before, in and after the handshake, on a live server that has to outlive them.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use replay_engine::client::{Client, ClientError};
use replay_engine::run::Verdict;
use replay_engine::serve::Options;
use replay_engine::wire::message::{
    LeaseReply, LeaseRequest, PagesReply, PagesRequest, PairMessage, RunReply, RunRequest, SessionReply,
};
use replay_engine::wire::{Channel, Concern, Frame, KeyPair, KeyStore, Preamble, Word};
use serde::de::DeserializeOwned;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};
use support::{Bench, images, plan, raw_agent, raw_client, tcp, until};
use trace_core::encode;
use trace_core::progress::Progress;

fn runner(cases: u32) -> TestRunner {
    TestRunner::new(Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    })
}

/// A soundly connected client still gets its replay.
fn lives(bench: &Bench) {
    let outcome = bench
        .lease()
        .replay(&plan(20, &images(2)), 1, &Progress::new(), false)
        .unwrap();
    assert_eq!(outcome.verdict, Verdict::Match);
}

/// Peak resident memory of this process, KiB.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// The key that [`Bench`]'s agent knows as `bench`, for raw channels.
fn own(bench: &Bench) -> KeyPair {
    bench.ends.client.own().clone()
}

fn welcomed(bench: &Bench) -> Channel {
    let mut channel = raw_client(bench.address, &own(bench), Word::Session);
    let frame = channel.receiver.receive().unwrap();
    assert!(matches!(frame.message(), Ok(SessionReply::Welcome { .. })));
    channel
}

#[test]
fn random_bytes_instead_of_a_preamble_or_a_handshake() {
    let bench = Bench::new(Options::default());
    let strategy = (any::<bool>(), prop::collection::vec(any::<u8>(), 0..400));
    runner(60)
        .run(&strategy, |(preamble_first, bytes)| {
            let mut s = TcpStream::connect(bench.address).unwrap();
            if preamble_first {
                s.write_all(&Preamble::own(Word::Session).to_bytes()).unwrap();
            }
            // The agent may hang up before it has read everything.
            let _ = s.write_all(&bytes);
            let _ = s.shutdown(std::net::Shutdown::Write);
            let mut answer = Vec::new();
            let _ = s.read_to_end(&mut answer);
            prop_assert!(answer.len() <= 64 + 98, "{} bytes for a stranger", answer.len());
            Ok(())
        })
        .unwrap();
    lives(&bench);
}

#[test]
fn random_bytes_in_sound_envelopes_from_a_client_that_is_known() {
    let bench = Bench::new(Options::default());
    let before = peak_kib();
    let concern = prop::sample::select(vec![
        Concern::Heartbeat,
        Concern::Session,
        Concern::Pair,
        Concern::Lease,
        Concern::Pages,
        Concern::Run,
        Concern::Bulk,
    ]);
    let frame = (concern, prop::collection::vec(any::<u8>(), 0..300));
    let strategy = (any::<bool>(), prop::collection::vec(frame, 1..8));
    runner(80)
        .run(&strategy, |(leased, frames)| {
            let channel = welcomed(&bench);
            if leased {
                channel
                    .sender
                    .send(Concern::Lease, &LeaseRequest::Take("board".into()))
                    .unwrap();
            }
            for (concern, bytes) in frames {
                if channel.sender.send_bytes(concern, &bytes).is_err() {
                    break;
                }
            }
            channel.sender.close();
            Ok(())
        })
        .unwrap();
    until("the last session to end", || bench.server.states()[0].holder.is_none());
    lives(&bench);
    let grown = peak_kib().saturating_sub(before);
    assert!(grown < 64 << 10, "{grown} KiB for a few kilobytes of nonsense");
}

#[test]
fn offers_of_impossible_sizes_cost_nothing() {
    let bench = Bench::new(Options::default());
    let mut channel = welcomed(&bench);
    channel
        .sender
        .send(Concern::Lease, &LeaseRequest::Take("board".into()))
        .unwrap();
    assert!(matches!(
        channel.receiver.receive().unwrap().message(),
        Ok(LeaseReply::Granted(_))
    ));
    let before = peak_kib();
    for (head_bytes, body_bytes, count) in [
        (u64::MAX, u64::MAX, 2),
        (u64::MAX, 1, 0),
        (1, 1 << 60, 1),
        (64 << 20, 256 << 20, 3),
        (0, 0, 0),
        (0, 0, 7),
    ] {
        let offer = PagesRequest::Offer {
            head_bytes,
            body_bytes,
            pieces: vec![[7; 32]; count],
        };
        channel.sender.send(Concern::Pages, &offer).unwrap();
        loop {
            match channel.receiver.receive().unwrap().message().unwrap() {
                PagesReply::Unacceptable(_) => break,
                // An empty plan lacks no pieces; that it is no plan comes next.
                PagesReply::LackPieces(runs) => assert!(runs.is_empty()),
                other => panic!("{other:?}"),
            }
        }
    }
    let grown = peak_kib().saturating_sub(before);
    assert!(grown < 16 << 10, "{grown} KiB for an announcement");
    // A plan whose head does not decode.
    let junk = [0xffu8; 4096];
    let mut version = junk;
    version[..4].copy_from_slice(&replay_engine::plan::PLAN_VERSION.to_le_bytes());
    for (piece, word) in [(junk, "version"), (version, "decode")] {
        let pieces = vec![*blake3::hash(&piece).as_bytes()];
        channel
            .sender
            .send(
                Concern::Pages,
                &PagesRequest::Offer {
                    head_bytes: 4096,
                    body_bytes: 0,
                    pieces,
                },
            )
            .unwrap();
        let reply: PagesReply = channel.receiver.receive().unwrap().message().unwrap();
        assert_eq!(reply, PagesReply::LackPieces(vec![(0, 1)]));
        channel.sender.send_bytes(Concern::Bulk, &piece).unwrap();
        let reply: PagesReply = channel.receiver.receive().unwrap().message().unwrap();
        assert!(
            matches!(&reply, PagesReply::Unacceptable(why) if why.contains(word)),
            "{reply:?}"
        );
    }
    drop(channel);
    lives(&bench);
}

#[test]
fn messages_out_of_order_end_the_session_and_free_the_device() {
    let bench = Bench::new(Options::default());
    let offer = PagesRequest::Offer {
        head_bytes: 0,
        body_bytes: 0,
        pieces: Vec::new(),
    };
    // A plan without a lease.
    let mut channel = welcomed(&bench);
    channel.sender.send(Concern::Pages, &offer).unwrap();
    assert!(channel.receiver.receive().is_err());
    // A run without a plan is answered; a second lease is not.
    let mut channel = welcomed(&bench);
    channel
        .sender
        .send(Concern::Lease, &LeaseRequest::Take("board".into()))
        .unwrap();
    assert!(matches!(
        channel.receiver.receive().unwrap().message(),
        Ok(LeaseReply::Granted(_))
    ));
    channel
        .sender
        .send(Concern::Run, &RunRequest::Start { repeat: 1 })
        .unwrap();
    assert!(matches!(
        channel.receiver.receive().unwrap().message(),
        Ok(RunReply::NotReady(_))
    ));
    channel
        .sender
        .send(Concern::Run, &RunRequest::Start { repeat: 0 })
        .unwrap();
    assert!(matches!(
        channel.receiver.receive().unwrap().message(),
        Ok(RunReply::NotReady(_))
    ));
    channel
        .sender
        .send(Concern::Lease, &LeaseRequest::Take("board".into()))
        .unwrap();
    assert!(channel.receiver.receive().is_err());
    lives(&bench);
}

#[test]
fn a_connection_that_says_nothing_is_ended_in_time() {
    let bench = Bench::new(Options::default());
    let mut s = TcpStream::connect(bench.address).unwrap();
    s.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    // A byte now and then does not lengthen the time.
    let mut drip = s.try_clone().unwrap();
    std::thread::spawn(move || {
        for b in Preamble::own(Word::Session).to_bytes().iter().take(20) {
            if drip.write_all(&[*b]).is_err() {
                break;
            }
            std::thread::sleep(Duration::from_secs(1));
        }
    });
    let begin = Instant::now();
    let _ = s.read(&mut [0; 1]);
    let took = begin.elapsed();
    assert!(took < Duration::from_secs(13), "{took:?}");
}

#[test]
fn more_connections_than_allowed_are_told_so() {
    let bench = Bench::new(Options {
        connections: 3,
        ..Options::default()
    });
    let held: Vec<Channel> = (0..3).map(|_| welcomed(&bench)).collect();
    let e = Client::connect(&tcp(bench.address), &bench.ends.client, None).unwrap_err();
    assert!(
        matches!(&e, ClientError::Refused(why) if why.contains("too many")),
        "{e}"
    );
    // As many again are told so; what comes on top of them is not even listened to.
    let waiting: Vec<TcpStream> = (0..3).map(|_| TcpStream::connect(bench.address).unwrap()).collect();
    std::thread::sleep(Duration::from_millis(200));
    let mut dropped = TcpStream::connect(bench.address).unwrap();
    dropped.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    assert_eq!(dropped.read(&mut [0; 1]).unwrap(), 0);
    drop((held, waiting));
    until("room again", || {
        Client::connect(&tcp(bench.address), &bench.ends.client, None).is_ok()
    });
}

/// An agent that knows how to shake hands and then says what a test wants.
fn lying_agent(keys: &KeyStore, say: impl Fn(&mut Channel) + Send + 'static) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let own = keys.own().clone();
    std::thread::spawn(move || {
        let mut channel = raw_agent(listener.accept().unwrap().0, &own);
        say(&mut channel);
        // Until the client hangs up.
        while channel.receiver.receive().is_ok() {}
    });
    at
}

#[test]
fn an_agent_that_lies_gets_a_typed_error_and_nothing_else() {
    let bench = Bench::new(Options::default());
    let strategy = prop::collection::vec(any::<u8>(), 0..200);
    runner(20)
        .run(&strategy, |bytes| {
            let at = lying_agent(&bench.ends.agent, move |c| {
                let _ = c.sender.send_bytes(Concern::Session, &bytes);
            });
            let e = Client::connect(&tcp(at), &bench.ends.client, None).unwrap_err();
            prop_assert!(matches!(e, ClientError::Protocol { .. }), "{}", e);
            Ok(())
        })
        .unwrap();
    // It asks for pieces that nobody offered.
    let devices = bench.server.states();
    let info = devices[0].info.clone();
    let at = lying_agent(&bench.ends.agent, move |c| {
        let welcome = SessionReply::Welcome {
            program: String::new(),
            you: String::new(),
            devices: devices.clone(),
        };
        c.sender.send(Concern::Session, &welcome).unwrap();
        c.receiver.receive().unwrap();
        c.sender
            .send(Concern::Lease, &LeaseReply::Granted(info.clone()))
            .unwrap();
        c.receiver.receive().unwrap();
        c.sender
            .send(
                Concern::Pages,
                &PagesReply::LackPieces(vec![(0, u32::MAX), (5, u32::MAX)]),
            )
            .unwrap();
    });
    let mut lease = Client::connect(&tcp(at), &bench.ends.client, None)
        .unwrap()
        .lease("board")
        .unwrap();
    let e = lease.replay(&plan(1, &[]), 1, &Progress::new(), false).unwrap_err();
    assert!(matches!(e, ClientError::Protocol { .. }), "{e}");
}

fn decodes<T: DeserializeOwned + serde::Serialize>(bytes: &[u8]) {
    let frame = Frame {
        concern: Concern::Session,
        payload: bytes.to_vec(),
    };
    if let Ok(message) = frame.message::<T>() {
        assert_eq!(encode::to_bytes(&message).unwrap(), bytes, "one message has one form");
    }
}

#[test]
fn every_message_is_read_from_any_bytes_without_a_panic_or_much_memory() {
    let before = peak_kib();
    // A variant number in front makes the bytes reach deeper than random ones would.
    let strategy = (0u32..8, prop::collection::vec(any::<u8>(), 0..120), any::<bool>());
    runner(3000)
        .run(&strategy, |(variant, tail, huge)| {
            let mut bytes = variant.to_le_bytes().to_vec();
            if huge {
                bytes.extend_from_slice(&(u64::MAX >> (variant * 4)).to_le_bytes());
            }
            bytes.extend_from_slice(&tail);
            decodes::<SessionReply>(&bytes);
            decodes::<PairMessage>(&bytes);
            decodes::<LeaseRequest>(&bytes);
            decodes::<LeaseReply>(&bytes);
            decodes::<PagesRequest>(&bytes);
            decodes::<PagesReply>(&bytes);
            decodes::<RunRequest>(&bytes);
            decodes::<RunReply>(&bytes);
            Ok(())
        })
        .unwrap();
    let grown = peak_kib().saturating_sub(before);
    assert!(grown < 64 << 10, "{grown} KiB for messages of 130 bytes");
}

#[test]
fn a_silent_channel_ends() {
    let bench = Bench::new(Options::default());
    let at = lying_agent(&bench.ends.agent, |_| {});
    let mut channel = raw_client(at, &own(&bench), Word::Session);
    channel.receiver.set_silence(Duration::from_millis(200)).unwrap();
    let begin = Instant::now();
    let e = channel.receiver.receive().unwrap_err();
    assert!(matches!(e, replay_engine::wire::WireError::Silent), "{e}");
    assert!(begin.elapsed() < Duration::from_secs(2));
}
