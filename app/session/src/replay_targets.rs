//! The targets that the user can choose for a replay, in menu order.

use crate::replay::State;
use crate::targets::list_simulators;
use replay_engine::client::fitting::Fit;
use replay_engine::client::targets::{Availability, ReplayTarget};
use replay_engine::device::qemu::QEMU_MODELS;
use trace_core::registers::device_name;

/// A target as shown in lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetRow {
    /// Name for `--on`.
    pub name: String,
    /// Device name: `Mali-G71`, `ATI Radeon 7000 (RV100 QY)`; empty if it was not queried yet.
    pub device: String,
    /// Longer device description for the tooltip.
    pub description: String,
    /// Availability: `in this program`, `free`, `QEMU not installed`.
    pub state: String,
    /// Whether the target is available now.
    pub free: bool,
    /// Whether it fits the recording.
    pub fit: Fit,
}

impl State {
    /// Returns the targets that can be chosen: fitting ones, then possible ones, then the others. For a register
    /// recording these are simulators, QEMU models and agent devices; for an API trace they are CUDA devices. NVIDIA
    /// GPUs are listed for API traces and driver traces.
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
        // If a target reports its device, list it only if it accepts this kind of recording.
        let known = self.known_targets.iter().flatten();
        let takes = |b: &&ReplayTarget| {
            b.info.as_ref().is_none_or(|i| match i.takes_submissions() {
                true => self.fits_channels(),
                false => i.takes_api_traces() == calls,
            })
        };
        for target in known.filter(takes) {
            if all.iter().all(|t| t.name != target.name) {
                all.push(self.row_of_target(target));
            }
        }
        if !calls {
            all.extend(QEMU_MODELS.iter().map(|model| {
                let name = model.target();
                let lacks = self.lacks(&name);
                TargetRow {
                    device: device_name(model.vendor, model.device).unwrap_or_default().to_owned(),
                    description: format!("{:04x}:{:04x} emulated by QEMU", model.vendor, model.device),
                    state: lacks.unwrap_or("in QEMU").to_owned(),
                    free: lacks.is_none(),
                    fit: self.fit(&name),
                    name,
                }
            }));
        }
        let offered = self.fitting().iter().map(|t| t.name.as_str());
        for name in offered.chain([self.target()]).filter(|_| !self.has_no_target()) {
            if all.iter().all(|t| t.name != name) {
                all.push(self.named(name));
            }
        }
        for t in all
            .iter_mut()
            .filter(|t| self.unresponsive_target.as_ref() == Some(&t.name))
        {
            (t.state, t.free) = ("no answer".to_owned(), false);
        }
        all.sort_by_key(|t| match t.fit {
            Fit::Fits => 0,
            Fit::FitsRewritten => 1,
            Fit::Unknown => 2,
            Fit::Unfit => 3,
        });
        all
    }

    /// Returns a row for a target that is in no list.
    fn named(&self, name: &str) -> TargetRow {
        let info = self.info().filter(|_| name == self.target());
        let lacks = self.lacks(name);
        let (state, free) = match (lacks, info) {
            (Some(lacks), _) => (lacks.to_owned(), false),
            (None, None) => ("not queried yet".to_owned(), true),
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

    fn row_of_target(&self, b: &ReplayTarget) -> TargetRow {
        let (state, free) = match &b.reach {
            Availability::Here => ("in this program".to_owned(), true),
            Availability::Free => ("free".to_owned(), true),
            Availability::Busy(who) => (format!("held by {who}"), false),
            Availability::Away(why) => (format!("unavailable: {why}"), false),
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
