//! Initial contents of module variables, moved before all other steps.
//!
//! Libraries load their code at first use. The recorder then meets modules in the middle of the range and records their
//! variables there. A replay treats this memory like other memory that existed before the range: it is filled once and
//! is not part of a repeat.

use super::script::{Script, Step, Transfer};
use trace_core::recording::{CopyRow, FillRow, OrderKind};

impl Script {
    /// Moves the snapshot inputs of untouched variables to the front. A variable is untouched if no earlier copy or
    /// fill wrote to it and no earlier launch had its address among the arguments.
    pub(super) fn hoist_variables(&mut self) {
        let lead = self.count_leading_inputs();
        let event = self.steps.get(..lead).and_then(<[_]>::last).map_or(0, |s| s.0);
        let mut variables = Variables::new(self);
        if variables.all.is_empty() {
            return;
        }
        let (mut front, mut rest) = (Vec::new(), Vec::new());
        // Whether the last steps were a snapshot, all of whose steps are moved.
        let mut moves = false;
        let steps = std::mem::take(&mut self.steps);
        for (n, (at, step)) in steps.into_iter().enumerate() {
            if n < lead {
                front.push((at, step));
                continue;
            }
            let snapshot = match &step {
                Step::Input(i) => self.inputs.get(*i).filter(|t| t.snapshot),
                _ => None,
            };
            if let Some(t) = snapshot {
                moves = variables.is_untouched(t.row.to) && (moves || !behind_snapshot(&rest, &self.inputs));
                match moves {
                    true => front.push((event, step)),
                    false => rest.push((at, step)),
                }
                continue;
            }
            let was_moving = std::mem::take(&mut moves);
            if let Step::Order(row) = &step
                && was_moving
                && OrderKind::from_raw(row.kind) == Some(OrderKind::ContextDone)
            {
                // This is a wait of the recorder for its own copies, not a wait of the program.
                continue;
            }
            variables.step(self, &step);
            rest.push((at, step));
        }
        front.append(&mut rest);
        self.steps = front;
        self.renumber_inputs();
    }

    /// Renumbers the inputs in the order of their steps.
    fn renumber_inputs(&mut self) {
        let mut inputs: Vec<Transfer> = Vec::with_capacity(self.inputs.len());
        for (_, step) in &mut self.steps {
            if let Step::Input(n) = step
                && let Some(t) = self.inputs.get(*n)
            {
                *n = inputs.len();
                inputs.push(t.clone());
            }
        }
        self.inputs = inputs;
    }
}

/// Returns whether the last of these steps belongs to a snapshot that stays. Steps that belong to it stay too.
fn behind_snapshot(steps: &[(u64, Step)], inputs: &[Transfer]) -> bool {
    match steps.last() {
        Some((_, Step::Input(n))) => inputs.get(*n).is_some_and(|t| t.snapshot),
        _ => false,
    }
}

/// Variables of modules, and whether they may have been modified.
struct Variables {
    /// First byte, length in bytes, and whether it may have been modified; sorted by first byte.
    all: Vec<(u64, u64, bool)>,
}

impl Variables {
    fn new(script: &Script) -> Self {
        let globals = script.metadata.modules.iter().flat_map(|m| &m.globals);
        let mut all: Vec<_> = globals
            .filter(|g| g.bytes > 0)
            .map(|g| (g.at.get(), g.bytes, false))
            .collect();
        all.sort_unstable();
        Self { all }
    }

    /// Returns whether an address belongs to a variable that cannot have been modified.
    fn is_untouched(&self, at: u64) -> bool {
        let n = self.all.partition_point(|v| v.0 <= at);
        let found = n.checked_sub(1).and_then(|n| self.all.get(n));
        found.is_some_and(|(first, bytes, touched)| at - first < *bytes && !touched)
    }

    fn step(&mut self, script: &Script, step: &Step) {
        match step {
            Step::Input(n) => {
                if let Some(t) = script.inputs.get(*n) {
                    self.touch(t.row.to, extent(&t.row));
                }
            }
            Step::Copy(row) => self.touch(row.to, extent(row)),
            Step::Fill(row) => self.touch(row.to.get(), filled(row)),
            Step::Launch(_, arguments) => {
                for word in arguments.as_chunks::<8>().0 {
                    self.touch(u64::from_le_bytes(*word), 1);
                }
            }
            Step::Output(_) | Step::Order(_) => {}
        }
    }

    fn touch(&mut self, at: u64, bytes: u64) {
        let end = at.saturating_add(bytes);
        // Ranges do not overlap, so at most one can start earlier and reach in.
        let from = self.all.partition_point(|v| v.0 <= at).saturating_sub(1);
        for (first, length, touched) in self.all.iter_mut().skip(from) {
            if *first >= end {
                break;
            }
            *touched |= first.saturating_add(*length) > at;
        }
    }
}

fn extent(row: &CopyRow) -> u64 {
    row.rows
        .saturating_sub(1)
        .saturating_mul(row.to_pitch)
        .saturating_add(row.bytes)
}

fn filled(row: &FillRow) -> u64 {
    let width = row.elements.saturating_mul(u64::from(row.element));
    row.rows
        .saturating_sub(1)
        .saturating_mul(row.pitch)
        .saturating_add(width)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests fail in this way")]
mod tests {
    use super::*;
    use trace_core::GpuVa;
    use trace_core::recording::{ApiTraceMetadata, CallGlobal, CallModule, LaunchRow, OrderRow};

    const VARIABLE: u64 = 0x7000_0000;

    fn transfer(to: u64, snapshot: bool) -> Transfer {
        Transfer {
            event: 0,
            name: format!("{to:x}"),
            row: CopyRow {
                to,
                bytes: 8,
                rows: 1,
                ..CopyRow::default()
            },
            snapshot,
        }
    }

    /// Returns a script with memory, a launch with an argument, a snapshot of two variables with the recorder's wait,
    /// and a launch.
    fn script(argument: u64, copied_to: u64) -> Script {
        let global = |n: u64| CallGlobal {
            at: GpuVa::new(VARIABLE + n * 256),
            bytes: 8,
            ..CallGlobal::default()
        };
        let wait = || {
            Step::Order(OrderRow {
                kind: OrderKind::ContextDone as u32,
                ..OrderRow::default()
            })
        };
        let launch = |argument: u64| Step::Launch(LaunchRow::default(), argument.to_le_bytes().to_vec());
        Script {
            metadata: ApiTraceMetadata {
                modules: vec![CallModule {
                    globals: vec![global(0), global(1)],
                    ..CallModule::default()
                }],
                ..ApiTraceMetadata::default()
            },
            inputs: vec![
                transfer(0x1000, true),
                transfer(copied_to, false),
                transfer(VARIABLE, true),
                transfer(VARIABLE + 256, true),
            ],
            steps: vec![
                (3, Step::Input(0)),
                (4, wait()),
                (5, Step::Input(1)),
                (6, launch(argument)),
                (7, Step::Input(2)),
                (8, Step::Input(3)),
                (9, wait()),
                (10, launch(0)),
            ],
            ..Script::default()
        }
    }

    fn events(s: &Script) -> Vec<u64> {
        s.steps.iter().map(|s| s.0).collect()
    }

    #[test]
    fn late_module_variables_are_initialized_first() {
        let mut s = script(0x1000, 0x2000);
        s.hoist_variables();
        assert_eq!(s.count_leading_inputs(), 3);
        assert_eq!(
            events(&s),
            [3, 3, 3, 4, 5, 6, 10],
            "events are in order, and the recorder's wait is removed"
        );
        let names: Vec<&str> = s.inputs.iter().map(|t| t.name.as_str()).collect();
        assert_eq!(
            names,
            ["1000", "70000000", "70000100", "2000"],
            "inputs are in the order of their steps"
        );
        let numbers: Vec<usize> = s
            .steps
            .iter()
            .filter_map(|(_, s)| match s {
                Step::Input(n) => Some(*n),
                _ => None,
            })
            .collect();
        assert_eq!(numbers, [0, 1, 2, 3]);
    }

    #[test]
    fn possibly_modified_variables_are_not_hoisted() {
        for (argument, copied_to) in [(VARIABLE + 7, 0x2000), (0x1000, VARIABLE - 4)] {
            let mut s = script(argument, copied_to);
            s.hoist_variables();
            assert_eq!(s.count_leading_inputs(), 1, "{argument:x} {copied_to:x}");
            assert_eq!(events(&s), [3, 4, 5, 6, 7, 8, 9, 10]);
        }
        // Only the second variable was modified. So the first one moves, and the wait stays.
        let mut s = script(VARIABLE + 256, 0x2000);
        s.hoist_variables();
        assert_eq!(s.count_leading_inputs(), 2);
        assert_eq!(events(&s), [3, 3, 4, 5, 6, 8, 9, 10]);
    }
}
