//! What an ftrace log says besides its accesses: the driver, events of other subjects, and findings.

use super::super::log::Log;
use super::super::mmio_regions::Owner;
use super::KernelLog;
use std::collections::HashMap;
use trace_core::finding::{Finding, FindingKind};

/// Maximum number of names of other events that are listed.
const MAX_OTHERS: usize = 8;

impl KernelLog {
    /// Returns the module with the most accesses; of those to mapped addresses if there are any.
    pub(super) fn driver(&self) -> String {
        let busiest = |modules: &HashMap<u16, u64>| {
            let all = modules.iter().map(|(m, n)| (*n, self.names.name(*m)));
            all.filter(|(_, name)| !name.is_empty()).max().map(|(_, name)| name)
        };
        busiest(&self.modules)
            .or_else(|| busiest(&self.unmapped_modules))
            .or_else(|| self.jobs.driver().map(|d| d.name().to_owned()))
            .unwrap_or_default()
    }

    /// Whether accesses fall into the windows of a device that the user placed.
    pub(super) fn has_device_accesses(&self) -> bool {
        let mut windows = self.windows.all().iter();
        windows.any(|w| w.accesses > 0 && matches!(w.owner, Owner::Bar { .. }))
    }

    /// Returns the events of other subjects, the most frequent first.
    pub(super) fn describe_others(&self) -> Option<String> {
        let mut all: Vec<(u64, String)> = self
            .others
            .iter()
            .map(|(n, count)| (*count, self.names.name(*n)))
            .collect();
        all.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        let names: Vec<String> = all
            .iter()
            .take(MAX_OTHERS)
            .map(|(n, name)| format!("{name} {n}"))
            .collect();
        let more = if all.len() > MAX_OTHERS { " …" } else { "" };
        (!names.is_empty()).then(|| format!("{}{more}", names.join(", ")))
    }

    pub(super) fn report_findings(&self, log: &mut Log) {
        let mut note = |count: u64, place: &str, message: String| {
            if count > 0 {
                log.findings.push(Finding::new(FindingKind::NotUsed, place, message));
            }
        };
        let place = if self.virtual_accesses > 0 { "rwmmio" } else { "probes" };
        let n = self.unwanted;
        note(
            n,
            place,
            format!("{n} register accesses outside the windows of the device were not imported"),
        );
        let open: usize = self.calls.values().map(Vec::len).sum::<usize>()
            + self.ioremaps.values().map(Vec::len).sum::<usize>()
            + self.dmas.values().map(Vec::len).sum::<usize>()
            + self.loads.values().map(Vec::len).sum::<usize>();
        let n = self.alone + open as u64;
        note(
            n,
            "probes",
            format!("{n} entries or returns of probed functions have no counterpart and were not imported"),
        );
        let n = self.unplaced;
        note(
            n,
            "probes",
            format!(
                "{n} calls of accessors were not imported: their offsets exceed 32 bits, or they belong to too many \
                 devices"
            ),
        );
        if self.assumed_width {
            let message = "the name of an accessor does not state the width of its accesses; 4 bytes are assumed";
            log.findings.push(Finding::new(FindingKind::Assumed, "probes", message));
        }
        let n = self.unmapped;
        if n > 0 && self.has_device_accesses() {
            let message = format!(
                "{n} register accesses to addresses that no ioremap in the log maps were not imported; they belong to \
                 other devices, since the windows of the device are known"
            );
            log.findings.push(Finding::new(FindingKind::NotUsed, place, message));
        } else if n > 0 {
            let message = format!(
                "no ioremap in the log maps the addresses of {n} register accesses; their spaces have the virtual \
                 addresses. Probes of ioremap tell the physical ones, --base ADDRESS where the registers begin, and \
                 --resource FILE the windows"
            );
            log.findings.push(Finding::new(FindingKind::Assumed, place, message));
        }
        if self.ticks {
            let message =
                "the log's clock counts ticks and no time: times are in ticks, whose length the log does not state";
            log.findings.push(Finding::new(FindingKind::Assumed, "times", message));
        }
    }
}
