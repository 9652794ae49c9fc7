//! `pair`: exchanges keys between this program and an agent.

use crate::cli::failure::complain;
use crate::cli::paired_agents::AgentRow;
use crate::cli::replay_arguments::Keys;
use crate::cli::{Exit, Failure, Out, Verb};
use clap::{Args, FromArgMatches as _};
use replay_engine::client::{self, Endpoint};
use replay_engine::question::{self, Answer};
use replay_engine::serve::ANSWER_LIMIT;
use replay_engine::wire::NamedKey;
use std::io::Write as _;
use std::path::PathBuf;

pub const VERB: Verb = Verb {
    name: "pair",
    about: "Pair with an agent: both ends show a code, and you compare it",
    args: Arguments::augment_args,
    run: |matches, out| run(&Arguments::from_arg_matches(matches)?, out),
};

#[derive(Args)]
struct Arguments {
    /// Address of the agent: HOST:PORT, or the path of its unix socket (with a / in it)
    #[arg(value_name = "ADDRESS")]
    address: String,
    /// Name of the agent in this program
    #[arg(value_name = "NAME")]
    name: String,
    /// Code that the agent shows; with it, the program does not ask
    #[arg(long, value_name = "CODE")]
    code: Option<String>,
    /// Pair only with the agent that has this key, without a question: its fingerprint, or the key itself, as printed by
    /// `kinescope-agent keys list` on the agent
    #[arg(long, value_name = "FINGERPRINT", conflicts_with = "code")]
    accept: Option<NamedKey>,
    #[command(flatten)]
    keys: Keys,
}

/// Parses an endpoint; `None` if the text is not one.
fn parse_endpoint(address: &str) -> Option<Endpoint> {
    match address.strip_prefix("agent://").unwrap_or(address) {
        path if path.contains('/') => Some(Endpoint::Unix(PathBuf::from(path))),
        tcp => {
            let (host, port) = tcp.rsplit_once(':')?;
            let sound = !host.is_empty() && port.parse::<u16>().is_ok_and(|p| p > 0);
            sound.then(|| Endpoint::Tcp(tcp.to_owned()))
        }
    }
}

fn run(arguments: &Arguments, out: &mut Out) -> Result<Exit, Failure> {
    let at = parse_endpoint(&arguments.address).ok_or_else(|| {
        Failure::usage(format!(
            "'{}' is not an address (expected HOST:PORT, or the path of a unix socket with a / in it)",
            arguments.address
        ))
    })?;
    let keys = arguments.keys.open()?;
    let confirm = |code: &str| match &arguments.code {
        Some(given) => digits(given) == digits(code),
        None => confirm_code(code),
    };
    let paired = match &arguments.accept {
        Some(key) => client::pair_with_key(&at, &arguments.name, &keys, key),
        None => client::pair(&at, &arguments.name, &keys, confirm),
    };
    let paired = paired.map_err(|e| Failure::usage(e.to_string()))?;
    if out.is_json() {
        out.value(&AgentRow {
            name: &paired.name,
            address: &paired.address,
            fingerprint: Some(&paired.key.fingerprint()),
        })?;
    } else {
        out.line(format_args!(
            "paired with {} at {}; targets: agent:{}/DEVICE",
            paired.name, paired.address, paired.name
        ))?;
    }
    Ok(Exit::Good)
}

fn digits(code: &str) -> String {
    code.chars().filter(char::is_ascii_digit).collect()
}

/// Asks the user at the terminal whether the agent shows the same code.
fn confirm_code(code: &str) -> bool {
    let show = || {
        let mut err = std::io::stderr();
        write!(err, "The code is {code}. Does the agent show the same one? [y/N] ")?;
        err.flush()
    };
    // A user who cannot see the code cannot confirm it.
    let answer = question::ask(show, ANSWER_LIMIT, || false).unwrap_or(Answer::Ended);
    match answer {
        Answer::Yes | Answer::No => {}
        Answer::Late | Answer::Withdrawn => complain("no answer; not paired"),
        Answer::Ended => complain(
            "cannot ask: standard input has no answer. Give the code that the agent shows with --code, or the fingerprint \
             of its key with --accept",
        ),
    }
    answer == Answer::Yes
}
