//! Graphs: nodes of work that is first put together, by hand or by capture, and then run by each launch.

use crate::call::HostFunction;
use crate::fill::Fill;
use crate::handles::{Handles, pointer};
use crate::launch::Launch;
use crate::transfer::Transfer;
use crate::{Answer, lock};
use cuda_driver::CuGraph;
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
    pub after: Vec<usize>,
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
            after,
        });
        let handle = node.handle;
        lock(&self.nodes).push(node);
        handle
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
        let of = |node: &Arc<Node>| node.after.iter().map(|from| (*from, node.handle)).collect::<Vec<_>>();
        nodes.iter().flat_map(of).collect()
    }
}

/// Returns a copy of a child graph: later changes of the child itself have no effect on it.
pub fn clone_graph(child: &Graph) -> Arc<Graph> {
    let own = Graph::new();
    let mut handles = Vec::new();
    for node in lock(&child.nodes).iter() {
        let after = node
            .after
            .iter()
            .filter_map(|a| handles.iter().find(|(from, _)| from == a))
            .map(|(_, to)| *to);
        let made = own.add(lock(&node.work).clone(), after.collect());
        handles.push((node.handle, made));
    }
    own
}
