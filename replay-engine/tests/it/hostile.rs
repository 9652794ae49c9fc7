//! Tests with hostile bytes before, in and after the handshake. The live server must survive them.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::support;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use replay_core::Action;
use replay_engine::client::{Client, ClientError};
use replay_engine::plan::Body;
use replay_engine::run::Verdict;
use replay_engine::serve::Options;
use replay_engine::target::TargetRequest;
use replay_engine::wire::delta::{Outline, Step};
use replay_engine::wire::message::{
    LeaseReply, LeaseRequest, PagesReply, PagesRequest, PairMessage, PlanPart, RunReply, RunRequest, SessionRefusal,
    SessionReply,
};
use replay_engine::wire::wasm_message::{WasmReply, WasmRequest};
use replay_engine::wire::{Channel, Frame, KeyPair, KeyStore, Preamble, PreambleWord, Topic};
use serde::de::DeserializeOwned;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;
use support::{Bench, HANG_LIMIT, images, plan, plan_of, quick, raw_agent, raw_client, raw_client_with, tcp, until};
use trace_core::encode;
use trace_core::progress::Progress;

fn runner(cases: u32) -> TestRunner {
    TestRunner::new(Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    })
}

/// Checks that a valid client still gets its replay.
fn check_server_works(bench: &Bench) {
    let outcome = bench
        .lease()
        .replay(&plan(20, &images(2)), 1, &Progress::new(), false)
        .unwrap();
    assert_eq!(outcome.verdict, Verdict::Match);
}

#[test]
fn client_is_served_with_and_without_instructions_for_aes() {
    let bench = Bench::new(quick());
    for has_aes in [false, true] {
        let preamble = Preamble {
            has_aes,
            ..Preamble::new(PreambleWord::Session)
        };
        let mut channel = raw_client_with(bench.address, bench.ends.client.key_pair(), &preamble);
        assert!(matches!(
            channel.receiver.receive().unwrap().message(),
            Ok(SessionReply::Welcome { .. })
        ));
        channel.sender.send_bytes(Topic::Heartbeat, &[0]).unwrap();
        let answer = channel.receiver.receive().unwrap();
        assert_eq!((answer.concern, answer.payload), (Topic::Heartbeat, vec![1]));
    }
    check_server_works(&bench);
}

/// Returns the peak resident memory of this process, in KiB.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Returns the key that [`Bench`]'s agent knows as `bench`, for raw channels.
fn own_keys(bench: &Bench) -> KeyPair {
    bench.ends.client.key_pair().clone()
}

fn open_session(bench: &Bench) -> Channel {
    let mut channel = raw_client(bench.address, &own_keys(bench), PreambleWord::Session);
    let frame = channel.receiver.receive().unwrap();
    assert!(matches!(frame.message(), Ok(SessionReply::Welcome { .. })));
    channel
}

#[test]
fn agent_survives_random_bytes_as_preamble_or_handshake() {
    let bench = Bench::new(Options::default());
    let strategy = (any::<bool>(), prop::collection::vec(any::<u8>(), 0..400));
    runner(60)
        .run(&strategy, |(preamble_first, bytes)| {
            let mut s = TcpStream::connect(bench.address).unwrap();
            if preamble_first {
                s.write_all(&Preamble::new(PreambleWord::Session).to_bytes()).unwrap();
            }
            // The agent may close the connection before it has read everything.
            let _ = s.write_all(&bytes);
            let _ = s.shutdown(std::net::Shutdown::Write);
            let mut answer = Vec::new();
            let _ = s.read_to_end(&mut answer);
            prop_assert!(answer.len() <= 64 + 98, "{} bytes for a stranger", answer.len());
            Ok(())
        })
        .unwrap();
    check_server_works(&bench);
}

#[test]
fn agent_survives_random_messages_of_a_paired_client() {
    let bench = Bench::new(Options::default());
    let before = peak_kib();
    let concern = prop::sample::select(vec![
        Topic::Heartbeat,
        Topic::Session,
        Topic::Pair,
        Topic::Lease,
        Topic::Pages,
        Topic::Run,
        Topic::Bulk,
        Topic::Wasm,
        Topic::Live,
        Topic::Calls,
    ]);
    let frame = (concern, prop::collection::vec(any::<u8>(), 0..300));
    let strategy = (any::<bool>(), prop::collection::vec(frame, 1..8));
    runner(80)
        .run(&strategy, |(leased, frames)| {
            let channel = open_session(&bench);
            if leased {
                channel
                    .sender
                    .send(Topic::Lease, &LeaseRequest::Take("board".into()))
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
    check_server_works(&bench);
    let grown = peak_kib().saturating_sub(before);
    assert!(grown < 64 << 10, "{grown} KiB for a few kilobytes of nonsense");
}

#[test]
fn impossible_page_offers_allocate_no_memory() {
    let bench = Bench::new(Options::default());
    let mut channel = open_session(&bench);
    channel
        .sender
        .send(Topic::Lease, &LeaseRequest::Take("board".into()))
        .unwrap();
    assert!(matches!(
        channel.receiver.receive().unwrap().message(),
        Ok(LeaseReply::Granted(_))
    ));
    let before = peak_kib();
    let part = |bytes: u64, digest| PlanPart { bytes, digest };
    let next = |channel: &mut Channel| -> PagesReply { channel.receiver.receive().unwrap().message().unwrap() };
    for (head_bytes, body_bytes) in [(u64::MAX, u64::MAX), (u64::MAX, 1), (1, 1 << 60), ((64 << 20) + 1, 0)] {
        let offer = PagesRequest::Offer {
            head: part(head_bytes, [7; 32]),
            body: part(body_bytes, [7; 32]),
        };
        channel.sender.send(Topic::Pages, &offer).unwrap();
        assert!(matches!(next(&mut channel), PagesReply::Unacceptable(_)));
    }
    // The largest accepted offer allocates nothing before its bytes arrive. Steps with too large a result allocate
    // nothing.
    let largest = PagesRequest::Offer {
        head: part(64 << 20, [7; 32]),
        body: part(256 << 20, [7; 32]),
    };
    channel.sender.send(Topic::Pages, &largest).unwrap();
    let none = Some(Outline::empty());
    let lack = PagesReply::LackParts {
        head: none.clone(),
        body: none.clone(),
    };
    assert_eq!(next(&mut channel), lack);
    let keep = vec![
        Step::Keep {
            first: 0,
            count: u32::MAX
        };
        10_000
    ];
    let bomb = PagesRequest::Parts {
        head: keep.clone(),
        body: keep,
    };
    channel.sender.send(Topic::Pages, &bomb).unwrap();
    assert!(matches!(next(&mut channel), PagesReply::Unacceptable(why) if why.contains("keeps piece")));
    let grown = peak_kib().saturating_sub(before);
    assert!(grown < 16 << 10, "{grown} KiB for an announcement");
    // One plan has a head that does not decode. The other plan does not match its digest.
    let junk = [0xffu8; 4096];
    let mut version = junk;
    version[..4].copy_from_slice(&replay_engine::plan::PLAN_VERSION.to_le_bytes());
    for (bytes, sent, word) in [
        (junk, junk, "version"),
        (version, version, "decode"),
        (version, junk, "digest"),
    ] {
        // The digest is unknown to the agent, so the agent requests the part.
        let digest = *blake3::hash(if bytes == sent { &bytes } else { b"another" }).as_bytes();
        let empty = part(0, *blake3::hash(b"").as_bytes());
        let offer = PagesRequest::Offer {
            head: part(4096, digest),
            body: empty,
        };
        channel.sender.send(Topic::Pages, &offer).unwrap();
        assert!(matches!(
            next(&mut channel),
            PagesReply::LackParts { head: Some(_), .. }
        ));
        let parts = PagesRequest::Parts {
            head: vec![Step::New { bytes: 4096 }],
            body: Vec::new(),
        };
        channel.sender.send(Topic::Pages, &parts).unwrap();
        channel.sender.send_bytes(Topic::Bulk, &sent).unwrap();
        let reply = next(&mut channel);
        assert!(
            matches!(&reply, PagesReply::Unacceptable(why) if why.contains(word)),
            "{reply:?}"
        );
    }
    drop(channel);
    check_server_works(&bench);
}

#[test]
fn messages_out_of_order_end_the_session_and_free_the_device() {
    let bench = Bench::new(Options::default());
    let nothing = PlanPart {
        bytes: 0,
        digest: [0; 32],
    };
    let offer = PagesRequest::Offer {
        head: nothing,
        body: nothing,
    };
    // The client sends a plan without a lease.
    let mut channel = open_session(&bench);
    channel.sender.send(Topic::Pages, &offer).unwrap();
    assert!(channel.receiver.receive().is_err());
    // A run without a plan gets a reply. A second lease ends the session.
    let mut channel = open_session(&bench);
    channel
        .sender
        .send(Topic::Lease, &LeaseRequest::Take("board".into()))
        .unwrap();
    assert!(matches!(
        channel.receiver.receive().unwrap().message(),
        Ok(LeaseReply::Granted(_))
    ));
    channel
        .sender
        .send(Topic::Run, &RunRequest::Start(TargetRequest::Replay { repeat: 1 }))
        .unwrap();
    assert!(matches!(
        channel.receiver.receive().unwrap().message(),
        Ok(RunReply::NotReady(_))
    ));
    channel
        .sender
        .send(Topic::Run, &RunRequest::Start(TargetRequest::Replay { repeat: 0 }))
        .unwrap();
    assert!(matches!(
        channel.receiver.receive().unwrap().message(),
        Ok(RunReply::NotReady(_))
    ));
    channel
        .sender
        .send(Topic::Lease, &LeaseRequest::Take("board".into()))
        .unwrap();
    assert!(channel.receiver.receive().is_err());
    check_server_works(&bench);
}

#[test]
fn refused_plan_and_its_predecessor_cannot_start() {
    let bench = Bench::new(Options::default());
    let mut channel = open_session(&bench);
    let sender = channel.sender.clone();
    let mut next = || channel.receiver.receive().unwrap();
    sender.send(Topic::Lease, &LeaseRequest::Take("board".into())).unwrap();
    next();
    let write = Action::Write {
        event: 0,
        space: 0,
        offset: 0x8000,
        width: 4,
        value: 1,
    };
    for (compiled, good) in [(plan(3, &[]), true), (plan_of([write], &[]), false)] {
        let body = compiled.plan.body.bytes().clone();
        let mut head = compiled.plan;
        head.body.set_bytes(Body::default());
        let head = encode::to_bytes(&head).unwrap();
        let part = |bytes: &[u8]| PlanPart {
            bytes: bytes.len() as u64,
            digest: *blake3::hash(bytes).as_bytes(),
        };
        let offer = PagesRequest::Offer {
            head: part(&head),
            body: part(&body),
        };
        sender.send(Topic::Pages, &offer).unwrap();
        next();
        let new = |bytes: &[u8]| {
            vec![Step::New {
                bytes: bytes.len() as u32,
            }]
        };
        let parts = PagesRequest::Parts {
            head: new(&head),
            body: new(&body),
        };
        sender.send(Topic::Pages, &parts).unwrap();
        sender.send_bytes(Topic::Bulk, &head).unwrap();
        sender.send_bytes(Topic::Bulk, &body).unwrap();
        assert!(matches!(next().message(), Ok(PagesReply::LackPages(_))));
        match next().message().unwrap() {
            PagesReply::Ready(_) => assert!(good),
            PagesReply::Refused(r) => assert!(!good && r.rule == 1, "{r}"),
            other => panic!("{other:?}"),
        }
    }
    sender
        .send(Topic::Run, &RunRequest::Start(TargetRequest::Replay { repeat: 1 }))
        .unwrap();
    assert!(matches!(next().message(), Ok(RunReply::NotReady(_))));
    sender.close();
    check_server_works(&bench);
}

#[test]
fn silent_connection_times_out() {
    let bench = Bench::new(Options {
        introduction: Duration::from_secs(1),
        ..Options::default()
    });
    let mut s = TcpStream::connect(bench.address).unwrap();
    s.set_read_timeout(Some(HANG_LIMIT)).unwrap();
    // Slow bytes do not extend the limit. The connection ends before all of them are sent.
    let mut drip = s.try_clone().unwrap();
    let drip = std::thread::spawn(move || {
        let preamble = Preamble::new(PreambleWord::Session).to_bytes();
        preamble.iter().take(20).all(|b| {
            // This interval is shorter than the limit.
            std::thread::sleep(Duration::from_millis(500));
            drip.write_all(&[*b]).is_ok()
        })
    });
    if let Err(e) = s.read_to_end(&mut Vec::new()) {
        // A closed connection may cause an error, but not the timeout of the read.
        assert_ne!(e.kind(), std::io::ErrorKind::WouldBlock, "the connection stays open");
    }
    assert!(!drip.join().unwrap(), "the agent accepted every byte");
}

#[test]
fn excess_connections_are_refused_with_a_reason() {
    let bench = Bench::new(Options {
        connections: 3,
        ..Options::default()
    });
    let sessions: Vec<Channel> = (0..3).map(|_| open_session(&bench)).collect();
    let e = Client::connect(&tcp(bench.address), &bench.ends.client, None).unwrap_err();
    assert!(
        matches!(&e, ClientError::Refused(why) if why.contains("too many")),
        "{e}"
    );
    drop(sessions);
    until("a free connection", || {
        Client::connect(&tcp(bench.address), &bench.ends.client, None).is_ok()
    });
}

#[test]
fn one_client_is_limited_to_its_share_of_connections() {
    let bench = Bench::new(Options {
        connections: 8,
        share: 3,
        ..Options::default()
    });
    let sessions: Vec<Channel> = (0..3).map(|_| open_session(&bench)).collect();
    let connect = |keys: &KeyStore| Client::connect(&tcp(bench.address), keys, None);
    let e = connect(&bench.ends.client).unwrap_err();
    assert!(
        matches!(&e, ClientError::Refused(why) if why.contains("which is the maximum")),
        "{e}"
    );
    // Other clients have their own share.
    let other = bench.ends.another("other");
    let theirs: Vec<Client> = (0..3).map(|_| connect(&other).unwrap()).collect();
    assert!(connect(&other).is_err());
    drop(sessions);
    until("a free connection", || connect(&bench.ends.client).is_ok());
    drop(theirs);
}

#[test]
fn removed_key_ends_its_connection_and_lease() {
    let bench = Bench::new(Options::default());
    let other = bench.ends.another("other");
    // One client is idle with a lease. The other is in the middle of a long run.
    for running in [false, true] {
        bench
            .ends
            .agent
            .pin("bench", bench.ends.client.key_pair().public(), "")
            .unwrap();
        bench.strings.set(if running { support::SLOW } else { support::SOUND });
        let mut lease = bench.lease();
        let holder = || bench.server.states()[0].holder.clone();
        assert_eq!(holder().as_deref(), Some("bench"));
        let bystander = Client::connect(&tcp(bench.address), &other, None).unwrap();
        let progress = Progress::new();
        let watch = progress.clone();
        let (go_on, wait) = std::sync::mpsc::channel::<()>();
        let runs = std::thread::spawn(move || {
            if running {
                let compiled = plan(20_000, &images(1));
                return lease.replay(&compiled, 100, &progress, false).unwrap_err();
            }
            // The thread waits until the sender is dropped.
            let _ = wait.recv();
            lease.replay(&plan(1, &[]), 1, &progress, false).unwrap_err()
        });
        if running {
            // The upload is the first fifth of the progress.
            until("the run to begin", || watch.fraction().unwrap_or(0.0) > 0.2);
        }
        bench.ends.agent.forget("bench").unwrap();
        until("the lease to be free", || holder().is_none());
        drop(go_on);
        let e = runs.join().unwrap();
        assert!(matches!(&e, ClientError::Forgotten { .. }), "{e}");
        // Other clients are not affected, and the device is available.
        bench.strings.set(support::SOUND);
        drop(bystander.lease("board").unwrap());
    }
}

#[test]
fn removed_client_gets_no_further_replies() {
    let bench = Bench::new(Options::default());
    let mut channel = open_session(&bench);
    // The agent checks the store itself after this request or shortly before. Both end the session.
    bench.ends.agent.forget("bench").unwrap();
    let _ = channel.sender.send(Topic::Lease, &LeaseRequest::Take("board".into()));
    let frame = channel.receiver.receive().unwrap();
    assert_eq!(
        frame.message::<SessionReply>().unwrap(),
        SessionReply::Refused(SessionRefusal::Forgotten)
    );
    assert!(channel.receiver.receive().is_err());
    assert!(bench.server.states()[0].holder.is_none());
    // If the keys cannot be read, no client gets a lease, but running replays continue.
    bench.ends.agent.pin("bench", own_keys(&bench).public(), "").unwrap();
    let mut channel = open_session(&bench);
    let file = bench.ends.agent.path().to_owned();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    // The keeper's check of the store must change nothing, so there is no event to wait for. A sleep that is too short
    // makes this test weaker but does not fail it.
    std::thread::sleep(Duration::from_millis(700));
    channel
        .sender
        .send(Topic::Lease, &LeaseRequest::Take("board".into()))
        .unwrap();
    let frame = channel.receiver.receive().unwrap();
    assert_eq!(
        frame.message::<SessionReply>().unwrap(),
        SessionReply::Refused(SessionRefusal::KeysUnreadable)
    );
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    check_server_works(&bench);
}

#[test]
fn dropped_unpaired_client_gets_a_reason() {
    let bench = Bench::new(Options {
        strangers: 2,
        introduction: Duration::from_secs(60),
        ..Options::default()
    });
    let connect = || {
        let s = TcpStream::connect(bench.address).unwrap();
        s.set_read_timeout(Some(HANG_LIMIT)).unwrap();
        s
    };
    let describe = |mut s: TcpStream| {
        let mut bytes = [0; 64];
        s.read_exact(&mut bytes).unwrap();
        // The connection must end first. Until then it counts as closing, and too many of those block the next
        // connection.
        assert_eq!(s.read(&mut [0]).unwrap(), 0);
        Preamble::from_bytes(&bytes).unwrap().known_word()
    };
    // The newest silent connection replaces the oldest, one after the other.
    let mut waiting = std::collections::VecDeque::new();
    for n in 0..6 {
        waiting.push_back(connect());
        if n >= 2 {
            assert_eq!(describe(waiting.pop_front().unwrap()), Some(PreambleWord::Full));
        }
    }
    drop(waiting);
    check_server_works(&bench);
}

#[test]
fn silent_connections_do_not_block_paired_clients() {
    let bench = Bench::new(Options {
        strangers: 3,
        introduction: Duration::from_secs(60),
        ..Options::default()
    });
    let silent = |n: usize| -> Vec<TcpStream> {
        let open = |_| {
            let s = TcpStream::connect(bench.address).unwrap();
            s.set_read_timeout(Some(HANG_LIMIT)).unwrap();
            s
        };
        (0..n).map(open).collect()
    };
    let mut idle = silent(3);
    check_server_works(&bench);
    // The client replaced the oldest connection, which receives the reason.
    let mut received = Vec::new();
    idle[0].read_to_end(&mut received).unwrap();
    let word = Preamble::from_bytes(received.first_chunk().unwrap()).unwrap();
    assert_eq!((received.len(), word.known_word()), (64, Some(PreambleWord::Full)));
    for _ in 0..20 {
        idle.extend(silent(3));
        until("a free connection for a paired client", || {
            Client::connect(&tcp(bench.address), &bench.ends.client, None).is_ok()
        });
    }
    // A known client is no longer unpaired, so no connection replaces it.
    let mut lease = bench.lease();
    idle.extend(silent(9));
    let outcome = lease.replay(&plan(20, &images(2)), 1, &Progress::new(), false).unwrap();
    assert_eq!(outcome.verdict, Verdict::Match);
}

/// Starts an agent that completes the handshake and then runs `say`.
fn hostile_agent(keys: &KeyStore, say: impl Fn(&mut Channel) + Send + 'static) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let own_keys = keys.key_pair().clone();
    std::thread::spawn(move || {
        let mut channel = raw_agent(listener.accept().unwrap().0, &own_keys);
        say(&mut channel);
        // The loop ends when the client closes the connection.
        while channel.receiver.receive().is_ok() {}
    });
    at
}

#[test]
fn hostile_agent_causes_only_a_typed_error() {
    let bench = Bench::new(Options::default());
    let strategy = prop::collection::vec(any::<u8>(), 0..200);
    runner(20)
        .run(&strategy, |bytes| {
            let at = hostile_agent(&bench.ends.agent, move |c| {
                let _ = c.sender.send_bytes(Topic::Session, &bytes);
            });
            let e = Client::connect(&tcp(at), &bench.ends.client, None).unwrap_err();
            prop_assert!(matches!(e, ClientError::Protocol { .. }), "{}", e);
            Ok(())
        })
        .unwrap();
    // The agent requests pages that were not offered, and names pieces of an impossible size.
    let odd = Outline {
        log2: 63,
        digests: vec![1],
    };
    let bad_replies = [
        PagesReply::LackPages(vec![(0, u32::MAX), (5, u32::MAX)]),
        PagesReply::LackParts {
            head: Some(odd),
            body: None,
        },
    ];
    for bad_reply in bad_replies {
        let devices = bench.server.states();
        let at = hostile_agent(&bench.ends.agent, move |c| {
            let info = devices[0].info.clone();
            let welcome = SessionReply::Welcome {
                program: String::new(),
                you: String::new(),
                devices: devices.clone(),
            };
            c.sender.send(Topic::Session, &welcome).unwrap();
            c.receiver.receive().unwrap();
            c.sender
                .send(Topic::Lease, &LeaseReply::Granted(Box::new(info)))
                .unwrap();
            c.receiver.receive().unwrap();
            c.sender.send(Topic::Pages, &bad_reply).unwrap();
        });
        let mut lease = Client::connect(&tcp(at), &bench.ends.client, None)
            .unwrap()
            .lease("board")
            .unwrap();
        let e = lease.replay(&plan(1, &[]), 1, &Progress::new(), false).unwrap_err();
        assert!(matches!(e, ClientError::Protocol { .. }), "{e}");
    }
}

fn check_decoding<T: DeserializeOwned + serde::Serialize>(bytes: &[u8]) {
    let frame = Frame {
        concern: Topic::Session,
        payload: bytes.to_vec(),
    };
    if let Ok(message) = frame.message::<T>() {
        assert_eq!(
            encode::to_bytes(&message).unwrap(),
            bytes,
            "each message has one encoding"
        );
    }
}

#[test]
fn messages_parse_arbitrary_bytes_with_bounded_memory() {
    let before = peak_kib();
    // A valid variant number lets the decoder read further than random bytes would.
    let strategy = (0u32..8, prop::collection::vec(any::<u8>(), 0..120), any::<bool>());
    runner(3000)
        .run(&strategy, |(variant, tail, huge)| {
            let mut bytes = variant.to_le_bytes().to_vec();
            if huge {
                bytes.extend_from_slice(&(u64::MAX >> (variant * 4)).to_le_bytes());
            }
            bytes.extend_from_slice(&tail);
            check_decoding::<SessionReply>(&bytes);
            check_decoding::<PairMessage>(&bytes);
            check_decoding::<LeaseRequest>(&bytes);
            check_decoding::<LeaseReply>(&bytes);
            check_decoding::<PagesRequest>(&bytes);
            check_decoding::<PagesReply>(&bytes);
            check_decoding::<RunRequest>(&bytes);
            check_decoding::<RunReply>(&bytes);
            check_decoding::<WasmRequest>(&bytes);
            check_decoding::<WasmReply>(&bytes);
            Ok(())
        })
        .unwrap();
    let grown = peak_kib().saturating_sub(before);
    assert!(grown < 64 << 10, "{grown} KiB for messages of 130 bytes");
}

#[test]
fn silent_channel_times_out() {
    let bench = Bench::new(Options::default());
    let at = hostile_agent(&bench.ends.agent, |_| {});
    let mut channel = raw_client(at, &own_keys(&bench), PreambleWord::Session);
    channel.receiver.set_silence(Duration::from_millis(200)).unwrap();
    let e = channel.receiver.receive().unwrap_err();
    assert!(matches!(e, replay_engine::wire::WireError::Silent), "{e}");
}
