//! Tests of pairing over real sockets: confirmed, declined and attacked. Unpaired clients are refused.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::support;

use replay_engine::client::{Client, ClientError, Endpoint, pair, pair_with_key};
use replay_engine::serve::{Options, PairingRequest, PairingWindow, Server};
use replay_engine::wire::message::PairMessage;
use replay_engine::wire::{
    Channel, HIGHEST, KeyPair, KeyStoreError, NamedKey, Preamble, PreambleWord, Stream, Topic, WRITE_LIMIT,
    describe_mismatch, pairing_code,
};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use support::{Ends, HANG_LIMIT, Strings, is_pairing_open, listen, raw_agent, raw_client, soon, tcp, until};

/// Starts an agent without paired clients.
fn agent(ends: &Ends) -> (Server, SocketAddr) {
    let devices = [Strings::default().factory("board").into()];
    let server = Server::new(&devices, Some(Arc::clone(&ends.agent)), Options::default()).unwrap();
    let address = listen(&server);
    (server, address)
}

/// Opens pairing. Returns the codes that the agent's user sees, and the results of attempts.
fn open(server: &Server, answer: bool, port: Option<u16>) -> (Receiver<String>, Receiver<Result<String, String>>) {
    let (show, shown) = channel();
    let (sender, receiver) = channel();
    let (show, shared_log) = (std::sync::Mutex::new(show), std::sync::Mutex::new(sender));
    server.open_pairing(PairingWindow::new(
        move |request| {
            show.lock().unwrap().send(request.code.clone()).unwrap();
            answer
        },
        move |result| shared_log.lock().unwrap().send(result.clone()).unwrap(),
        port,
    ));
    (shown, receiver)
}

#[test]
fn confirmed_code_pairs_client_and_agent() {
    let ends = Ends::strangers();
    let (server, address) = agent(&ends);
    let (shown, receiver) = open(&server, true, None);
    let mut here = String::new();
    let paired = pair(&tcp(address), "board-3", &ends.client, |code| {
        here = code.to_owned();
        true
    })
    .unwrap();
    assert_eq!(shown.recv().unwrap(), here, "both users see the same code");
    assert_eq!(here.len(), 11);
    let name = receiver.recv().unwrap().unwrap();
    assert_eq!(paired.key, ends.agent.key_pair().public());
    assert_eq!(
        ends.client.find_by_name("board-3").unwrap().unwrap().address,
        address.to_string()
    );
    assert_eq!(
        ends.agent.find_by_name(&name).unwrap().unwrap().key,
        ends.client.key_pair().public()
    );
    let client = Client::connect(&tcp(address), &ends.client, Some("board-3")).unwrap();
    assert_eq!(client.client_name(), name);
    assert_eq!(client.devices()[0].name, "board");
    // The window closes after one client.
    let other = Ends::strangers();
    let again = pair(&tcp(address), "x", &other.client, |_| true).unwrap_err();
    assert!(
        matches!(&again, ClientError::Refused(why) if why.contains("kinescope-agent pair")),
        "{again}"
    );
}

#[test]
fn pairing_on_another_port_stores_the_service_port() {
    let ends = Ends::strangers();
    let (server, address) = agent(&ends);
    let _receivers = open(&server, true, Some(4321));
    let paired = pair(&tcp(address), "b", &ends.client, |_| true).unwrap();
    assert_eq!(paired.address, "127.0.0.1:4321");
}

#[test]
fn declining_at_the_agent_stores_no_key() {
    let ends = Ends::strangers();
    let (server, address) = agent(&ends);
    let (_shown, receiver) = open(&server, false, None);
    let e = pair(&tcp(address), "b", &ends.client, |_| true).unwrap_err();
    assert!(
        matches!(&e, ClientError::PairingDeclined { by } if by == "by the agent"),
        "{e}"
    );
    assert!(receiver.recv().unwrap().is_err());
    assert!(ends.client.peers().unwrap().is_empty() && ends.agent.peers().unwrap().is_empty());
}

#[test]
fn three_declines_at_the_client_close_pairing_without_keys() {
    let ends = Ends::strangers();
    let (server, address) = agent(&ends);
    let (_shown, receiver) = open(&server, true, None);
    for _ in 0..3 {
        let e = pair(&tcp(address), "b", &ends.client, |_| false).unwrap_err();
        assert!(
            matches!(&e, ClientError::PairingDeclined { by } if by == "on this end"),
            "{e}"
        );
        assert!(receiver.recv().unwrap().is_err());
    }
    assert!(receiver.recv().unwrap().unwrap_err().contains("three"));
    assert!(ends.client.peers().unwrap().is_empty() && ends.agent.peers().unwrap().is_empty());
    let e = pair(&tcp(address), "b", &ends.client, |_| true).unwrap_err();
    assert!(matches!(e, ClientError::Refused(_)), "{e}");
}

fn next(channel: &mut Channel) -> PairMessage {
    let frame = channel.receiver.receive().unwrap();
    assert_eq!(frame.concern, Topic::Pair);
    frame.message().unwrap()
}

fn say(channel: &Channel, message: &PairMessage) {
    channel.sender.send(Topic::Pair, message).unwrap();
}

#[test]
fn man_in_the_middle_makes_the_pairing_codes_differ() {
    let ends = Ends::strangers();
    let (server, address) = agent(&ends);
    let (shown, receiver) = open(&server, false, None);
    let middle = TcpListener::bind("127.0.0.1:0").unwrap();
    let middle_address = middle.local_addr().unwrap();
    let attack = std::thread::spawn(move || {
        let keys = KeyPair::generate().unwrap();
        let mut client = raw_agent(middle.accept().unwrap().0, &keys);
        let mut agent = raw_client(address, &keys, PreambleWord::Pair);
        // The attacker sees the client's commitment. It must commit to the agent before it knows either nonce.
        let PairMessage::Commit { name, .. } = next(&mut client) else {
            panic!()
        };
        let own_nonce = pairing_code::nonce().unwrap();
        say(
            &agent,
            &PairMessage::Commit {
                digest: pairing_code::commitment(&agent.hash, &own_nonce),
                name,
            },
        );
        let PairMessage::Nonce(nonce) = next(&mut agent) else {
            panic!()
        };
        say(&client, &PairMessage::Nonce(nonce));
        let PairMessage::Reveal(revealed) = next(&mut client) else {
            panic!()
        };
        say(&agent, &PairMessage::Reveal(own_nonce));
        // The attack succeeds only if both users confirm without a look at the code.
        (
            pairing_code::code(&client.hash, &revealed, &nonce),
            pairing_code::code(&agent.hash, &own_nonce, &nonce),
            client,
            agent,
        )
    });
    let mut here = String::new();
    let result = pair(&tcp(middle_address), "b", &ends.client, |code| {
        here = code.to_owned();
        false
    });
    assert!(matches!(result, Err(ClientError::PairingDeclined { .. })));
    let agents = shown.recv().unwrap();
    assert_ne!(here, agents, "both users must see different codes");
    let (client_leg, agent_leg, _client, _agent) = attack.join().unwrap();
    assert_eq!((here, agents), (client_leg, agent_leg));
    assert!(receiver.recv().unwrap().is_err());
    assert!(ends.client.peers().unwrap().is_empty() && ends.agent.peers().unwrap().is_empty());
}

#[test]
fn nonce_that_breaks_its_commitment_is_refused() {
    let ends = Ends::strangers();
    let (server, address) = agent(&ends);
    let (shown, _results) = open(&server, true, None);
    let keys = KeyPair::generate().unwrap();
    let mut channel = raw_client(address, &keys, PreambleWord::Pair);
    let digest = pairing_code::commitment(&channel.hash, &[7; 32]);
    say(
        &channel,
        &PairMessage::Commit {
            digest,
            name: "evil\u{1b}[2J".into(),
        },
    );
    assert!(matches!(next(&mut channel), PairMessage::Nonce(_)));
    say(&channel, &PairMessage::Reveal([8; 32]));
    assert!(channel.receiver.receive().is_err(), "the agent hangs up");
    assert!(ends.agent.peers().unwrap().is_empty());
    // The agent asks about clients in turn. A question about the dishonest client would come before this one.
    pair(&tcp(address), "board", &ends.client, |_| true).unwrap();
    assert_eq!(shown.try_iter().count(), 1, "the agent asks about no other client");
}

#[test]
fn unpaired_clients_cannot_close_or_block_pairing() {
    let ends = Ends::strangers();
    let (server, address) = agent(&ends);
    let (shown, receiver) = open(&server, true, None);
    let keys = KeyPair::generate().unwrap();
    // Some clients disconnect, some break their commitment and some stay silent.
    let mut silent_clients = Vec::new();
    for n in 0..9 {
        let mut channel = raw_client(address, &keys, PreambleWord::Pair);
        if n % 3 > 0 {
            let digest = pairing_code::commitment(&channel.hash, &[7; 32]);
            let name = "x".to_owned();
            say(&channel, &PairMessage::Commit { digest, name });
            assert!(matches!(next(&mut channel), PairMessage::Nonce(_)));
        }
        match n % 3 {
            0 => drop(channel),
            1 => say(&channel, &PairMessage::Reveal([8; 32])),
            _ => silent_clients.push(channel),
        }
    }
    pair(&tcp(address), "board", &ends.client, |_| true).unwrap();
    assert_eq!(shown.try_iter().count(), 1, "the user is asked once");
    assert!(receiver.recv().unwrap().is_ok());
    assert!(receiver.try_recv().is_err(), "no other attempt is reported");
    drop(silent_clients);
}

#[test]
fn slow_client_handshake_is_disconnected() {
    let ends = Ends::strangers();
    let devices = [Strings::default().factory("board").into()];
    let options = Options {
        introduction: Duration::from_millis(1500),
        ..Options::default()
    };
    let server = Server::new(&devices, Some(Arc::clone(&ends.agent)), options).unwrap();
    let address = listen(&server);
    let (shown, _results) = open(&server, true, None);
    let keys = KeyPair::generate().unwrap();
    let mut channel = raw_client(address, &keys, PreambleWord::Pair);
    assert!(channel.receiver.receive().is_err(), "no commitment came");
    let mut channel = raw_client(address, &keys, PreambleWord::Pair);
    let digest = pairing_code::commitment(&channel.hash, &[7; 32]);
    let name = "x".to_owned();
    say(&channel, &PairMessage::Commit { digest, name });
    assert!(matches!(next(&mut channel), PairMessage::Nonce(_)));
    assert!(channel.receiver.receive().is_err(), "nothing was revealed");
    assert!(shown.try_recv().is_err());
    pair(&tcp(address), "board", &ends.client, |_| true).unwrap();
}

#[test]
fn unanswered_pairing_is_declined_and_other_clients_see_busy() {
    let ends = Ends::strangers();
    let (server, address) = agent(&ends);
    let (requests, request_receiver) = channel();
    let (sender, receiver) = channel();
    let (requests, shared_log) = (std::sync::Mutex::new(requests), std::sync::Mutex::new(sender));
    let (_never, answer) = channel::<bool>();
    let answer = std::sync::Mutex::new(answer);
    let window = PairingWindow::new(
        move |_| {
            requests.lock().unwrap().send(()).unwrap();
            answer.lock().unwrap().recv().unwrap_or(true)
        },
        move |result: &Result<String, String>| shared_log.lock().unwrap().send(result.clone()).unwrap(),
        None,
    );
    server.open_pairing(window.answer_within(Duration::from_millis(700)));
    let client = Arc::clone(&ends.client);
    let first = std::thread::spawn(move || pair(&tcp(address), "b", &client, |_| true));
    request_receiver.recv().unwrap();
    let other = Ends::strangers();
    let e = pair(&tcp(address), "x", &other.client, |_| true).unwrap_err();
    assert!(
        matches!(&e, ClientError::Refused(why) if why.contains("waits for the confirmation of another client")),
        "{e}"
    );
    let e = first.join().unwrap().unwrap_err();
    assert!(
        matches!(&e, ClientError::PairingDeclined { by } if by == "by the agent"),
        "{e}"
    );
    assert!(receiver.recv().unwrap().unwrap_err().contains("nobody answered"));
    assert!(ends.agent.peers().unwrap().is_empty() && ends.client.peers().unwrap().is_empty());
}

#[test]
fn unpaired_client_is_refused_with_pairing_advice() {
    let ends = Ends::strangers();
    let (_server, address) = agent(&ends);
    let e = Client::connect(&tcp(address), &ends.client, None).unwrap_err();
    assert!(matches!(e, ClientError::NotPaired { .. }), "{e}");
    assert!(e.to_string().contains("kinescope-agent pair"));
    // The client knows the agent's key, but the agent does not know the client's.
    ends.client.pin("board", ends.agent.key_pair().public(), "").unwrap();
    let e = Client::connect(&tcp(address), &ends.client, Some("board")).unwrap_err();
    assert!(
        matches!(&e, ClientError::Refused(why) if why.contains("kinescope-agent pair")),
        "{e}"
    );
    // The agent sees added and removed keys without a restart.
    ends.agent.pin("bench", ends.client.key_pair().public(), "").unwrap();
    Client::connect(&tcp(address), &ends.client, Some("board")).unwrap();
    ends.agent.forget("bench").unwrap();
    assert!(Client::connect(&tcp(address), &ends.client, Some("board")).is_err());
}

#[test]
fn agent_with_a_wrong_key_is_refused() {
    let ends = Ends::strangers();
    let (_server, address) = agent(&ends);
    ends.client
        .pin("board", KeyPair::generate().unwrap().public(), "")
        .unwrap();
    let e = Client::connect(&tcp(address), &ends.client, Some("board")).unwrap_err();
    assert!(
        matches!(&e, ClientError::WrongKey { name, .. } if name == "board"),
        "{e}"
    );
    // A key under another name is not sufficient.
    ends.client.pin("other", ends.agent.key_pair().public(), "").unwrap();
    let e = Client::connect(&tcp(address), &ends.client, Some("board")).unwrap_err();
    assert!(matches!(e, ClientError::WrongKey { .. }), "{e}");
    let e = pair(&tcp(address), "a b", &ends.client, |_| true).unwrap_err();
    assert!(matches!(e, ClientError::Keys(KeyStoreError::BadName(_))), "{e}");
}

/// Returns the preamble of another program version with a range of protocol versions.
fn preamble_of(program: &str, [lowest, highest]: [u16; 2], word: PreambleWord) -> Preamble {
    Preamble {
        lowest,
        highest,
        word: word as u8,
        has_aes: false,
        program: program.into(),
    }
}

#[test]
fn client_of_another_protocol_version_is_refused_with_the_end_to_update() {
    let ends = Ends::paired("");
    let (_server, address) = agent(&ends);
    for (program, versions, message) in [
        ("kinescope 9.0", [900, 901], "speaks versions 900 to 901, the agent"),
        ("kinescope 0.0.1", [1, 4], "speaks versions 1 to 4, the agent"),
    ] {
        let client = preamble_of(program, versions, PreambleWord::Session);
        let mut stream = Stream::Tcp(TcpStream::connect(address).unwrap());
        stream.set_limits(HANG_LIMIT, WRITE_LIMIT).unwrap();
        client.send(&mut stream).unwrap();
        let (answer, _) = Preamble::receive(&mut stream, soon()).unwrap();
        assert_eq!(answer.known_word(), Some(PreambleWord::NoVersion));
        let sentence = describe_mismatch(&client, &answer);
        let update = if versions[0] > HIGHEST {
            "update the agent"
        } else {
            "update the client"
        };
        assert!(sentence.contains(message) && sentence.ends_with(update), "{sentence}");
        assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0, "the agent must hang up");
    }
}

#[test]
fn agent_of_another_protocol_version_is_named_with_the_end_to_update() {
    let ends = Ends::paired("");
    for (program, versions, message) in [
        (
            "kinescope-agent 9.0",
            [900, 901],
            "the agent (kinescope-agent 9.0) speaks versions 900 to 901; update the client",
        ),
        // The version before the first release.
        (
            "kinescope-agent 0.0.1",
            [4, 4],
            "the agent (kinescope-agent 0.0.1) speaks version 4; update the agent",
        ),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let agent = preamble_of(program, versions, PreambleWord::NoVersion);
        let fake = std::thread::spawn(move || {
            let mut stream = Stream::Tcp(listener.accept().unwrap().0);
            let (theirs, _) = Preamble::receive(&mut stream, soon()).unwrap();
            agent.send(&mut stream).unwrap();
            describe_mismatch(&theirs, &agent)
        });
        let e = Client::connect(&tcp(at), &ends.client, None).unwrap_err();
        assert!(matches!(&e, ClientError::Version(_)), "{e}");
        assert!(e.to_string().ends_with(message), "{e}");
        assert!(
            e.to_string().starts_with("no common protocol version: the client"),
            "{e}"
        );
        assert_eq!(
            e.to_string(),
            fake.join().unwrap(),
            "both ends must report the same error"
        );
    }
}

#[test]
fn connection_errors_distinguish_missing_and_foreign_servers() {
    let ends = Ends::paired("");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut s, _) = listener.accept().unwrap();
        s.write_all(&[b'H'; 64]).unwrap();
        // The server reads the client's bytes, because closing with unread bytes would reset the connection.
        let _ = s.read(&mut [0; 64]);
    });
    let e = Client::connect(&tcp(at), &ends.client, None).unwrap_err();
    assert!(matches!(e, ClientError::NotAnAgent { .. }), "{e}");
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let e = Client::connect(&tcp(free), &ends.client, None).unwrap_err();
    assert!(
        matches!(&e, ClientError::Unreachable { .. }) && e.to_string().contains("kinescope-agent"),
        "{e}"
    );
    let e = Client::connect(&Endpoint::Unix("/nowhere/x.sock".into()), &ends.client, None).unwrap_err();
    assert!(matches!(e, ClientError::Unreachable { .. }), "{e}");
}

#[test]
fn a_preamble_changed_on_the_way_ends_the_handshake() {
    let ends = Ends::paired("");
    let (_server, address) = agent(&ends);
    let middle = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = middle.local_addr().unwrap();
    // The relay changes only one reserved byte of the client's preamble.
    std::thread::spawn(move || {
        let mut client = middle.accept().unwrap().0;
        let mut agent = TcpStream::connect(address).unwrap();
        let mut preamble = [0; 64];
        client.read_exact(&mut preamble).unwrap();
        preamble[13] ^= 1;
        agent.write_all(&preamble).unwrap();
        let (mut a, mut c) = (agent.try_clone().unwrap(), client.try_clone().unwrap());
        std::thread::spawn(move || std::io::copy(&mut a, &mut c));
        let _ = std::io::copy(&mut client, &mut agent);
    });
    let e = Client::connect(&tcp(at), &ends.client, Some("board")).unwrap_err();
    assert!(
        matches!(e, ClientError::Protocol { .. } | ClientError::Lost { .. }),
        "{e}"
    );
    until("the agent to accept connections", || {
        Client::connect(&tcp(address), &ends.client, Some("board")).is_ok()
    });
}

/// Opens pairing with a user who answers when the test sends an answer. Returns the questions, a sender for answers,
/// and the results of attempts.
#[allow(clippy::type_complexity, reason = "three ends of channels")]
fn open_with_answers(
    server: &Server,
) -> (
    Receiver<PairingRequest>,
    std::sync::mpsc::Sender<bool>,
    Receiver<Result<String, String>>,
) {
    let (show, shown) = channel();
    let (say, answers) = channel();
    let (sender, receiver) = channel();
    let again = std::sync::Mutex::new(say.clone());
    let (show, answers, shared_log) = (
        std::sync::Mutex::new(show),
        std::sync::Mutex::new(answers),
        std::sync::Mutex::new(sender),
    );
    server.open_pairing(PairingWindow::new(
        move |request: &PairingRequest| {
            show.lock().unwrap().send(request.clone()).unwrap();
            let answers = answers.lock().unwrap();
            loop {
                match answers.recv_timeout(Duration::from_millis(10)) {
                    // The answer belongs to the next question.
                    Ok(answer) if request.is_withdrawn() => {
                        again.lock().unwrap().send(answer).unwrap();
                        return false;
                    }
                    Ok(answer) => return answer,
                    Err(_) if request.is_withdrawn() => return false,
                    Err(_) => {}
                }
            }
        },
        move |result: &Result<String, String>| shared_log.lock().unwrap().send(result.clone()).unwrap(),
        None,
    ));
    (shown, say, receiver)
}

/// Connects an unpaired client up to the question.
fn connect_to_question(address: SocketAddr, name: &str) -> Channel {
    let keys = KeyPair::generate().unwrap();
    let mut channel = raw_client(address, &keys, PreambleWord::Pair);
    let nonce = pairing_code::nonce().unwrap();
    let digest = pairing_code::commitment(&channel.hash, &nonce);
    let name = name.to_owned();
    say(&channel, &PairMessage::Commit { digest, name });
    assert!(matches!(next(&mut channel), PairMessage::Nonce(_)));
    say(&channel, &PairMessage::Reveal(nonce));
    channel
}

#[test]
fn question_is_withdrawn_when_its_client_disconnects() {
    let ends = Ends::strangers();
    let (server, address) = agent(&ends);
    let (requests, answer, receiver) = open_with_answers(&server);
    // The number exceeds the limit of failed attempts. A withdrawn question is not a failed attempt.
    for _ in 0..5 {
        let stranger = connect_to_question(address, "stranger");
        let request = requests.recv_timeout(HANG_LIMIT).unwrap();
        assert!(!request.is_withdrawn());
        stranger.sender.close();
        until("the question to be withdrawn", || request.is_withdrawn());
        let why = receiver.recv_timeout(HANG_LIMIT).unwrap().unwrap_err();
        assert!(why.contains("withdrawn"), "{why}");
    }
    let client = Arc::clone(&ends.client);
    let pairs = std::thread::spawn(move || pair(&tcp(address), "board", &client, |_| true));
    let request = requests.recv_timeout(HANG_LIMIT).unwrap();
    assert_eq!(request.key, ends.client.key_pair().public());
    answer.send(true).unwrap();
    pairs.join().unwrap().unwrap();
    assert!(receiver.recv().unwrap().is_ok());
    assert_eq!(ends.agent.peers().unwrap().len(), 1, "only one client must be paired");
}

#[test]
fn repeated_client_disconnects_close_pairing() {
    let ends = Ends::strangers();
    let (server, address) = agent(&ends);
    let (requests, _answer, receiver) = open_with_answers(&server);
    let closes = (0..40).any(|_| {
        connect_to_question(address, "x").sender.close();
        requests.recv_timeout(HANG_LIMIT).unwrap();
        receiver.recv_timeout(HANG_LIMIT).unwrap().unwrap_err();
        // Pairing closes before the agent reports the end of the last attempt.
        !is_pairing_open(address)
    });
    assert!(closes, "pairing must close");
    let why = receiver.recv_timeout(HANG_LIMIT).unwrap().unwrap_err();
    assert!(why.contains("pairing closed"), "{why}");
    let e = pair(&tcp(address), "b", &ends.client, |_| true).unwrap_err();
    assert!(
        matches!(&e, ClientError::Refused(why) if why.contains("not in pairing mode")),
        "{e}"
    );
}

#[test]
fn a_client_that_declines_first_withdraws_the_question() {
    let ends = Ends::strangers();
    let (server, address) = agent(&ends);
    let (requests, _answer, receiver) = open_with_answers(&server);
    let e = pair(&tcp(address), "b", &ends.client, |_| false).unwrap_err();
    assert!(
        matches!(&e, ClientError::PairingDeclined { by } if by == "on this end"),
        "{e}"
    );
    let request = requests.recv_timeout(HANG_LIMIT).unwrap();
    until("the question to be withdrawn", || request.is_withdrawn());
    assert!(receiver.recv_timeout(HANG_LIMIT).unwrap().is_err());
}

#[test]
fn pairing_succeeds_in_either_answer_order() {
    for client_first in [true, false] {
        let ends = Ends::strangers();
        let (server, address) = agent(&ends);
        let (requests, answer, receiver) = open_with_answers(&server);
        let (go, wait) = channel::<()>();
        let client = Arc::clone(&ends.client);
        let pairs = std::thread::spawn(move || {
            pair(&tcp(address), "board", &client, |_| {
                wait.recv().unwrap();
                true
            })
        });
        requests.recv_timeout(HANG_LIMIT).unwrap();
        // Neither end shows that it has the other's answer before its own answer. If the sleep is too short, the
        // answers may swap order, which must not matter.
        if client_first {
            go.send(()).unwrap();
            std::thread::sleep(Duration::from_millis(200));
            answer.send(true).unwrap();
        } else {
            answer.send(true).unwrap();
            std::thread::sleep(Duration::from_millis(200));
            go.send(()).unwrap();
        }
        pairs.join().unwrap().unwrap();
        assert!(receiver.recv().unwrap().is_ok());
    }
}

#[test]
fn used_client_name_is_reported_before_confirmation() {
    let ends = Ends::strangers();
    let (server, address) = agent(&ends);
    let other = KeyPair::generate().unwrap().public();
    ends.agent.pin("vm", other, "").unwrap();
    let (requests, answer, receiver) = open_with_answers(&server);
    let stranger = connect_to_question(address, "vm");
    let request = requests.recv_timeout(HANG_LIMIT).unwrap();
    assert_eq!((request.name.as_str(), request.kept_as.as_str()), ("vm", "vm-2"));
    assert_eq!(request.known_as, None);
    say(
        &stranger,
        &PairMessage::Confirm {
            accepted: true,
            service_port: None,
        },
    );
    answer.send(true).unwrap();
    assert_eq!(receiver.recv().unwrap().unwrap(), "vm-2");
    assert_eq!(ends.agent.find_by_name("vm").unwrap().unwrap().key, other);
    // The request reports that the key is already paired.
    let (requests, _answer, _results) = open_with_answers(&server);
    ends.agent.pin("desk", ends.client.key_pair().public(), "").unwrap();
    let client = Arc::clone(&ends.client);
    std::thread::spawn(move || pair(&tcp(address), "b", &client, |_| false));
    let request = requests.recv_timeout(HANG_LIMIT).unwrap();
    assert_eq!(request.known_as.as_deref(), Some("desk"));
}

#[test]
fn named_key_pairs_without_confirmation() {
    let ends = Ends::strangers();
    let (server, address) = agent(&ends);
    let (sender, receiver) = channel();
    let shared_log = std::sync::Mutex::new(sender);
    let named: NamedKey = ends.client.key_pair().public().fingerprint().parse().unwrap();
    server.open_pairing(PairingWindow::accepting(
        named,
        move |result: &Result<String, String>| shared_log.lock().unwrap().send(result.clone()).unwrap(),
        None,
    ));
    for _ in 0..5 {
        let other = Ends::strangers();
        let e = pair(&tcp(address), "x", &other.client, |_| true).unwrap_err();
        assert!(matches!(&e, ClientError::PairingDeclined { .. }), "{e}");
    }
    assert!(receiver.try_recv().is_err(), "a foreign key is not an attempt");
    // The client also names the agent's key. It does not even reveal its own key to an agent with another key.
    let wrong: NamedKey = ends.client.key_pair().public().fingerprint().parse().unwrap();
    let e = pair_with_key(&tcp(address), "board", &ends.client, &wrong).unwrap_err();
    assert!(matches!(&e, ClientError::OtherKey { .. }), "{e}");
    assert!(
        e.to_string().contains(&ends.agent.key_pair().public().fingerprint()),
        "{e}"
    );
    let right: NamedKey = ends.agent.key_pair().public().to_hex().parse().unwrap();
    pair_with_key(&tcp(address), "board", &ends.client, &right).unwrap();
    assert!(receiver.recv().unwrap().is_ok());
    assert_eq!(ends.agent.peers().unwrap().len(), 1);
    assert_eq!(ends.client.peers().unwrap().len(), 1);
}
