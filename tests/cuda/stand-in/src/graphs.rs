//! Graphs: nodes of work that is first put together, by hand or by capture, and then run by each launch.

use crate::call::HostFunction;
use crate::fill::Fill;
use crate::handles::{Handles, pointer};
use crate::launch::Launch;
use crate::transfer::Transfer;
use crate::{Answer, lock};
use cuda_driver::{CuGraph, CuGraphNode};
use std::sync::{Arc, Mutex};

/// The work of a node.
#[derive(Clone)]
pub enum Work {
    Launch(Launch),
    Copy(Transfer),
    Fill(Fill),
    Host(HostFunction),
    Child(Arc<Graph>),
    Empty,
}

/// A node.
pub struct Node {
    pub handle: usize,
    pub work: Mutex<Work>,
    /// Handles of its dependencies, which were created before it.
    pub after: Mutex<Vec<usize>>,
}

/// A graph: its nodes in the order of their creation, which is a topological order.
pub struct Graph {
    pub handle: usize,
    pub nodes: Mutex<Vec<Arc<Node>>>,
}

static GRAPHS: Handles<Graph> = Handles::new(6);
pub static NODES: Handles<Node> = Handles::new(7);

impl Graph {
    /// Returns an empty graph.
    pub fn new() -> Arc<Self> {
        GRAPHS.put(|handle| Self {
            handle,
            nodes: Mutex::default(),
        })
    }

    /// Returns the graph of a handle.
    pub fn find(handle: CuGraph) -> Answer<Arc<Self>> {
        GRAPHS.get(handle)
    }

    /// Adds a node after others.
    pub fn add(&self, work: Work, after: Vec<usize>) -> usize {
        let node = NODES.put(|handle| Node {
            handle,
            work: Mutex::new(work),
            after: Mutex::new(after),
        });
        let handle = node.handle;
        lock(&self.nodes).push(node);
        handle
    }

    /// Removes a node, with its edges. Returns whether it was one of this graph.
    fn remove(&self, handle: usize) -> bool {
        let mut nodes = lock(&self.nodes);
        let count = nodes.len();
        nodes.retain(|node| node.handle != handle);
        for node in nodes.iter() {
            lock(&node.after).retain(|before| *before != handle);
        }
        nodes.len() < count
    }

    /// Destroys the graph. Executable graphs made of it stay.
    pub fn end(&self) {
        for node in lock(&self.nodes).iter() {
            // After a second destruction there are no nodes any more.
            let _ = NODES.take(pointer(node.handle));
        }
        let _ = GRAPHS.take(pointer(self.handle));
    }

    /// Returns its edges, from a node to its dependents.
    pub fn edges(&self) -> Vec<(usize, usize)> {
        let nodes = lock(&self.nodes);
        let of = |node: &Arc<Node>| {
            let after = lock(&node.after);
            after.iter().map(|from| (*from, node.handle)).collect::<Vec<_>>()
        };
        nodes.iter().flat_map(of).collect()
    }
}

/// Destroys a node, with its edges.
pub fn destroy_node(node: CuGraphNode) -> Answer {
    let node = NODES.take(node)?;
    GRAPHS.all().iter().any(|graph| graph.remove(node.handle));
    Ok(())
}

/// Returns a copy of a child graph: later changes of the child itself have no effect on it.
pub fn clone_graph(child: &Graph) -> Arc<Graph> {
    let own = Graph::new();
    let mut handles = Vec::new();
    for node in lock(&child.nodes).iter() {
        let after = lock(&node.after);
        let after = after
            .iter()
            .filter_map(|a| handles.iter().find(|(from, _)| from == a))
            .map(|(_, to)| *to);
        let made = own.add(lock(&node.work).clone(), after.collect());
        handles.push((node.handle, made));
    }
    own
}
