//! `doctor`: checks what works on this machine, and says how to mend what does not. It changes nothing.

mod agents;
mod compilers;
mod devices;
mod dialogs;
mod driver_recording;
mod folders;
mod graphics;
mod limits;
mod machine;
mod nvidia;
mod qemu;
mod report;
mod simulators;

use crate::cli::replay_arguments::Keys;
use crate::cli::{Exit, Failure, Out, Verb};
use clap::{Args, FromArgMatches as _};
use machine::Machine;
use report::Report;

pub const VERB: Verb = Verb {
    name: "doctor",
    about: "Check what works on this machine, and how to mend what does not",
    args: Arguments::augment_args,
    run: |matches, out| run(&Arguments::from_arg_matches(matches)?, out),
};

#[derive(Args)]
struct Arguments {
    #[command(flatten)]
    keys: Keys,
}

fn run(arguments: &Arguments, out: &mut Out) -> Result<Exit, Failure> {
    // Without a home folder there is no key store, which is a row of the report.
    let machine = Machine::current(arguments.keys.folder().ok());
    let report = examine(&machine);
    if out.is_json() {
        out.value(&report)?;
    } else {
        for line in report.lines() {
            out.line(line)?;
        }
    }
    Ok(Exit::differs_if(!report.basis))
}

/// Runs all checks. Simulators and drawing are the basis of the program.
fn examine(machine: &Machine) -> Report {
    let simulators = simulators::check(machine);
    let drawing = graphics::check(machine);
    let basis = simulators.ready && drawing.works;
    let areas = vec![
        simulators,
        drawing.area,
        dialogs::check(machine),
        devices::check(machine),
        driver_recording::check(machine),
        nvidia::check(machine),
        qemu::check(machine),
        compilers::check(machine),
        limits::check(machine),
        folders::check(machine),
        agents::check(machine),
    ];
    Report::new(basis, areas)
}

#[cfg(test)]
mod tests {
    use super::machine::fake::FakeMachine;
    use super::*;

    #[test]
    fn a_machine_without_anything_can_still_have_the_basis() {
        let mut fake = FakeMachine::empty();
        let report = examine(&fake.machine);
        assert!(report.basis);
        let names: Vec<&str> = report.areas.iter().map(|a| a.area).collect();
        assert_eq!(
            names,
            [
                "simulators",
                "drawing",
                "file dialogs",
                "hardware",
                "driver recording",
                "nvidia",
                "qemu",
                "compilers",
                "limits",
                "folders",
                "agents"
            ]
        );
        fake.machine.probes.simulator = |_| Err("no memory".to_owned());
        assert!(!examine(&fake.machine).basis);
    }

    #[test]
    fn the_basis_needs_a_way_to_draw() {
        let mut fake = FakeMachine::empty();
        fake.machine.probes.offscreen = || Err("no adapter".to_owned());
        assert!(!examine(&fake.machine).basis);
    }
}
