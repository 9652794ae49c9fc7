//! The interrupts of a log that belong to the device, and their lines.

use super::log::Log;
use super::rows::Rows;
use crate::check::{Finding, FindingKind};
use crate::recording::EventKind;

/// Maximum number of names of other interrupts that are listed.
const MAX_NAMES: usize = 8;

/// Assigns lines to the interrupts of the device and removes the others. The device's interrupts are those that the
/// driver requested, in that order; else the one that the bus assigned; else those whose handlers have the driver's
/// name.
pub(super) fn settle(log: &mut Log, pieces: &mut [Rows], given: Option<u32>, driver: &str) {
    let mut lines = log.requested.clone();
    if lines.is_empty() {
        lines.extend(given);
    }
    if lines.is_empty() && !driver.is_empty() {
        let named = log.irqs.iter().filter(|(_, name, _)| name.contains(driver));
        lines.extend(named.map(|(irq, ..)| *irq));
    }
    let others: Vec<_> = log.irqs.iter().filter(|(irq, ..)| !lines.contains(irq)).collect();
    let count: u64 = others.iter().map(|(.., n)| n).sum();
    if count > 0 {
        let names: Vec<&str> = others
            .iter()
            .take(MAX_NAMES)
            .map(|(_, name, _)| name.as_str())
            .collect();
        let more = if others.len() > MAX_NAMES { " …" } else { "" };
        let message = format!(
            "{count} interrupts of other devices were not imported: {}{more}",
            names.join(", ")
        );
        log.findings
            .push(Finding::new(FindingKind::NotUsed, "interrupts", message));
    }
    for p in pieces.iter_mut().filter(|p| !p.interrupts.is_empty()) {
        let line = |irq: u32| lines.iter().position(|l| *l == irq).map(|l| l as u32);
        let mut row = 0;
        let mut kept = vec![true; p.len()];
        for (kind, keep) in p.kind.iter().zip(&mut kept) {
            if *kind != EventKind::Interrupt as u8 {
                continue;
            }
            if let Some(r) = p.interrupts.get_mut(row) {
                match line(r.line) {
                    Some(line) => r.line = line,
                    None => *keep = false,
                }
            }
            row += 1;
        }
        p.retain(&kept);
    }
}
