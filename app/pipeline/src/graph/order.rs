//! The order of stages and loops: a topological sort with circles reported.

use super::Graph;
use crate::defect::{DefectKind, Defects};
use crate::document::Document;

/// A node of the sort: a stage, or a loop as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Stage(usize),
    Loop(usize),
}

/// Sorts stages within their loops, then stages and loops, and sets [`Graph::order`] and the depths of stages. Returns
/// whether there is no circle.
pub(super) fn sort(graph: &mut Graph, document: &Document, defects: &mut Defects) -> bool {
    let mut is_sound = true;
    for number in 0..graph.loops.len() {
        let Some(node) = graph.loops.get(number) else { continue };
        let units: Vec<Unit> = node.stages.iter().map(|s| Unit::Stage(*s)).collect();
        match sort_units(graph, document, &units, defects) {
            Some(sorted) => {
                let stages = sorted.into_iter().filter_map(|unit| match unit {
                    Unit::Stage(stage) => Some(stage),
                    Unit::Loop(_) => None,
                });
                let stages = stages.collect();
                if let Some(node) = graph.loops.get_mut(number) {
                    node.stages = stages;
                }
            }
            None => is_sound = false,
        }
    }
    let loose = (0..graph.stages.len()).filter(|s| graph.loop_of(*s).is_none());
    let mut units: Vec<Unit> = loose.map(Unit::Stage).collect();
    units.extend((0..graph.loops.len()).map(Unit::Loop));
    let Some(sorted) = sort_units(graph, document, &units, defects) else {
        return false;
    };
    // Depth of the stage after each loop.
    let mut ends = vec![0usize; graph.loops.len()];
    for unit in sorted {
        match unit {
            Unit::Stage(stage) => {
                let depth = depth_after(graph, unit, &ends);
                set_depth(graph, stage, depth);
            }
            Unit::Loop(number) => {
                let base = depth_after(graph, unit, &ends);
                let members = graph.loops.get(number).map(|l| l.stages.clone()).unwrap_or_default();
                let mut end = base;
                for stage in members {
                    let depth = depth_after(graph, Unit::Stage(stage), &ends).max(base);
                    set_depth(graph, stage, depth);
                    end = end.max(depth.saturating_add(1));
                }
                if let Some(slot) = ends.get_mut(number) {
                    *slot = end;
                }
            }
        }
    }
    is_sound
}

fn set_depth(graph: &mut Graph, stage: usize, depth: usize) {
    if let Some(node) = graph.stages.get_mut(stage) {
        node.depth = depth;
    }
    graph.order.push(stage);
}

/// Returns what a unit waits for.
fn waits(graph: &Graph, unit: Unit) -> (&[usize], &[usize]) {
    match unit {
        Unit::Stage(stage) => graph
            .stages
            .get(stage)
            .map_or((&[], &[]), |s| (&s.after_stages, &s.after_loops)),
        Unit::Loop(number) => graph
            .loops
            .get(number)
            .map_or((&[], &[]), |l| (&l.after_stages, &l.after_loops)),
    }
}

fn depth_after(graph: &Graph, unit: Unit, ends: &[usize]) -> usize {
    let (stages, loops) = waits(graph, unit);
    let stages = stages
        .iter()
        .filter_map(|s| graph.stages.get(*s))
        .map(|s| s.depth.saturating_add(1));
    let loops = loops.iter().filter_map(|l| ends.get(*l)).copied();
    stages.chain(loops).max().unwrap_or(0)
}

/// Sorts units: each after those that it waits for, otherwise in their order. Adds a defect and returns `None` if some
/// wait for one another.
fn sort_units(graph: &Graph, document: &Document, units: &[Unit], defects: &mut Defects) -> Option<Vec<Unit>> {
    let find = |unit: Unit| units.iter().position(|u| *u == unit);
    let before: Vec<Vec<usize>> = units
        .iter()
        .map(|unit| {
            let (stages, loops) = waits(graph, *unit);
            let stages = stages.iter().filter_map(|s| find(Unit::Stage(*s)));
            stages
                .chain(loops.iter().filter_map(|l| find(Unit::Loop(*l))))
                .collect()
        })
        .collect();
    let mut done = vec![false; units.len()];
    let mut sorted = Vec::with_capacity(units.len());
    loop {
        let is_ready = |at: usize| {
            before
                .get(at)
                .is_some_and(|b| b.iter().all(|b| done.get(*b) == Some(&true)))
        };
        let next = (0..units.len()).find(|at| done.get(*at) == Some(&false) && is_ready(*at));
        let Some(next) = next else { break };
        if let (Some(slot), Some(unit)) = (done.get_mut(next), units.get(next)) {
            *slot = true;
            sorted.push(*unit);
        }
    }
    if sorted.len() == units.len() {
        return Some(sorted);
    }
    let circle = find_circle(&before, &done);
    let describe = |at: &usize| match units.get(*at) {
        Some(Unit::Stage(stage)) => document.stages.get(*stage).map(|s| (s.name.clone(), s.line)),
        Some(Unit::Loop(number)) => document.loops.get(*number).map(|l| (l.name.clone(), l.line)),
        None => None,
    };
    let mut members: Vec<(String, u32)> = circle.iter().filter_map(describe).collect();
    // What is waited for comes first.
    members.reverse();
    let line = members.iter().map(|m| m.1).min().unwrap_or(1);
    let first = members.iter().position(|m| m.1 == line).unwrap_or(0);
    members.rotate_left(first);
    members.extend(members.first().cloned());
    let stages = members.into_iter().map(|m| m.0).collect();
    defects.add(line, DefectKind::Cycle { stages });
    None
}

/// Returns a circle among the units that are not done. Each of them waits for another one that is not done.
fn find_circle(before: &[Vec<usize>], done: &[bool]) -> Vec<usize> {
    let mut path: Vec<usize> = Vec::new();
    let mut at = done.iter().position(|d| !d);
    while let Some(now) = at {
        if let Some(start) = path.iter().position(|p| *p == now) {
            return path.split_off(start);
        }
        path.push(now);
        at = before
            .get(now)
            .and_then(|b| b.iter().copied().find(|b| done.get(*b) == Some(&false)));
    }
    path
}
