//! Simulators, which every replay without hardware uses.

use super::machine::Machine;
use super::report::{Area, Check};
use kinescope_session::targets::list_simulators;

/// Starts each simulator once.
pub fn check(machine: &Machine) -> Area {
    let start = |name: &str| match (machine.probes.simulator)(name) {
        Ok(()) => Check::ok(name, "starts"),
        Err(e) => Check::missing(name, format!("does not start: {e}"))
            .with_mend("free memory, or raise the limits that `ulimit -a` lists, then run this again"),
    };
    let checks = list_simulators().map(|(name, _)| start(&name)).collect();
    Area::new("simulators", "replay without hardware", checks)
}

#[cfg(test)]
mod tests {
    use super::super::machine::Probes;
    use super::super::machine::fake::FakeMachine;
    use super::super::report::State;
    use super::*;

    #[test]
    fn every_simulator_has_a_row() {
        let area = check(&FakeMachine::empty().machine);
        let names: Vec<String> = list_simulators().map(|(name, _)| name).collect();
        assert!(area.ready);
        assert!(area.checks.iter().map(|c| &c.check).eq(&names));
    }

    #[test]
    fn one_that_does_not_start_breaks_the_area() {
        let mut fake = FakeMachine::empty();
        fake.machine.probes.simulator = |name| match name.ends_with("mali-g52") {
            true => Err("no memory".to_owned()),
            false => Ok(()),
        };
        let area = check(&fake.machine);
        assert!(!area.ready);
        let broken: Vec<_> = area.checks.iter().filter(|c| c.state == State::Missing).collect();
        assert_eq!(broken.len(), 1);
        assert_eq!(broken[0].found, "does not start: no memory");
    }

    #[test]
    fn the_simulators_of_this_program_start() {
        let mut fake = FakeMachine::empty();
        fake.machine.probes.simulator = Probes::default().simulator;
        assert!(check(&fake.machine).ready);
    }
}
