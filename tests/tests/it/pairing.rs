//! Who may pair and who stays paired, with the programs as they are: questions at a real terminal, keys that are named,
//! keys that others could replace, keys that are forgotten.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests fail and tell in these ways"
)]

use replay_engine::wire::{HANDSHAKE_LIMIT, Preamble, PreambleWord};
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use whole_program_tests::{HANG_LIMIT, ProgramOutput, PromptingProgram, kinescope, program, root, wait_for_run};

/// A program whose words a test hears, and to which it types.
struct Person {
    child: Child,
    input: ChildStdin,
    words: Receiver<String>,
    heard: String,
}

impl Drop for Person {
    fn drop(&mut self) {
        // It is this test's own child; it may be gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Person {
    /// At pipes.
    fn at_pipes(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut out = child.stdout.take().unwrap();
        let (sender, words) = channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 1024];
            while let Ok(n @ 1..) = out.read(&mut bytes) {
                if sender.send(String::from_utf8_lossy(&bytes[..n]).into_owned()).is_err() {
                    break;
                }
            }
        });
        Self {
            input: child.stdin.take().unwrap(),
            child,
            words,
            heard: String::new(),
        }
    }

    /// At a terminal of its own: `script` gives the program one, and passes on what is typed. The terminal echoes it.
    fn at_a_terminal(program: &Path, arguments: &[&str], keys: &Path) -> Self {
        let mut line = format!("exec {}", program.display());
        for a in arguments {
            line += &format!(" '{a}'");
        }
        let mut command = Command::new("script");
        command
            .args(["--quiet", "--flush", "--return", "--echo", "always"])
            .args(["--command", &line, "/dev/null"])
            .env("KINESCOPE_KEYS", keys)
            .env("KINESCOPE_LOG", "off");
        Self::at_pipes(&mut command)
    }

    fn type_in(&mut self, text: &str) {
        self.input.write_all(text.as_bytes()).unwrap();
        self.input.flush().unwrap();
    }

    /// What follows `start`, up to the end of its line, once it is said.
    fn hear(&mut self, start: &str) -> String {
        let by = Instant::now() + HANG_LIMIT;
        loop {
            if let Some((_, rest)) = self.heard.split_once(start)
                && let Some((line, rest)) = rest.split_once('\n')
            {
                let line = line.trim_end().to_owned();
                self.heard = rest.to_owned();
                return line;
            }
            let left = by.saturating_duration_since(Instant::now());
            match self.words.recv_timeout(left) {
                Ok(more) => self.heard += &more,
                Err(_) => panic!("no `{start}` in {:?}", self.heard),
            }
        }
    }

    /// Waits until a question is put, and returns what was said up to it.
    fn is_asked(&mut self) -> String {
        let by = Instant::now() + HANG_LIMIT;
        while !self.heard.contains("[y/N] ") {
            let left = by.saturating_duration_since(Instant::now());
            self.heard += &self.words.recv_timeout(left).expect("no question");
        }
        let (question, rest) = self.heard.split_once("[y/N] ").unwrap();
        let (question, rest) = (question.to_owned(), rest.to_owned());
        self.heard = rest;
        question
    }

    /// Types at a terminal, and waits for the echo: the terminal then has what was typed.
    fn type_and_see(&mut self, text: &str) {
        self.type_in(text);
        let echo = text.replace('\n', "\r\n");
        let by = Instant::now() + HANG_LIMIT;
        while !self.heard.contains(&echo) {
            let left = by.saturating_duration_since(Instant::now());
            self.heard += &self.words.recv_timeout(left).expect("no echo");
        }
    }
}

const SERVE: [&str; 6] = [
    "serve",
    "--pair",
    "--listen",
    "127.0.0.1:0",
    "--device",
    "software:mali-g71",
];

fn client(keys: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program("kinescope"));
    command.args(arguments).env("KINESCOPE_KEYS", keys);
    command
}

fn agent_keys(keys: &Path, arguments: &[&str]) -> ProgramOutput {
    let mut command = Command::new(program("kinescope-agent"));
    command.arg("keys").args(arguments).arg("--keys").arg(keys);
    command.output().unwrap().into()
}

/// Clients that an agent's store lists.
fn clients(keys: &Path) -> usize {
    agent_keys(keys, &["list"]).out.lines().count() - 1
}

/// The fingerprint of an agent's own key.
fn agents_key(keys: &Path) -> String {
    let list = agent_keys(keys, &["list"]);
    list.out.split('\t').nth(1).unwrap().to_owned()
}

/// What was typed before the question, by a pipe or at a terminal, is no answer; what is typed then is one.
#[test]
fn agent_ignores_answers_typed_before_its_question() {
    let folder = TempDir::new().unwrap();
    let own = folder.path().join("client");
    for terminal in [false, true] {
        let keys = folder.path().join(format!("agent-{terminal}"));
        let mut arguments = vec!["--keys", keys.to_str().unwrap()];
        arguments.extend(SERVE);
        let serve = || match terminal {
            true => Person::at_a_terminal(&program("kinescope-agent"), &arguments, &own),
            false => Person::at_pipes(
                Command::new(program("kinescope-agent"))
                    .args(&arguments)
                    .stderr(Stdio::null()),
            ),
        };
        let mut person = serve();
        let address = person.hear("listening on ");
        person.hear("pairing is open");
        // Lines, and the beginning of one that an Enter would make a yes.
        match terminal {
            true => person.type_and_see("y\nyes\ny"),
            // A pipe has it at once.
            false => person.type_in("y\nyes\ny"),
        }
        let stranger = PromptingProgram::start(&mut client(&own, &["pair", &address, "lab"]));
        person.is_asked();
        // An answer that was taken before would make this line none.
        person.type_in("\n");
        person.hear("not paired: it was not confirmed on this end");
        let ended = stranger.answer("y");
        assert_eq!(ended.code, Some(2), "terminal {terminal}: {ended:?}");
        assert_eq!(clients(&keys), 0, "terminal {terminal}");
        // A second yes to a question that is over is none to the next one.
        let stranger = PromptingProgram::start(&mut client(&own, &["pair", &address, "lab"]));
        person.is_asked();
        person.type_in("y\ny\n");
        let ended = stranger.answer("n");
        assert_eq!(ended.code, Some(2), "{ended:?}");
        person.hear("not paired");
        let friend = PromptingProgram::start(&mut client(&own, &["pair", &address, "lab"]));
        person.is_asked();
        person.type_in("n\n");
        let ended = friend.answer("y");
        assert_eq!(ended.code, Some(2), "terminal {terminal}: {ended:?}");
        person.hear("not paired");
        assert_eq!(clients(&keys), 0, "terminal {terminal}");
        drop(person);
        // A yes to the question itself pairs. Pairing has closed after three attempts, so this is another agent.
        let mut person = serve();
        let address = person.hear("listening on ");
        person.hear("pairing is open");
        let friend = PromptingProgram::start(&mut client(&own, &["pair", &address, "lab"]));
        person.is_asked();
        person.type_in("y\n");
        let ended = friend.answer("y");
        assert_eq!(ended.code, Some(0), "terminal {terminal}: {ended:?}");
        person.hear("paired with ");
        assert_eq!(clients(&keys), 1);
        agent_keys(&keys, &["list"]);
        kinescope(&own, ["agents", "--forget", "lab"]);
    }
}

/// An address that leads to another one, but not before the returned sender is dropped.
fn later(address: &str) -> (String, Sender<()>) {
    let (gate, opened) = channel();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (at, to) = (listener.local_addr().unwrap(), address.to_owned());
    std::thread::spawn(move || {
        while let Ok((mut client, _)) = listener.accept() {
            // It ends with an error: nothing is sent.
            let _ = opened.recv();
            let mut agent = TcpStream::connect(&to).unwrap();
            let (mut from, mut back) = (agent.try_clone().unwrap(), client.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut from, &mut back));
            std::thread::spawn(move || std::io::copy(&mut client, &mut agent));
        }
    });
    (at.to_string(), gate)
}

/// The same at the client's end.
#[test]
fn client_ignores_answers_typed_before_its_question() {
    let folder = TempDir::new().unwrap();
    let (keys, own) = (folder.path().join("agent"), folder.path().join("client"));
    let mut agent = Person::at_pipes(
        Command::new(program("kinescope-agent"))
            .arg("--keys")
            .arg(&keys)
            .args(SERVE)
            .stderr(Stdio::null()),
    );
    let address = agent.hear("listening on ");
    // The agent answers late, so that what is typed at once is there before the question.
    let (late, gate) = later(&address);
    let arguments = ["pair", late.as_str(), "lab"];
    let mut person = Person::at_a_terminal(&program("kinescope"), &arguments, &own);
    person.type_and_see("y\ny");
    drop(gate);
    person.is_asked();
    agent.is_asked();
    agent.type_in("y\n");
    // An answer that was taken before would pair both, and make this line none.
    person.type_in("\n");
    person.hear("pairing was not confirmed on this end");
    assert_eq!(kinescope(&own, ["agents", "--json"]).json(), serde_json::json!([]));
    // Answers from a file are all typed before.
    let answers = folder.path().join("answers");
    fs::write(&answers, "y\n").unwrap();
    let ended = client(&own, &arguments)
        .stdin(fs::File::open(&answers).unwrap())
        .output();
    let ended = ProgramOutput::from(ended.unwrap());
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.err.contains("--accept"), "it says what scripts do: {ended:?}");
    assert_eq!(kinescope(&own, ["agents", "--json"]).json(), serde_json::json!([]));
}

#[test]
fn scripts_pair_by_peer_key_without_a_prompt() {
    let folder = TempDir::new().unwrap();
    let (keys, own) = (folder.path().join("agent"), folder.path().join("client"));
    let there = agents_key(&keys);
    let shown = kinescope(&own, ["agents", "--own-key", "--json"]).json();
    let here = shown["fingerprint"].as_str().unwrap().to_owned();
    let text = kinescope(&own, ["agents", "--own-key"]).out;
    assert_eq!(text, format!("{here}\t{}\n", shown["key"].as_str().unwrap()));
    let mut agent = Person::at_pipes(
        Command::new(program("kinescope-agent"))
            .arg("--keys")
            .arg(&keys)
            .args(SERVE)
            .args(["--accept", &here])
            .stderr(Stdio::null()),
    );
    let address = agent.hear("listening on ");
    agent.hear("pairing is open for the client with the key ");
    let pair = |keys: &Path, accept: &str| -> ProgramOutput {
        let mut command = client(keys, &["pair", &address, "lab", "--accept", accept]);
        command.stdin(Stdio::null()).output().unwrap().into()
    };
    // Others are declined, however often they come.
    let other = folder.path().join("other");
    for _ in 0..4 {
        pair(&other, &there).assert_refused("not confirmed by the agent");
    }
    // The client wants another agent, or says nothing that is a key.
    pair(&own, "0123-4567-89ab-cdef").assert_refused(&there);
    let wrong = pair(&own, "y");
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.err.contains("16 hexadecimal digits"), "{wrong:?}");
    let paired = pair(&own, &there);
    assert_eq!(paired.code, Some(0), "{paired:?}");
    let said = agent.hear("paired with ");
    assert!(!said.is_empty());
    assert_eq!(clients(&keys), 1);
}

#[test]
fn both_ends_refuse_keys_writable_by_others_with_a_remedy() {
    let folder = TempDir::new().unwrap();
    let (keys, own) = (folder.path().join("agent"), folder.path().join("client"));
    agents_key(&keys);
    kinescope(&own, ["agents"]);
    let both = |needle: &str| {
        agent_keys(&keys, &["list"]).assert_refused(needle);
        kinescope(&own, ["agents"]).assert_refused(needle);
    };
    let mode = |of: &Path, mode: u32| fs::set_permissions(of, fs::Permissions::from_mode(mode)).unwrap();
    for open in [0o777, 0o770, 0o1777] {
        mode(&keys, open);
        mode(&own, open);
        both("chmod go-w ");
    }
    mode(&keys, 0o700);
    mode(&own, 0o700);
    for file in [keys.join("keys.toml"), own.join("keys.toml")] {
        mode(&file, 0o640);
    }
    both("chmod 600 ");
    for file in [keys.join("keys.toml"), own.join("keys.toml")] {
        mode(&file, 0o600);
    }
    // Only root can give a file away, and only then is there somebody else's to be had.
    for of in [Path::new("keys.toml"), Path::new("")] {
        let given = [&keys, &own].map(|k| std::os::unix::fs::chown(k.join(of), Some(4242), None));
        if given.iter().any(Result::is_err) {
            println!("skipped: only root can change the owner of a file");
            break;
        }
        both("chown 0 ");
        for k in [&keys, &own] {
            std::os::unix::fs::chown(k.join(of), Some(0), None).unwrap();
        }
    }
    assert_eq!(agent_keys(&keys, &["list"]).code, Some(0));
    assert_eq!(kinescope(&own, ["agents"]).code, Some(0));
}

/// An agent that knows the client of `own` as `vm`, and where it listens.
fn knows(folder: &Path, log: Stdio) -> (Person, String) {
    let (keys, own) = (folder.join("agent"), folder.join("client"));
    let there = agents_key(&keys);
    let key = kinescope(&own, ["agents", "--own-key", "--json"]).json()["key"]
        .as_str()
        .unwrap()
        .to_owned();
    let mut agent = Command::new(program("kinescope-agent"));
    agent.arg("--keys").arg(&keys).args(SERVE).args(["--accept", &key]);
    let mut person = Person::with_log(&mut agent, log);
    let address = person.hear("listening on ");
    let paired = kinescope(&own, ["pair", &address, "lab", "--accept", &there]);
    assert_eq!(paired.code, Some(0), "{paired:?}");
    (person, address)
}

impl Person {
    fn with_log(command: &mut Command, log: Stdio) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (sender, words) = channel();
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                if sender.send(line + "\n").is_err() {
                    break;
                }
            }
        });
        Self {
            input: child.stdin.take().unwrap(),
            child,
            words,
            heard: String::new(),
        }
    }
}

#[test]
fn removed_client_loses_its_lease_during_a_run() {
    let folder = TempDir::new().unwrap();
    let (mut agent, _) = knows(folder.path(), Stdio::null());
    let name = agent.hear("paired with ");
    let (keys, own) = (folder.path().join("agent"), folder.path().join("client"));
    let run = client(
        &own,
        &["replay", "--on", "agent:lab/mali-g71", "--repeat", "10000", "--json"],
    )
    .arg(root().join("sample-traces/twopass.kine"))
    .stdout(Stdio::piped())
    .stderr(Stdio::piped())
    .spawn()
    .unwrap();
    wait_for_run(agent.child.id());
    assert!(kinescope(&own, ["boards", "--json"]).out.contains("\"busy\""));
    let forgot = agent_keys(&keys, &["forget", &name]);
    assert_eq!(forgot.code, Some(0), "{forgot:?}");
    assert!(
        forgot.out.starts_with(&format!("forgot {name}"))
            && forgot
                .out
                .ends_with(&format!("1 open connection of {name} is closed\n")),
        "{forgot:?}"
    );
    let ended = ProgramOutput::from(run.wait_with_output().unwrap());
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let why = ended.json()["failure"].as_str().unwrap().to_owned();
    assert!(why.contains("forgotten this client's key"), "{why}");
    // Where no agent runs there is nothing to close.
    drop(agent);
    let list = agent_keys(&keys, &["trust", "desk", &"ab".repeat(32)]);
    assert_eq!(list.code, Some(0), "{list:?}");
    let forgot = agent_keys(&keys, &["forget", "desk"]);
    assert_eq!(forgot.out.lines().count(), 1, "{forgot:?}");
}

#[test]
fn unpaired_clients_do_not_fill_the_log() {
    const STRANGERS: usize = 3000;
    let folder = TempDir::new().unwrap();
    let log = folder.path().join("log");
    let (_agent, address) = knows(folder.path(), fs::File::create(&log).unwrap().into());
    let lines = || fs::read_to_string(&log).unwrap().lines().count();
    let before = lines();
    for n in 0..STRANGERS {
        let mut stream = TcpStream::connect(&address).unwrap();
        if n % 2 == 0 {
            // Not the protocol's.
            let _ = stream.write_all(&[b'x'; 64]);
        }
    }
    // What was counted is reported in the end.
    let by = Instant::now() + HANG_LIMIT;
    while !fs::read_to_string(&log).unwrap().contains(" more connections ") {
        assert!(Instant::now() < by, "how many came is not reported");
        std::thread::sleep(Duration::from_millis(20));
    }
    let more = lines() - before;
    assert!(more >= 2, "somebody came, and how many is reported");
    // Some lines a second: far fewer than strangers, however long they take to come.
    assert!(more <= STRANGERS / 4, "{more} lines for {STRANGERS} strangers");
    let own = folder.path().join("client");
    assert_eq!(kinescope(&own, ["boards"]).code, Some(0));
}

#[test]
fn pairing_question_shows_a_used_client_name() {
    let folder = TempDir::new().unwrap();
    let keys = folder.path().join("agent");
    let mut names = Vec::new();
    for own in ["first", "second"] {
        let own = folder.path().join(own);
        let mut command = Command::new(program("kinescope-agent"));
        command.arg("--keys").arg(&keys).args(SERVE);
        let mut person = Person::at_pipes(&mut command);
        let address = person.hear("listening on ");
        person.hear("pairing is open");
        let client = PromptingProgram::start(&mut client(&own, &["pair", &address, "lab"]));
        let question = person.is_asked();
        person.type_in("y\n");
        let ended = client.answer("y");
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let kept = person.hear("paired with ");
        let kept = kept.split_whitespace().next().unwrap().to_owned();
        let message = "belongs to another client: this one would be stored as";
        assert_eq!(question.contains(message), !names.is_empty(), "{question}");
        assert!(
            names.is_empty() || question.contains(&format!("{message} `{kept}`")),
            "{question}"
        );
        names.push(kept);
    }
    assert_eq!(names[1], format!("{}-2", names[0]));
}

/// An unknown client that requests a feature of a later version, and one that never ends its handshake.
#[test]
fn log_reports_invalid_handshakes_of_unpaired_clients() {
    let folder = TempDir::new().unwrap();
    let log = folder.path().join("log");
    let (_agent, address) = knows(folder.path(), fs::File::create(&log).unwrap().into());
    let preamble = Preamble {
        word: 200,
        ..Preamble::new(PreambleWord::Session)
    };
    let mut later = TcpStream::connect(&address).unwrap();
    later.write_all(&preamble.to_bytes()).unwrap();
    let mut slow = TcpStream::connect(&address).unwrap();
    let trickle = std::thread::spawn(move || {
        let preamble = Preamble::new(PreambleWord::Session).to_bytes();
        for byte in &preamble {
            if slow.write_all(&[*byte]).is_err() {
                break;
            }
            // The pace of the stranger, whose preamble must take longer than the limit of a handshake.
            std::thread::sleep(Duration::from_millis(500));
        }
    });
    let by = Instant::now() + HANG_LIMIT;
    let limit = HANDSHAKE_LIMIT.as_secs();
    let wanted = [
        "asks for the word 200, which this agent does not know".to_owned(),
        format!("it did not authenticate itself within {limit} s"),
    ];
    loop {
        let text = fs::read_to_string(&log).unwrap();
        if wanted.iter().all(|line| text.contains(line)) {
            break;
        }
        assert!(Instant::now() < by, "{text}");
        std::thread::sleep(Duration::from_millis(100));
    }
    trickle.join().unwrap();
}
