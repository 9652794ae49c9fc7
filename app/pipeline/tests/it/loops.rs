//! Loops of modules: conditions, bounds, carried values.

use crate::support::{TestFolder, integers, run_on};
use kinescope_pipeline::{RunResult, RunVerdict};
use kinescope_session::targets::Targets;

/// Counts from the start to the end of a loop by ones.
const COUNT: &str = r#"
version = 1
[inputs.zero]
type = "i32"
values = [0]
[stages.add]
module = "m.wat"
function = "add"
inputs.n = { from = "count.n", type = "i32", shape = [1] }
outputs.n = { type = "i32", shape = [1] }
[loops.count]
stages = ["add"]
rounds = ROUNDS
carry.n = { start = "inputs.zero", next = "add.n" }
until = { value = "add.n", TEST }
[outputs]
carried = "count.n"
last = "add.n"
"#;
const ADD: &str = r#"(func (export "add") (param $in i32) (param i32) (param $out i32) (param i32)
  (i32.store (local.get $out) (i32.add (i32.load (local.get $in)) (i32.const 1))))"#;

fn count(rounds: &str, test: &str) -> RunResult {
    let text = COUNT.replace("ROUNDS", rounds).replace("TEST", test);
    let folder = TestFolder::new(&text, ADD);
    // Modules need no target.
    run_on(&folder.open(), &Targets::new(None), "").unwrap()
}

#[test]
fn loops_end_by_their_conditions() {
    for (test, rounds) in [("equals = 5", 5), ("above = 6.5", 7), ("below = 3", 1)] {
        let result = count("10", test);
        let report = &result.report;
        assert_eq!((report.verdict, &report.failure), (RunVerdict::Match, &None), "{test}");
        assert_eq!(
            (report.loops[0].rounds, report.loops[0].ended_by),
            (rounds, "condition")
        );
        assert_eq!(report.loops[0].value, f64::from(rounds));
        for output in &result.outputs {
            assert_eq!(integers(output), [i32::try_from(rounds).unwrap()], "{test}");
        }
        let numbers: Vec<u32> = report.stages.iter().filter_map(|s| s.round).collect();
        assert_eq!(numbers, (1..=rounds).collect::<Vec<_>>());
    }
}

#[test]
fn bound_fails_the_run_unless_it_may_continue() {
    let result = count("4", "equals = 5");
    let report = &result.report;
    assert_eq!(report.verdict, RunVerdict::Failed);
    assert_eq!(
        report.failure.as_deref(),
        Some("loop 'count': 4 rounds did not reach 'add.n = 5', its last value is 4")
    );
    assert_eq!((report.loops[0].rounds, report.loops[0].ended_by), (4, "bound"));
    assert!(result.outputs.is_empty() && !result.is_unstarted);
    let result = count("4\nat_bound = \"continue\"", "equals = 5");
    assert_eq!(
        (result.report.verdict, result.report.loops[0].ended_by),
        (RunVerdict::Match, "bound")
    );
    assert_eq!(integers(&result.outputs[0]), [4]);
}

#[test]
fn carried_values_change_all_at_once() {
    let text = r#"
version = 1
[inputs.a]
type = "i32"
values = [1]
[inputs.b]
type = "i32"
values = [0]
# Fibonacci: each round gives the sum, and what was the sum.
[stages.sum]
module = "m.wat"
function = "sum"
inputs.a = { from = "l.a", type = "i32", shape = [1] }
inputs.b = { from = "l.b", type = "i32", shape = [1] }
outputs.sum = { type = "i32", shape = [1] }
outputs.before = { type = "i32", shape = [1] }
[loops.l]
stages = ["sum"]
rounds = 100
carry.a = { start = "inputs.a", next = "sum.sum" }
carry.b = { start = "inputs.b", next = "sum.before" }
until = { value = "sum.sum", above = 1000 }
# A stage after the loop uses what its last round gave.
[stages.after]
module = "m.wat"
function = "sum"
inputs.a = { from = "l.b", type = "i32", shape = [1] }
inputs.b = { from = "sum.sum", type = "i32", shape = [1] }
outputs.sum = { type = "i32", shape = [1] }
outputs.before = { type = "i32", shape = [1] }
[outputs]
last = "l.a"
next = "after.sum"
"#;
    let module = r#"(func (export "sum") (param $a i32) (param i32) (param $b i32) (param i32)
      (param $sum i32) (param i32) (param $before i32) (param i32)
      (i32.store (local.get $sum) (i32.add (i32.load (local.get $a)) (i32.load (local.get $b))))
      (i32.store (local.get $before) (i32.load (local.get $a))))"#;
    let result = run_on(&TestFolder::new(text, module).open(), &Targets::new(None), "").unwrap();
    assert_eq!(integers(&result.outputs[0]), [1597]);
    assert_eq!(integers(&result.outputs[1]), [2584]);
}
