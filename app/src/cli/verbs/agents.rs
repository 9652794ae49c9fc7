//! `agents`: lists the agents that this program is paired with.

use crate::cli::paired_agents::forget;
use crate::cli::replay_arguments::Keys;
use crate::cli::{Exit, Failure, Out, Verb};
use clap::{Args, FromArgMatches as _};
use replay_engine::wire::HOW_TO_PAIR;
use serde::Serialize;

pub const VERB: Verb = Verb {
    name: "agents",
    about: "List paired agents, forget one, or show this program's own key",
    args: Arguments::augment_args,
    run: |matches, out| run(&Arguments::from_arg_matches(matches)?, out),
};

#[derive(Args)]
struct Arguments {
    /// Forget this agent: its name, address and key
    #[arg(long, value_name = "NAME")]
    forget: Option<String>,
    /// Show this program's own key and its fingerprint, for `kinescope-agent pair --accept` or `keys trust`
    #[arg(long, conflicts_with = "forget")]
    own_key: bool,
    #[command(flatten)]
    keys: Keys,
}

/// A paired agent: a peer of the key store with its fingerprint instead of its key.
#[derive(Serialize)]
struct Agent {
    /// Name of the agent in this program.
    name: String,
    /// Its address: `HOST:PORT`, or the path of its unix socket.
    address: String,
    /// Fingerprint of its key.
    fingerprint: String,
    /// Time of the pairing, seconds since 1970.
    paired_at: u64,
}

/// This program's own key as text. The engine does not print keys.
#[derive(Serialize)]
struct OwnKey {
    /// Fingerprint of this program's own key.
    fingerprint: String,
    /// The key itself, as `kinescope-agent keys trust` takes it.
    key: String,
}

fn run(arguments: &Arguments, out: &mut Out) -> Result<Exit, Failure> {
    let keys = arguments.keys.open()?;
    if let Some(name) = &arguments.forget {
        return forget(&keys, name, out);
    }
    if arguments.own_key {
        let key = keys.key_pair().public();
        let own = OwnKey {
            fingerprint: key.fingerprint(),
            key: key.to_hex(),
        };
        match out.is_json() {
            true => out.value(&own)?,
            false => out.line(format_args!("{}\t{}", own.fingerprint, own.key))?,
        }
        return Ok(Exit::Good);
    }
    let failed = |e| Failure::usage(format!("keys: {e}"));
    let agents: Vec<Agent> = keys
        .peers()
        .map_err(failed)?
        .into_iter()
        .map(|p| Agent {
            name: p.name,
            address: p.address,
            fingerprint: p.key.fingerprint(),
            paired_at: p.paired_at,
        })
        .collect();
    if out.is_json() {
        out.array(&agents)?;
    } else if agents.is_empty() {
        out.line(format_args!(
            "no agent is paired: {HOW_TO_PAIR}, then `kinescope pair ADDRESS:PORT NAME` here, with the port that it \
             prints"
        ))?;
    } else {
        let mut rows = vec![["Agent", "Address", "Key"].map(str::to_owned).to_vec()];
        rows.extend(agents.into_iter().map(|a| vec![a.name, a.address, a.fingerprint]));
        out.table(&rows)?;
    }
    Ok(Exit::Good)
}
