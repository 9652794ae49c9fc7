//! The targets that a person can choose for a replay, in the order in which menus show them.

use super::boards::list_simulators;
use super::replay::State;
use replay_engine::client::boards::{Availability, Board};
use replay_engine::client::fitting::Fit;
use replay_engine::device::qemu::QEMU_MODELS;
use trace_core::registers::device_name;

/// A target as lists show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetRow {
    /// What `--on` takes.
    pub name: String,
    /// What it is: `Mali-G71`, `ATI Radeon 7000 (RV100 QY)`; empty when it was not asked yet.
    pub device: String,
    /// More of that, for the pointer.
    pub description: String,
    /// Whether and how it can be had: `in this program`, `free`, `QEMU not installed`.
    pub state: String,
    /// Whether it can be had now.
    pub free: bool,
    /// Whether it fits the recording.
    pub fit: Fit,
}

impl State {
    /// Returns the targets that can be chosen: those that fit first, then those that may, then the others. A recording
    /// of registers is offered the simulators, QEMU's models and agents' devices; an API trace CUDA devices.
    #[must_use]
    pub fn targets(&self) -> Vec<TargetRow> {
        let mut all: Vec<TargetRow> = Vec::new();
        let calls = self.is_api_trace();
        if !calls {
            all.extend(list_simulators().map(|(name, model)| TargetRow {
                device: model.gpu_name.to_owned(),
                description: model.description.to_owned(),
                state: "in this program".to_owned(),
                free: true,
                fit: self.fit(&name),
                name,
            }));
        }
        // Of boards that say what they are, those alone that take what the recording holds.
        let known = self.boards.iter().flatten();
        let takes = |b: &&Board| b.info.as_ref().is_none_or(|i| i.takes_calls() == calls);
        for board in known.filter(takes) {
            if all.iter().all(|t| t.name != board.name) {
                all.push(self.of_board(board));
            }
        }
        if !calls {
            all.extend(QEMU_MODELS.iter().map(|model| {
                let name = model.target();
                let lacks = self.lacks(&name);
                TargetRow {
                    device: device_name(model.vendor, model.device).unwrap_or_default().to_owned(),
                    description: format!("{:04x}:{:04x} as QEMU emulates it", model.vendor, model.device),
                    state: lacks.unwrap_or("in QEMU").to_owned(),
                    free: lacks.is_none(),
                    fit: self.fit(&name),
                    name,
                }
            }));
        }
        let offered = self.fitting().iter().map(|t| t.name.as_str());
        for name in offered.chain([self.board()]).filter(|_| !self.has_no_target()) {
            if all.iter().all(|t| t.name != name) {
                all.push(self.named(name));
            }
        }
        for t in all
            .iter_mut()
            .filter(|t| self.unresponsive_board.as_ref() == Some(&t.name))
        {
            (t.state, t.free) = ("no answer".to_owned(), false);
        }
        all.sort_by_key(|t| match t.fit {
            Fit::Fits => 0,
            Fit::Unknown => 1,
            Fit::Unfit => 2,
        });
        all
    }

    /// A target that nobody listed.
    fn named(&self, name: &str) -> TargetRow {
        let info = self.info().filter(|_| name == self.board());
        let lacks = self.lacks(name);
        let (state, free) = match (lacks, info) {
            (Some(lacks), _) => (lacks.to_owned(), false),
            (None, None) => ("not asked yet".to_owned(), true),
            (None, Some(_)) => (String::new(), true),
        };
        TargetRow {
            name: name.to_owned(),
            device: info.map_or_else(String::new, |i| match i.gpu_name.as_str() {
                "" => i.description.clone(),
                gpu => gpu.to_owned(),
            }),
            description: info.map_or_else(String::new, |i| i.description.clone()),
            state,
            free,
            fit: self.fit(name),
        }
    }

    fn of_board(&self, b: &Board) -> TargetRow {
        let (state, free) = match &b.reach {
            Availability::Here => ("in this program".to_owned(), true),
            Availability::Free => ("free".to_owned(), true),
            Availability::Busy(who) => (format!("held by {who}"), false),
            Availability::Away(why) => (format!("away: {why}"), false),
        };
        TargetRow {
            name: b.name.clone(),
            device: b.info.as_ref().map_or_else(String::new, |i| i.gpu_name.clone()),
            description: b.description.clone(),
            state,
            free,
            fit: self.fit(&b.name),
        }
    }
}
