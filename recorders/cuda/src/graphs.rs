//! Executable graphs: the work of their nodes, in topological order.

use std::collections::HashMap;
use std::sync::Arc;
use trace_core::recording::{CopyRow, FillRow, LaunchRow};

/// An executable graph.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExecGraph {
    /// Its nodes in topological order.
    pub nodes: Vec<Node>,
    /// The graph was changed in a way that the recorder could not follow: its work is unknown.
    unknown: bool,
}

/// All executable graphs.
#[derive(Debug, Default)]
pub(crate) struct Graphs {
    ready: HashMap<usize, Arc<ExecGraph>>,
}

/// A node of a graph.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// Its handle, by which the program names it in the executable graph.
    pub handle: usize,
    /// Launches run the node.
    pub enabled: bool,
    pub work: NodeWork,
}

/// The work of a node.
#[derive(Clone, Debug)]
pub(crate) enum NodeWork {
    /// A launch, its arguments, and whether launches of its function are recorded one by one.
    Launch(LaunchRow, Option<Vec<u8>>, bool),
    Copies(Vec<CopyRow>),
    Fill(FillRow),
    Child(Vec<Node>),
    /// No work that is recorded.
    Nothing,
}

impl Node {
    /// Replaces the work of the node. Properties that the change's structure does not contain stay.
    fn change(&mut self, to: NodeWork) {
        self.work = match (to, &self.work) {
            (NodeWork::Launch(new, buffer, wanted), NodeWork::Launch(old, ..)) => {
                let row = LaunchRow {
                    cluster: old.cluster,
                    flags: old.flags,
                    ..new
                };
                NodeWork::Launch(row, buffer, wanted)
            }
            (NodeWork::Child(mut new), NodeWork::Child(old)) => {
                keep_handles(&mut new, old);
                NodeWork::Child(new)
            }
            (to, _) => to,
        };
    }
}

/// Keeps the old handles when nodes replace others of the same structure: the program still uses the first ones.
fn keep_handles(new: &mut [Node], old: &[Node]) {
    for (new, old) in new.iter_mut().zip(old) {
        new.handle = old.handle;
        if let (NodeWork::Child(new), NodeWork::Child(old)) = (&mut new.work, &old.work) {
            keep_handles(new, old);
        }
    }
}

/// Returns the node with this handle, also in child graphs.
fn find(nodes: &mut [Node], handle: usize) -> Option<&mut Node> {
    nodes.iter_mut().find_map(|node| {
        if node.handle == handle {
            return Some(node);
        }
        match &mut node.work {
            NodeWork::Child(nodes) => find(nodes, handle),
            _ => None,
        }
    })
}

/// Calls `to` for each enabled node, in order.
pub(crate) fn for_each_enabled<'a>(nodes: &'a [Node], to: &mut dyn FnMut(&'a NodeWork)) {
    for node in nodes.iter().filter(|n| n.enabled) {
        match &node.work {
            NodeWork::Child(nodes) => for_each_enabled(nodes, to),
            what => to(what),
        }
    }
}

impl Graphs {
    /// Adds an instantiated graph.
    pub fn add(&mut self, exec: usize, nodes: Vec<Node>) {
        self.ready.insert(exec, Arc::new(ExecGraph { nodes, unknown: false }));
    }

    /// Replaces the nodes of an executable graph; their handles stay.
    pub fn update(&mut self, exec: usize, mut nodes: Vec<Node>) {
        let ready = Arc::make_mut(self.ready.entry(exec).or_default());
        keep_handles(&mut nodes, &ready.nodes);
        *ready = ExecGraph { nodes, unknown: false };
    }

    /// Changes the work of a node; `None` if the new work is unknown.
    pub fn change(&mut self, exec: usize, node: usize, to: Option<NodeWork>) {
        if let Some(ready) = self.ready.get_mut(&exec) {
            let ready = Arc::make_mut(ready);
            match (find(&mut ready.nodes, node), to) {
                (Some(node), Some(to)) => node.change(to),
                _ => ready.unknown = true,
            }
        }
    }

    /// Enables or disables a node.
    pub fn set_enabled(&mut self, exec: usize, node: usize, enabled: bool) {
        if let Some(ready) = self.ready.get_mut(&exec) {
            let ready = Arc::make_mut(ready);
            match find(&mut ready.nodes, node) {
                Some(node) => node.enabled = enabled,
                None => ready.unknown = true,
            }
        }
    }

    /// Forgets a destroyed executable graph.
    pub fn remove(&mut self, exec: usize) {
        self.ready.remove(&exec);
    }

    /// Returns an executable graph, or `None` if its work is unknown.
    pub fn find(&self, exec: usize) -> Option<Arc<ExecGraph>> {
        let ready = self.ready.get(&exec).filter(|ready| !ready.unknown);
        ready.cloned()
    }
}
