//! Strongly connected components of a graph, by Tarjan's algorithm without recursion.

/// The components, numbered in reverse topological order: targets before sources.
#[derive(Clone, Debug, Default)]
pub(crate) struct Components {
    /// Component of each node.
    pub of_node: Vec<u32>,
    /// Number of nodes of each component.
    pub sizes: Vec<u32>,
    /// All nodes, component by component.
    pub order: Vec<u32>,
}

const UNSEEN: u32 = u32::MAX;

/// Finds the components. `targets` lists the edges of each node.
pub(crate) fn find(targets: &[Vec<u32>]) -> Components {
    let mut search = Search {
        targets,
        index: vec![UNSEEN; targets.len()],
        low: vec![0; targets.len()],
        on_stack: vec![false; targets.len()],
        stack: Vec::new(),
        next: 0,
        result: Components {
            of_node: vec![0; targets.len()],
            ..Components::default()
        },
    };
    for node in 0..targets.len() {
        if search.index[node] == UNSEEN {
            search.visit(node);
        }
    }
    search.result
}

struct Search<'a> {
    targets: &'a [Vec<u32>],
    index: Vec<u32>,
    low: Vec<u32>,
    on_stack: Vec<bool>,
    stack: Vec<usize>,
    next: u32,
    result: Components,
}

impl Search<'_> {
    fn enter(&mut self, node: usize) {
        self.index[node] = self.next;
        self.low[node] = self.next;
        self.next += 1;
        self.stack.push(node);
        self.on_stack[node] = true;
    }

    fn visit(&mut self, root: usize) {
        self.enter(root);
        let mut path = vec![(root, 0usize)];
        while let Some((node, edge)) = path.last_mut() {
            let node = *node;
            if let Some(target) = self.targets[node].get(*edge) {
                *edge += 1;
                let target = *target as usize;
                if self.index[target] == UNSEEN {
                    self.enter(target);
                    path.push((target, 0));
                } else if self.on_stack[target] {
                    self.low[node] = self.low[node].min(self.index[target]);
                }
                continue;
            }
            path.pop();
            if let Some((parent, _)) = path.last() {
                self.low[*parent] = self.low[*parent].min(self.low[node]);
            }
            if self.low[node] == self.index[node] {
                self.close(node);
            }
        }
    }

    fn close(&mut self, root: usize) {
        let component = u32::try_from(self.result.sizes.len()).unwrap_or(u32::MAX);
        let mut size = 0;
        while let Some(node) = self.stack.pop() {
            self.on_stack[node] = false;
            self.result.of_node[node] = component;
            self.result.order.push(u32::try_from(node).unwrap_or(u32::MAX));
            size += 1;
            if node == root {
                break;
            }
        }
        self.result.sizes.push(size);
    }
}
