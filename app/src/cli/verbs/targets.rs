//! `targets`: lists the targets for replays, and the name forms of those that are too many to list.

use crate::cli::failure::complain;
use crate::cli::gpu::Gpu;
use crate::cli::paired_agents::forget;
use crate::cli::replay_arguments::Keys;
use crate::cli::{Exit, Failure, Out, Verb};
use clap::{Args, FromArgMatches as _};
use kinescope_session::targets::label_containment;
use replay_engine::client::targets::{self, Availability, ReplayTarget};
use replay_engine::device::Containment;
use replay_engine::live::LiveLimits;
use serde::Serialize;

pub const VERB: Verb = Verb {
    name: "targets",
    about: "List the targets that can replay a recording",
    args: Arguments::augment_args,
    run: |matches, out| run(&Arguments::from_arg_matches(matches)?, out),
};

#[derive(Args)]
struct Arguments {
    /// Forget this agent and its targets: its name, address and key
    #[arg(long, value_name = "NAME")]
    forget: Option<String>,
    #[command(flatten)]
    keys: Keys,
}

/// A target that can replay recordings, with its state as a word and its device at the same level.
#[derive(Serialize)]
struct TargetRow<'a> {
    /// Name of the target, as `--on` takes it.
    #[serde(rename = "board")]
    target: &'a str,
    /// Description of the target.
    description: &'a str,
    /// `here`, `free`, `busy` or `away`.
    state: &'static str,
    /// Why it is busy or away.
    reason: Option<&'a str>,
    /// Its GPU; `null` if unknown.
    gpu: Option<Gpu>,
    /// Whether its time is virtual; `null` if unknown.
    virtual_time: Option<bool>,
    /// Whether it runs shaders; `null` if unknown.
    computes: Option<bool>,
    /// What keeps it from foreign memory: `software`, `iommu`, `page-tables`, `driver` or `none`; `null` if unknown.
    containment: Option<Containment>,
    /// Limits of each program that `run` starts on it; `null` if it is on no agent that runs programs.
    live: Option<LiveRow>,
}

/// Limits of each program on an agent, `null` where there is none.
#[derive(Serialize)]
struct LiveRow {
    /// Maximum pinned, mapped and managed memory at the agent's machine, bytes.
    host_bytes: Option<u64>,
    /// Maximum memory of its devices, bytes.
    device_bytes: Option<u64>,
    /// Maximum time, seconds.
    seconds: Option<u64>,
}

impl From<LiveLimits> for LiveRow {
    fn from(limits: LiveLimits) -> Self {
        Self {
            host_bytes: limits.host_bytes,
            device_bytes: limits.device_bytes,
            seconds: limits.time_ms.map(|ms| ms.div_ceil(1000)),
        }
    }
}

impl LiveRow {
    /// Describes the limits in one line.
    fn describe(&self) -> String {
        let mebibytes = |bytes: u64| format!("{} MiB", bytes >> 20);
        let limits = [
            self.device_bytes
                .map(|bytes| format!("{} of device memory", mebibytes(bytes))),
            self.host_bytes
                .map(|bytes| format!("{} of host memory", mebibytes(bytes))),
            self.seconds.map(|seconds| format!("{seconds} s")),
        ];
        let limits: Vec<String> = limits.into_iter().flatten().collect();
        match limits.is_empty() {
            true => "programs without limits".to_owned(),
            false => format!("programs up to {}", limits.join(", ")),
        }
    }
}

fn run(arguments: &Arguments, out: &mut Out) -> Result<Exit, Failure> {
    if let Some(name) = &arguments.forget {
        return forget(&arguments.keys.open()?, name, out);
    }
    let (all, unread) = arguments.keys.targets().list();
    if let Some(e) = unread {
        complain(format_args!("cannot read the paired agents: {e}"));
    }
    let shown = all.iter().map(target_row);
    if out.is_json() {
        out.array(shown)?;
        return Ok(Exit::Good);
    }
    let mut rows = vec![
        ["Target", "GPU", "Containment", "State", "Description"]
            .map(str::to_owned)
            .to_vec(),
    ];
    rows.extend(shown.map(|b| {
        let gpu = b.gpu.as_ref().map_or("-", |g| &g.name).to_owned();
        let state = b
            .reason
            .map_or_else(|| b.state.to_owned(), |r| format!("{}: {r}", b.state));
        let by = b.containment.map_or("-", label_containment).to_owned();
        let description = match &b.live {
            Some(live) => format!("{}; {}", b.description, live.describe()),
            None => b.description.to_owned(),
        };
        vec![b.target.to_owned(), gpu, by, state, description]
    }));
    let form = |(form, what): (&str, &str)| {
        [form, "-", label_containment(Containment::Software), "here", what]
            .map(str::to_owned)
            .to_vec()
    };
    rows.extend(targets::list_name_forms().into_iter().map(form));
    out.table(&rows)?;
    Ok(Exit::Good)
}

fn target_row(target: &ReplayTarget) -> TargetRow<'_> {
    let (state, reason) = match &target.reach {
        Availability::Here => ("here", None),
        Availability::Free => ("free", None),
        Availability::Busy(by) => ("busy", Some(by.as_str())),
        Availability::Away(why) => ("away", Some(why.as_str())),
    };
    let info = target.info.as_ref();
    TargetRow {
        target: &target.name,
        description: &target.description,
        state,
        reason,
        gpu: info.map(|i| Gpu::new(i.gpu_id, i.gpu_name.as_str())),
        virtual_time: info.map(|i| i.virtual_time),
        computes: info.map(|i| i.computes),
        containment: info.map(|i| i.containment),
        live: target.live.map(LiveRow::from),
    }
}
