//! Handles of the program, and the driver's objects behind them.

use crate::call_error::{CallError, CallResult};
use crate::lock;
use cuda_driver::{INVALID_HANDLE, OUT_OF_MEMORY};
use remote_calls::{HandleKind, HandleNumber, MessageError};
use std::collections::HashMap;
use std::sync::Mutex;

/// Maximum number of handles of a session: a hostile client must not fill the memory of the machine.
const MAX_HANDLES: usize = 16 << 20;

/// Maximum number of steps from a node to its outermost graph.
const MAX_NESTED_GRAPHS: u32 = 1024;

/// An object of the driver.
struct Entry {
    object: u64,
    /// The object that it ends with: a context, or the module of a function.
    owner: HandleNumber,
}

#[derive(Default)]
struct Maps {
    objects: HashMap<HandleNumber, Entry>,
    numbers: HashMap<(HandleKind, u64), HandleNumber>,
    /// Objects that end with another one. Some of them may have ended before.
    children: HashMap<HandleNumber, Vec<HandleNumber>>,
    next: u32,
}

/// All handles of a session.
#[derive(Default)]
pub struct Handles {
    maps: Mutex<Maps>,
}

impl Handles {
    /// Returns the driver's object of a handle. The null handle is null.
    ///
    /// # Errors
    /// `INVALID_HANDLE` if there is none.
    pub fn get(&self, number: HandleNumber) -> CallResult<u64> {
        if number == HandleNumber::NULL {
            return Ok(0);
        }
        let found = lock(&self.maps).objects.get(&number).map(|entry| entry.object);
        found.ok_or(CallError::Result(INVALID_HANDLE))
    }

    /// Returns the handle of an object that the driver returned, or `None` if it has none.
    pub fn find_number(&self, kind: HandleKind, object: u64) -> Option<HandleNumber> {
        lock(&self.maps).numbers.get(&(kind, object)).copied()
    }

    /// Returns the graph that a node or a graph ends with: of a node in a child graph, the outermost one.
    pub fn outermost_graph(&self, node: HandleNumber) -> HandleNumber {
        let maps = lock(&self.maps);
        let mut outermost = node;
        for _ in 0..MAX_NESTED_GRAPHS {
            match maps.objects.get(&outermost).map(|entry| entry.owner) {
                Some(owner) if matches!(owner.kind(), Some(HandleKind::Graph | HandleKind::GraphNode)) => {
                    outermost = owner;
                }
                _ => break,
            }
        }
        outermost
    }

    /// Returns what an object ends with, or the null handle if the object is unknown.
    pub fn owner_of(&self, number: HandleNumber) -> HandleNumber {
        let maps = lock(&self.maps);
        maps.objects.get(&number).map(|entry| entry.owner).unwrap_or_default()
    }

    /// Adds an object under the number that the client made. It ends with `owner`.
    ///
    /// # Errors
    /// If the number is in use or cannot be a client's: no client sends that.
    pub fn insert(&self, kind: HandleKind, number: HandleNumber, object: u64, owner: HandleNumber) -> CallResult {
        let mut maps = lock(&self.maps);
        if number.kind() != Some(kind) || number.is_of_worker() || maps.objects.contains_key(&number) {
            return Err(CallError::Message(MessageError::Unknown {
                what: "the new handle",
                value: number.get().into(),
                at: 0,
            }));
        }
        maps.add(kind, number, Entry { object, owner })
    }

    /// Returns the handle of an object that the driver returned: the one that it has, or a new one that ends with
    /// `owner`.
    ///
    /// # Errors
    /// `OUT_OF_MEMORY` if the session has too many handles.
    pub fn resolve(&self, kind: HandleKind, object: u64, owner: HandleNumber) -> CallResult<HandleNumber> {
        if object == 0 {
            return Ok(HandleNumber::NULL);
        }
        let mut maps = lock(&self.maps);
        if let Some(number) = maps.numbers.get(&(kind, object)) {
            return Ok(*number);
        }
        let number = HandleNumber::from_worker(kind, maps.next).ok_or(CallError::Result(OUT_OF_MEMORY))?;
        maps.next += 1;
        maps.add(kind, number, Entry { object, owner })?;
        Ok(number)
    }

    /// Makes an object end with another owner.
    pub fn set_owner(&self, number: HandleNumber, owner: HandleNumber) {
        let mut maps = lock(&self.maps);
        if let Some(entry) = maps.objects.get_mut(&number).filter(|entry| entry.owner != owner) {
            entry.owner = owner;
            maps.children.entry(owner).or_default().push(number);
        }
    }

    /// Removes a handle whose object was destroyed, and those of all objects that ended with it.
    pub fn remove(&self, number: HandleNumber) {
        lock(&self.maps).remove(number);
    }

    /// Removes the handles of all objects that end with another one, which stays.
    pub fn remove_children(&self, owner: HandleNumber) {
        let mut maps = lock(&self.maps);
        for child in maps.children.remove(&owner).unwrap_or_default() {
            maps.remove(child);
        }
    }
}

impl Maps {
    fn add(&mut self, kind: HandleKind, number: HandleNumber, entry: Entry) -> CallResult {
        if self.objects.len() >= MAX_HANDLES {
            return Err(CallError::Result(OUT_OF_MEMORY));
        }
        self.numbers.insert((kind, entry.object), number);
        let siblings = self.children.entry(entry.owner).or_default();
        siblings.push(number);
        // Events and streams come and go by the million: those that ended are forgotten when they are most of the list.
        if siblings.len().is_power_of_two() && siblings.len() >= 1024 {
            let objects = &self.objects;
            siblings.retain(|sibling| *sibling == number || objects.contains_key(sibling));
        }
        self.objects.insert(number, entry);
        Ok(())
    }

    fn remove(&mut self, number: HandleNumber) {
        let mut ended = vec![number];
        while let Some(number) = ended.pop() {
            ended.extend(self.children.remove(&number).unwrap_or_default());
            if let (Some(entry), Some(kind)) = (self.objects.remove(&number), number.kind()) {
                // The driver may have returned the object for a newer handle already.
                if self.numbers.get(&(kind, entry.object)) == Some(&number) {
                    self.numbers.remove(&(kind, entry.object));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_known(handles: &Handles, number: HandleNumber) -> bool {
        handles.get(number).is_ok()
    }

    #[test]
    fn nodes_and_child_graphs_end_with_their_graph() {
        let handles = Handles::default();
        let graph = HandleNumber::from_client(HandleKind::Graph, 1).unwrap();
        let node = HandleNumber::from_client(HandleKind::GraphNode, 1).unwrap();
        handles
            .insert(HandleKind::Graph, graph, 0x10, HandleNumber::NULL)
            .unwrap();
        handles.insert(HandleKind::GraphNode, node, 0x20, graph).unwrap();
        let child = handles.resolve(HandleKind::Graph, 0x30, node).unwrap();
        let inner = handles.resolve(HandleKind::GraphNode, 0x40, child).unwrap();
        assert_eq!(handles.resolve(HandleKind::GraphNode, 0x40, graph).unwrap(), inner);
        for number in [inner, child, node, graph] {
            assert_eq!(handles.outermost_graph(number), graph);
        }
        handles.remove(graph);
        assert!(
            [graph, node, child, inner]
                .iter()
                .all(|number| !is_known(&handles, *number))
        );
        // The driver uses the address again: the stale handle stays stale.
        let other = HandleNumber::from_client(HandleKind::Graph, 2).unwrap();
        handles
            .insert(HandleKind::Graph, other, 0x50, HandleNumber::NULL)
            .unwrap();
        let newer = handles.resolve(HandleKind::GraphNode, 0x40, other).unwrap();
        assert_ne!(newer, inner);
        assert!(!is_known(&handles, inner) && is_known(&handles, newer));
    }
}
