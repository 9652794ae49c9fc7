//! Pairing and unpairing with the real programs: prompts at a real terminal, keys that a user names, keys that others
//! can replace, and forgotten keys.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test panics when it fails, and prints a line when it is skipped"
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

/// A program whose output a test reads, and to which the test types.
struct InteractiveProgram {
    child: Child,
    input: ChildStdin,
    output: Receiver<String>,
    text: String,
}

impl Drop for InteractiveProgram {
    fn drop(&mut self) {
        // The child may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl InteractiveProgram {
    /// Starts the program with pipes.
    fn start_with_pipes(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut out = child.stdout.take().unwrap();
        let (sender, output) = channel();
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
            output,
            text: String::new(),
        }
    }

    /// Starts the program at a terminal of its own. `script` creates the terminal and passes on the typed text. The
    /// terminal echoes it.
    fn start_at_terminal(program: &Path, arguments: &[&str], keys: &Path) -> Self {
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
        Self::start_with_pipes(&mut command)
    }

    fn type_in(&mut self, text: &str) {
        self.input.write_all(text.as_bytes()).unwrap();
        self.input.flush().unwrap();
    }

    /// Waits for a line that contains `start`. Returns the rest of the line.
    fn wait_for(&mut self, start: &str) -> String {
        let by = Instant::now() + HANG_LIMIT;
        loop {
            if let Some((_, rest)) = self.text.split_once(start)
                && let Some((line, rest)) = rest.split_once('\n')
            {
                let line = line.trim_end().to_owned();
                self.text = rest.to_owned();
                return line;
            }
            let remaining = by.saturating_duration_since(Instant::now());
            match self.output.recv_timeout(remaining) {
                Ok(more) => self.text += &more,
                Err(_) => panic!("no `{start}` in {:?}", self.text),
            }
        }
    }

    /// Waits for a prompt. Returns the output before it.
    fn wait_for_prompt(&mut self) -> String {
        let by = Instant::now() + HANG_LIMIT;
        while !self.text.contains("[y/N] ") {
            let remaining = by.saturating_duration_since(Instant::now());
            self.text += &self.output.recv_timeout(remaining).expect("no prompt");
        }
        let (question, rest) = self.text.split_once("[y/N] ").unwrap();
        let (question, rest) = (question.to_owned(), rest.to_owned());
        self.text = rest;
        question
    }

    /// Types at a terminal and waits for the echo. The terminal then has the typed text.
    fn type_and_wait_for_echo(&mut self, text: &str) {
        self.type_in(text);
        let echo = text.replace('\n', "\r\n");
        let by = Instant::now() + HANG_LIMIT;
        while !self.text.contains(&echo) {
            let remaining = by.saturating_duration_since(Instant::now());
            self.text += &self.output.recv_timeout(remaining).expect("no echo");
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

/// Returns the number of clients in an agent's store.
fn count_clients(keys: &Path) -> usize {
    agent_keys(keys, &["list"]).out.lines().count() - 1
}

/// Returns the fingerprint of an agent's own key.
fn read_agent_key(keys: &Path) -> String {
    let list = agent_keys(keys, &["list"]);
    list.out.split('\t').nth(1).unwrap().to_owned()
}

/// Text that is typed before the prompt, by a pipe or at a terminal, is not an answer. Text after it is.
#[test]
fn agent_ignores_answers_typed_before_its_question() {
    let folder = TempDir::new().unwrap();
    let client_keys = folder.path().join("client");
    for terminal in [false, true] {
        let keys = folder.path().join(format!("agent-{terminal}"));
        let mut arguments = vec!["--keys", keys.to_str().unwrap()];
        arguments.extend(SERVE);
        let serve = || match terminal {
            true => InteractiveProgram::start_at_terminal(&program("kinescope-agent"), &arguments, &client_keys),
            false => InteractiveProgram::start_with_pipes(
                Command::new(program("kinescope-agent"))
                    .args(&arguments)
                    .stderr(Stdio::null()),
            ),
        };
        let mut user = serve();
        let address = user.wait_for("listening on ");
        user.wait_for("pairing is open");
        // The text has complete lines, and the beginning of a line that Enter would make a yes.
        match terminal {
            true => user.type_and_wait_for_echo("y\nyes\ny"),
            // A pipe has the text at once.
            false => user.type_in("y\nyes\ny"),
        }
        let stranger = PromptingProgram::start(&mut client(&client_keys, &["pair", &address, "lab"]));
        user.wait_for_prompt();
        // If the program had accepted an earlier answer, this line would not be an answer.
        user.type_in("\n");
        user.wait_for("not paired: it was not confirmed on this end");
        let ended = stranger.answer("y");
        assert_eq!(ended.code, Some(2), "terminal {terminal}: {ended:?}");
        assert_eq!(count_clients(&keys), 0, "terminal {terminal}");
        // A second yes to an earlier prompt does not answer the next prompt.
        let stranger = PromptingProgram::start(&mut client(&client_keys, &["pair", &address, "lab"]));
        user.wait_for_prompt();
        user.type_in("y\ny\n");
        let ended = stranger.answer("n");
        assert_eq!(ended.code, Some(2), "{ended:?}");
        user.wait_for("not paired");
        let friend = PromptingProgram::start(&mut client(&client_keys, &["pair", &address, "lab"]));
        user.wait_for_prompt();
        user.type_in("n\n");
        let ended = friend.answer("y");
        assert_eq!(ended.code, Some(2), "terminal {terminal}: {ended:?}");
        user.wait_for("not paired");
        assert_eq!(count_clients(&keys), 0, "terminal {terminal}");
        drop(user);
        // A yes to the prompt itself pairs. Pairing closes after three attempts, so this is another agent.
        let mut user = serve();
        let address = user.wait_for("listening on ");
        user.wait_for("pairing is open");
        let friend = PromptingProgram::start(&mut client(&client_keys, &["pair", &address, "lab"]));
        user.wait_for_prompt();
        user.type_in("y\n");
        let ended = friend.answer("y");
        assert_eq!(ended.code, Some(0), "terminal {terminal}: {ended:?}");
        user.wait_for("paired with ");
        assert_eq!(count_clients(&keys), 1);
        agent_keys(&keys, &["list"]);
        kinescope(&client_keys, ["agents", "--forget", "lab"]);
    }
}

/// Starts a relay to another address. Returns the address of the relay, which connects only after the returned sender
/// is dropped.
fn start_delayed_relay(address: &str) -> (String, Sender<()>) {
    let (gate, opened) = channel();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (at, to) = (listener.local_addr().unwrap(), address.to_owned());
    std::thread::spawn(move || {
        while let Ok((mut client, _)) = listener.accept() {
            // `recv` ends with an error, because nothing is sent.
            let _ = opened.recv();
            let mut agent = TcpStream::connect(&to).unwrap();
            let (mut from, mut back) = (agent.try_clone().unwrap(), client.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut from, &mut back));
            std::thread::spawn(move || std::io::copy(&mut client, &mut agent));
        }
    });
    (at.to_string(), gate)
}

/// The client also ignores earlier answers.
#[test]
fn client_ignores_answers_typed_before_its_question() {
    let folder = TempDir::new().unwrap();
    let (keys, client_keys) = (folder.path().join("agent"), folder.path().join("client"));
    let mut agent = InteractiveProgram::start_with_pipes(
        Command::new(program("kinescope-agent"))
            .arg("--keys")
            .arg(&keys)
            .args(SERVE)
            .stderr(Stdio::null()),
    );
    let address = agent.wait_for("listening on ");
    // The agent answers late, so that the typed text arrives before the prompt.
    let (relay, gate) = start_delayed_relay(&address);
    let arguments = ["pair", relay.as_str(), "lab"];
    let mut user = InteractiveProgram::start_at_terminal(&program("kinescope"), &arguments, &client_keys);
    user.type_and_wait_for_echo("y\ny");
    drop(gate);
    user.wait_for_prompt();
    agent.wait_for_prompt();
    agent.type_in("y\n");
    // If the client had accepted an earlier answer, both ends would pair, and this line would not be an answer.
    user.type_in("\n");
    user.wait_for("pairing was not confirmed on this end");
    assert_eq!(
        kinescope(&client_keys, ["agents", "--json"]).json(),
        serde_json::json!([])
    );
    // Answers from a file are all there before the prompt.
    let answers = folder.path().join("answers");
    fs::write(&answers, "y\n").unwrap();
    let ended = client(&client_keys, &arguments)
        .stdin(fs::File::open(&answers).unwrap())
        .output();
    let ended = ProgramOutput::from(ended.unwrap());
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(
        ended.err.contains("--accept"),
        "the message names the option for scripts: {ended:?}"
    );
    assert_eq!(
        kinescope(&client_keys, ["agents", "--json"]).json(),
        serde_json::json!([])
    );
}

#[test]
fn scripts_pair_by_peer_key_without_a_prompt() {
    let folder = TempDir::new().unwrap();
    let (keys, client_keys) = (folder.path().join("agent"), folder.path().join("client"));
    let agent_key = read_agent_key(&keys);
    let shown = kinescope(&client_keys, ["agents", "--own-key", "--json"]).json();
    let client_key = shown["fingerprint"].as_str().unwrap().to_owned();
    let text = kinescope(&client_keys, ["agents", "--own-key"]).out;
    assert_eq!(text, format!("{client_key}\t{}\n", shown["key"].as_str().unwrap()));
    let mut agent = InteractiveProgram::start_with_pipes(
        Command::new(program("kinescope-agent"))
            .arg("--keys")
            .arg(&keys)
            .args(SERVE)
            .args(["--accept", &client_key])
            .stderr(Stdio::null()),
    );
    let address = agent.wait_for("listening on ");
    agent.wait_for("pairing is open for the client with the key ");
    let pair = |keys: &Path, accept: &str| -> ProgramOutput {
        let mut command = client(keys, &["pair", &address, "lab", "--accept", accept]);
        command.stdin(Stdio::null()).output().unwrap().into()
    };
    // Other clients are refused, however often they try.
    let other = folder.path().join("other");
    for _ in 0..4 {
        pair(&other, &agent_key).assert_refused("not confirmed by the agent");
    }
    // The client expects another agent, or its argument is not a key.
    pair(&client_keys, "0123-4567-89ab-cdef").assert_refused(&agent_key);
    let wrong = pair(&client_keys, "y");
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.err.contains("16 hexadecimal digits"), "{wrong:?}");
    let paired = pair(&client_keys, &agent_key);
    assert_eq!(paired.code, Some(0), "{paired:?}");
    let client_name = agent.wait_for("paired with ");
    assert!(!client_name.is_empty());
    assert_eq!(count_clients(&keys), 1);
}

#[test]
fn both_ends_refuse_keys_writable_by_others_with_a_remedy() {
    let folder = TempDir::new().unwrap();
    let (keys, client_keys) = (folder.path().join("agent"), folder.path().join("client"));
    read_agent_key(&keys);
    kinescope(&client_keys, ["agents"]);
    let assert_both_refuse = |needle: &str| {
        agent_keys(&keys, &["list"]).assert_refused(needle);
        kinescope(&client_keys, ["agents"]).assert_refused(needle);
    };
    let mode = |file: &Path, mode: u32| fs::set_permissions(file, fs::Permissions::from_mode(mode)).unwrap();
    for permissions in [0o777, 0o770, 0o1777] {
        mode(&keys, permissions);
        mode(&client_keys, permissions);
        assert_both_refuse("chmod go-w ");
    }
    mode(&keys, 0o700);
    mode(&client_keys, 0o700);
    for file in [keys.join("keys.toml"), client_keys.join("keys.toml")] {
        mode(&file, 0o640);
    }
    assert_both_refuse("chmod 600 ");
    for file in [keys.join("keys.toml"), client_keys.join("keys.toml")] {
        mode(&file, 0o600);
    }
    // Only root can change the owner of a file, so this part runs only as root.
    for file in [Path::new("keys.toml"), Path::new("")] {
        let results = [&keys, &client_keys].map(|k| std::os::unix::fs::chown(k.join(file), Some(4242), None));
        if results.iter().any(Result::is_err) {
            println!("skipped: only root can change the owner of a file");
            break;
        }
        assert_both_refuse("chown 0 ");
        for k in [&keys, &client_keys] {
            std::os::unix::fs::chown(k.join(file), Some(0), None).unwrap();
        }
    }
    assert_eq!(agent_keys(&keys, &["list"]).code, Some(0));
    assert_eq!(kinescope(&client_keys, ["agents"]).code, Some(0));
}

/// Starts an agent that is paired with the client whose keys are in `client`. Returns the agent and its address.
fn start_paired_agent(folder: &Path, log: Stdio) -> (InteractiveProgram, String) {
    let (keys, client_keys) = (folder.join("agent"), folder.join("client"));
    let agent_key = read_agent_key(&keys);
    let key = kinescope(&client_keys, ["agents", "--own-key", "--json"]).json()["key"]
        .as_str()
        .unwrap()
        .to_owned();
    let mut agent = Command::new(program("kinescope-agent"));
    agent.arg("--keys").arg(&keys).args(SERVE).args(["--accept", &key]);
    let mut user = InteractiveProgram::with_log(&mut agent, log);
    let address = user.wait_for("listening on ");
    let paired = kinescope(&client_keys, ["pair", &address, "lab", "--accept", &agent_key]);
    assert_eq!(paired.code, Some(0), "{paired:?}");
    (user, address)
}

impl InteractiveProgram {
    fn with_log(command: &mut Command, log: Stdio) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (sender, output) = channel();
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
            output,
            text: String::new(),
        }
    }
}

#[test]
fn removed_client_loses_its_lease_during_a_run() {
    let folder = TempDir::new().unwrap();
    let (mut agent, _) = start_paired_agent(folder.path(), Stdio::null());
    let client_name = agent.wait_for("paired with ");
    let (keys, client_keys) = (folder.path().join("agent"), folder.path().join("client"));
    let run = client(
        &client_keys,
        &["replay", "--on", "agent:lab/mali-g71", "--repeat", "10000", "--json"],
    )
    .arg(root().join("sample-traces/twopass.kine"))
    .stdout(Stdio::piped())
    .stderr(Stdio::piped())
    .spawn()
    .unwrap();
    wait_for_run(agent.child.id());
    assert!(kinescope(&client_keys, ["boards", "--json"]).out.contains("\"busy\""));
    let forget = agent_keys(&keys, &["forget", &client_name]);
    assert_eq!(forget.code, Some(0), "{forget:?}");
    assert!(
        forget.out.starts_with(&format!("forgot {client_name}"))
            && forget
                .out
                .ends_with(&format!("1 open connection of {client_name} is closed\n")),
        "{forget:?}"
    );
    let ended = ProgramOutput::from(run.wait_with_output().unwrap());
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let why = ended.json()["failure"].as_str().unwrap().to_owned();
    assert!(why.contains("forgotten this client's key"), "{why}");
    // If no agent runs, there is no connection to close.
    drop(agent);
    let list = agent_keys(&keys, &["trust", "desk", &"ab".repeat(32)]);
    assert_eq!(list.code, Some(0), "{list:?}");
    let forget = agent_keys(&keys, &["forget", "desk"]);
    assert_eq!(forget.out.lines().count(), 1, "{forget:?}");
}

#[test]
fn unpaired_clients_do_not_fill_the_log() {
    const STRANGERS: usize = 3000;
    let folder = TempDir::new().unwrap();
    let log = folder.path().join("log");
    let (_agent, address) = start_paired_agent(folder.path(), fs::File::create(&log).unwrap().into());
    let lines = || fs::read_to_string(&log).unwrap().lines().count();
    let before = lines();
    for n in 0..STRANGERS {
        let mut stream = TcpStream::connect(&address).unwrap();
        if n % 2 == 0 {
            // These bytes are not the protocol.
            let _ = stream.write_all(&[b'x'; 64]);
        }
    }
    // The agent finally reports the number of connections that it did not list.
    let by = Instant::now() + HANG_LIMIT;
    while !fs::read_to_string(&log).unwrap().contains(" more connections ") {
        assert!(Instant::now() < by, "the number of connections is not reported");
        std::thread::sleep(Duration::from_millis(20));
    }
    let more = lines() - before;
    assert!(more >= 2, "the log reports the connections and their number");
    // The log gets some lines per second: far fewer than strangers, however long they take.
    assert!(more <= STRANGERS / 4, "{more} lines for {STRANGERS} strangers");
    let client_keys = folder.path().join("client");
    assert_eq!(kinescope(&client_keys, ["boards"]).code, Some(0));
}

#[test]
fn pairing_question_shows_a_used_client_name() {
    let folder = TempDir::new().unwrap();
    let keys = folder.path().join("agent");
    let mut names = Vec::new();
    for client_keys in ["first", "second"] {
        let client_keys = folder.path().join(client_keys);
        let mut command = Command::new(program("kinescope-agent"));
        command.arg("--keys").arg(&keys).args(SERVE);
        let mut user = InteractiveProgram::start_with_pipes(&mut command);
        let address = user.wait_for("listening on ");
        user.wait_for("pairing is open");
        let client = PromptingProgram::start(&mut client(&client_keys, &["pair", &address, "lab"]));
        let question = user.wait_for_prompt();
        user.type_in("y\n");
        let ended = client.answer("y");
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let stored_name = user.wait_for("paired with ");
        let stored_name = stored_name.split_whitespace().next().unwrap().to_owned();
        let message = "belongs to another client: this one would be stored as";
        assert_eq!(question.contains(message), !names.is_empty(), "{question}");
        assert!(
            names.is_empty() || question.contains(&format!("{message} `{stored_name}`")),
            "{question}"
        );
        names.push(stored_name);
    }
    assert_eq!(names[1], format!("{}-2", names[0]));
}

/// One unknown client requests a feature of a later version. Another never completes its handshake.
#[test]
fn log_reports_invalid_handshakes_of_unpaired_clients() {
    let folder = TempDir::new().unwrap();
    let log = folder.path().join("log");
    let (_agent, address) = start_paired_agent(folder.path(), fs::File::create(&log).unwrap().into());
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
            // At this pace, the preamble of the stranger takes longer than the limit of a handshake.
            std::thread::sleep(Duration::from_millis(500));
        }
    });
    let by = Instant::now() + HANG_LIMIT;
    let limit = HANDSHAKE_LIMIT.as_secs();
    let expected = [
        "asks for the word 200, which this agent does not know".to_owned(),
        format!("it did not authenticate itself within {limit} s"),
    ];
    loop {
        let text = fs::read_to_string(&log).unwrap();
        if expected.iter().all(|line| text.contains(line)) {
            break;
        }
        assert!(Instant::now() < by, "{text}");
        std::thread::sleep(Duration::from_millis(100));
    }
    trickle.join().unwrap();
}
