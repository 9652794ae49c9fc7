//! Tests of the agent as a separate process: pairing at its terminal, serving, a kill and a request to end.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::process;

use process::{Agent, LIMIT, paired};
use replay_core::{Action, ReadClass};
use replay_engine::client::{ClientError, Endpoint, Lease, Stage, pair, targets};
use replay_engine::plan::{AccessPlan, BodyBuilder, Compiled, Plan, PlanBody, ReadClasses, RegisterPlan};
use replay_engine::run::Verdict;
use replay_engine::wire::{KeyStore, WireError};
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use trace_core::progress::Progress;

fn agent(args: &[&str], keys: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_kinescope-agent"))
        .args(args)
        .arg("--keys")
        .arg(keys)
        .output()
        .unwrap()
}

/// A plan that reads a register of the simulator `reads` times and accepts any value.
fn plan(lease: &Lease, reads: u32) -> Compiled {
    let info = lease.info();
    let mut body = BodyBuilder::new();
    for event in 0..reads {
        let read = Action::Read {
            event,
            space: 0,
            offset: 0,
            width: 4,
            class: ReadClass::Equal,
            expected: u64::from(info.gpu_id),
        };
        body.push(&read).unwrap();
    }
    let (body, actions) = body.finish();
    let accesses = AccessPlan {
        gpu_id: info.gpu_id,
        register_map: info.register_map.clone(),
        arena: info.arena,
        reads: ReadClasses {
            equal: u64::from(reads),
            ..ReadClasses::default()
        },
        body,
        ..AccessPlan::default()
    };
    let plan = Plan {
        title: "reads".to_owned(),
        actions,
        ..Plan::new(PlanBody::Registers(RegisterPlan {
            accesses,
            ..RegisterPlan::default()
        }))
    };
    Compiled {
        plan,
        pages: BTreeMap::new(),
    }
}

#[test]
fn agent_serves_paired_clients_on_tcp_and_a_private_socket() {
    let (folder, client) = paired();
    let socket = folder.path().join("a.sock");
    let unix = socket.to_str().unwrap();
    let keys = folder.path().join("agent");
    let mut agent = Agent::start(&keys, &["serve", "--listen", "127.0.0.1:0", "--unix", unix]);
    let address = agent.line("listening on ");
    assert_eq!(agent.line("listening on "), unix);
    assert_eq!(std::fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    for name in [
        format!("agent://{address}/mali-g71"),
        format!("agent://{unix}/mali-g71"),
    ] {
        let mut lease = targets::open(&name, &targets::Factories::new(), &client).unwrap();
        let outcome = lease.replay(&plan(&lease, 1000), 1, &Progress::new(), false).unwrap();
        assert_eq!(outcome.verdict, Verdict::Match, "{:?}", outcome.failure);
    }
    // An agent that is asked to end exits with success and removes its socket.
    assert!(
        Command::new("sh")
            .args(["-c", "kill $0", &agent.child.id().to_string()])
            .status()
            .unwrap()
            .success()
    );
    assert_eq!(agent.wait(), Some(0));
    assert!(!socket.exists());
}

#[test]
fn client_notices_a_killed_agent_at_once() {
    let (folder, client) = paired();
    let mut agent = Agent::start(&folder.path().join("agent"), &["serve", "--listen", "127.0.0.1:0"]);
    let name = format!("agent://{}/mali-g71", agent.line("listening on "));
    let mut lease = targets::open(&name, &targets::Factories::new(), &client).unwrap();
    let compiled = plan(&lease, 200_000);
    let progress = Progress::new();
    let watch = progress.clone();
    let killer = std::thread::spawn(move || {
        let by = Instant::now() + LIMIT;
        // The upload is the first fifth of the progress.
        while watch.fraction().unwrap_or(0.0) <= 0.2 {
            assert!(Instant::now() < by, "the run does not begin");
            std::thread::sleep(Duration::from_millis(1));
        }
        agent.child.kill().unwrap();
        // The agent's port may accept connections until the process has ended.
        agent.child.wait().unwrap();
        agent
    });
    let e = lease.replay(&compiled, 10_000, &progress, false).unwrap_err();
    let _agent = killer.join().unwrap();
    // The client notices the closed connection. It does not wait for a timeout.
    let silence = WireError::Silent.to_string();
    assert!(
        matches!(&e, ClientError::Lost { stage: Stage::Run, reason } if *reason != silence),
        "{e}"
    );
    assert!(e.to_string().contains("check that kinescope-agent still runs"), "{e}");
    let e = lease.replay(&compiled, 1, &Progress::new(), false).unwrap_err();
    assert!(matches!(e, ClientError::Lost { .. }), "{e}");
    let e = targets::open(&name, &targets::Factories::new(), &client).unwrap_err();
    assert!(matches!(e, ClientError::Unreachable { .. }), "{e}");
}

#[test]
fn running_agent_accepts_a_client_paired_at_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let client = KeyStore::open(&folder.path().join("client")).unwrap();
    let keys = folder.path().join("agent");
    let serving = Agent::start(&keys, &["serve", "--listen", "127.0.0.1:0"]);
    let address = serving.line("listening on ");
    let port = address.rsplit_once(':').unwrap().1;
    let target = format!("agent://{address}/mali-g71");
    let none = targets::Factories::new();
    assert!(matches!(
        targets::open(&target, &none, &client),
        Err(ClientError::NotPaired { .. })
    ));
    // The operator declines the first request at the terminal and confirms the second.
    let mut pairing = Agent::start(&keys, &["pair", "--serve-port", port]);
    let at = Endpoint::parse(&pairing.line("listening on "));
    for answer in ["n\n", "yes\n"] {
        let result = pair(&at, "board", &client, |code| {
            assert_eq!(pairing.line("pairing code: "), code);
            pairing.type_in(answer);
            true
        });
        if answer == "n\n" {
            assert!(matches!(result, Err(ClientError::PairingDeclined { .. })));
            pairing.line("not paired");
        } else {
            assert_eq!(result.unwrap().address, address);
        }
    }
    let name = pairing.line("paired with ");
    assert_eq!(pairing.wait(), Some(0));
    let lease = targets::open("agent:board/mali-g71", &none, &client).unwrap();
    drop(lease);
    // The agent lists the key, forgets it and then refuses the client.
    let listed = agent(&["keys", "list"], &keys);
    let text = String::from_utf8(listed.stdout).unwrap();
    assert!(
        text.contains(&format!("{name}\t")) && text.contains(&client.key_pair().public().to_hex()),
        "{text}"
    );
    assert!(agent(&["keys", "forget", &name], &keys).status.success());
    assert!(matches!(
        targets::open(&target, &none, &client),
        Err(ClientError::Refused(_))
    ));
    assert_eq!(agent(&["keys", "forget", &name], &keys).status.code(), Some(2));
    // An operator can also add a key by hand.
    assert!(
        agent(&["keys", "trust", "desk", &client.key_pair().public().to_hex()], &keys)
            .status
            .success()
    );
    targets::open(&target, &none, &client).unwrap();
}

#[test]
fn loopback_only_agent_explains_how_to_allow_others() {
    let folder = tempfile::tempdir().unwrap();
    let find_line = |listen: &str, needle: &str| {
        let mut child = Command::new(env!("CARGO_BIN_EXE_kinescope-agent"))
            .args(["serve", "--listen", listen, "--keys"])
            .arg(folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let found = lines.map_while(Result::ok).find(|l| l.contains(needle));
        child.kill().unwrap();
        child.wait().unwrap();
        found.unwrap_or_else(|| panic!("no line with `{needle}`"))
    };
    let line = find_line("127.0.0.1:0", "only this machine can reach");
    assert!(line.contains("--listen ADDRESS:PORT"), "{line}");
}

#[test]
fn agent_lists_its_devices_and_reports_errors() {
    let folder = tempfile::tempdir().unwrap();
    let text = String::from_utf8(agent(&["devices"], folder.path()).stdout).unwrap();
    let names: Vec<&str> = text.lines().filter_map(|l| l.split('\t').next()).collect();
    // The targets of WebAssembly programs and this machine's hardware follow the simulators.
    let simulators = ["g71", "g52", "g72", "g51", "g76", "g31"].map(|m| format!("software:mali-{m}"));
    assert_eq!(names[..6], simulators);
    let hardware = |n: &&str| ["pci:", "platform:", "cuda:"].iter().any(|bus| n.starts_with(bus));
    let is_known = |n: &&str| hardware(n) || ["cpu", "interpreter"].contains(n);
    assert!(names[6..].iter().all(is_known), "{names:?}");
    let wrong = agent(&["serve", "--device", "toaster"], folder.path());
    let text = String::from_utf8(wrong.stderr).unwrap();
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text.contains("toaster") && text.contains("software:mali-g71"), "{text}");
    let file = folder.path().join("file");
    std::fs::write(&file, "precious").unwrap();
    let wrong = agent(&["serve", "--unix", file.to_str().unwrap()], folder.path());
    assert_eq!(wrong.status.code(), Some(2));
    assert_eq!(
        std::fs::read(&file).unwrap(),
        b"precious",
        "the agent must not replace a file that is not a socket"
    );
}

#[test]
fn unopenable_device_is_listed_with_a_reason_and_others_served() {
    let (folder, client) = paired();
    let keys = folder.path().join("agent");
    let args = [
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--device",
        "pci:ffff:ffff",
        "--device",
        "software:mali-g71",
        "--device",
        "qemu:no-such-device",
    ];
    let agent = Agent::start(&keys, &args);
    let address = agent.line("listening on ");
    client.forget("board").unwrap();
    let agent_keys = KeyStore::open(&keys).unwrap();
    client.pin("board", agent_keys.key_pair().public(), &address).unwrap();
    let found = targets::list_paired(&client).unwrap();
    let names: Vec<&str> = found.iter().map(|b| b.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "agent:board/mali-g71",
            "agent:board/pci:ffff:ffff",
            "agent:board/qemu:no-such-device"
        ]
    );
    assert_eq!(found[0].reach, targets::Availability::Free);
    for b in &found[1..] {
        let targets::Availability::Away(why) = &b.reach else {
            panic!("{:?}", b.reach)
        };
        assert!(why.starts_with("it could not be opened: "), "{why}");
        assert!(b.info.is_none(), "an unavailable device has no information");
    }
    let endpoint = Endpoint::Tcp(address);
    let connect = || replay_engine::client::Client::connect(&endpoint, &client, Some("board")).unwrap();
    let e = connect().lease("pci:ffff:ffff").unwrap_err();
    assert!(
        matches!(&e, ClientError::OutOfOrder { reason, .. } if reason.contains("ffff")),
        "{e}"
    );
    let mut lease = connect().lease("mali-g71").unwrap();
    let compiled = plan(&lease, 3);
    let outcome = lease.replay(&compiled, 1, &Progress::new(), false).unwrap();
    assert_eq!(outcome.verdict, Verdict::Match);
}

#[test]
fn agent_without_usable_devices_gives_reasons_and_exits_2() {
    let folder = tempfile::tempdir().unwrap();
    let out = agent(
        &[
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--device",
            "pci:ffff:ffff",
            "--device",
            "floppy",
        ],
        folder.path(),
    );
    let message = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(2), "{message}");
    for words in ["no device could be opened", "pci:ffff:ffff: ", "floppy: "] {
        assert!(message.contains(words), "{message}");
    }
}

/// Tools that end programs by name or stop a whole service must not end the guard before the agent. Only the end of its
/// pipe ends the guard.
#[test]
fn guard_process_ignores_termination_signals() {
    let mut guard = Command::new(env!("CARGO_BIN_EXE_kinescope-agent"))
        .arg("guard")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let caught = |id: u32| {
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
        let line = status.lines().find_map(|l| l.strip_prefix("SigCgt:")).unwrap();
        u64::from_str_radix(line.trim(), 16).unwrap()
    };
    // The guard handles signals 1, 2 and 15 once it has started.
    let terminating = 1 | 1 << 1 | 1 << 14;
    let started = Instant::now();
    while caught(guard.id()) & terminating != terminating {
        assert!(started.elapsed() < LIMIT, "the guard does not handle the signals");
        std::thread::sleep(Duration::from_millis(10));
    }
    for signal in ["-HUP", "-INT", "-TERM"] {
        // The shell's own `kill` is used because some systems lack the program.
        let sent = Command::new("sh")
            .args(["-c", "kill $0 $1", signal, &guard.id().to_string()])
            .status()
            .unwrap();
        assert!(sent.success());
    }
    // The kernel has delivered every signal, and the guard waits for its pipe again.
    let waits = |id: u32| {
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
        let field = |name: &str| status.lines().find_map(|l| l.strip_prefix(name)).unwrap().trim();
        let pending = ["SigPnd:", "ShdPnd:"].map(|name| u64::from_str_radix(field(name), 16).unwrap());
        pending == [0, 0] && field("State:").starts_with('S')
    };
    let started = Instant::now();
    while !waits(guard.id()) {
        assert!(guard.try_wait().unwrap().is_none(), "a signal ended the guard");
        assert!(started.elapsed() < LIMIT, "the guard does not wait for its pipe");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(guard.try_wait().unwrap().is_none(), "a signal ended the guard");
    drop(guard.stdin.take());
    assert!(guard.wait().unwrap().success());
}
