//! The call graph: reachable, recursive and resumable functions, and the length of call chains.

mod components;

use crate::error::TranslateError;
use crate::link::{FunctionKind, Linked, SignatureId};
use crate::options::{Options, Suspension};
use crate::scan::{Scan, scan};
use crate::values::FunctionId;

/// Facts of a function that follow from the call graph.
#[derive(Clone, Debug, Default)]
pub(crate) struct FunctionFacts {
    /// Its body, if it is reachable and no host function.
    pub scan: Option<Scan>,
    pub reachable: bool,
    /// It can call itself.
    pub recursive: bool,
    /// A copy can suspend in it.
    pub resumable: bool,
    /// It can return a negative status: a trap or a stop.
    pub can_stop: bool,
    /// It, or a function that it calls, grows a memory.
    pub may_grow: bool,
    /// It is the target of an element segment.
    pub in_table: bool,
}

/// The call graph of a program.
#[derive(Clone, Debug, Default)]
pub(crate) struct Graph {
    pub functions: Vec<FunctionFacts>,
    /// Functions of element segments, by signature.
    pub table_functions: Vec<Vec<FunctionId>>,
    /// An instruction of a reachable function changes a table.
    pub changes_tables: bool,
    /// An instruction of a reachable function grows a memory.
    pub grows: bool,
    /// Largest number of nested frames that the depth limit does not count.
    pub uncounted_frames: u32,
}

/// Builds the graph of the functions that are reachable from `roots`.
pub(crate) fn build(linked: &Linked, options: &Options, roots: &[FunctionId]) -> Result<Graph, TranslateError> {
    let mut graph = Graph {
        functions: vec![FunctionFacts::default(); linked.functions.len()],
        table_functions: vec![Vec::new(); linked.signatures.len()],
        ..Graph::default()
    };
    graph.collect_table_functions(linked);
    graph.reach(linked, roots)?;
    let edges = Edges::new(linked, &graph);
    let components = components::find(&edges.targets);
    graph.apply_components(&edges, &components);
    graph.apply_stops(linked, options, &edges);
    Ok(graph)
}

/// The graph's nodes are the functions, then one node for each signature: "some table function of this type".
struct Edges {
    functions: usize,
    targets: Vec<Vec<u32>>,
}

impl Edges {
    fn new(linked: &Linked, graph: &Graph) -> Self {
        let functions = linked.functions.len();
        let node = |index: usize| u32::try_from(index).unwrap_or(u32::MAX);
        let mut targets = vec![Vec::new(); functions + linked.signatures.len()];
        for (index, facts) in graph.functions.iter().enumerate() {
            let Some(scan) = &facts.scan else { continue };
            targets[index].extend(scan.callees.iter().map(|callee| callee.0));
            targets[index].extend(
                scan.indirect
                    .iter()
                    .map(|signature| node(functions + signature.0 as usize)),
            );
        }
        for (signature, list) in graph.table_functions.iter().enumerate() {
            let reachable = list
                .iter()
                .filter(|function| graph.functions[function.0 as usize].reachable);
            targets[functions + signature].extend(reachable.map(|function| function.0));
        }
        Self { functions, targets }
    }

    /// Returns the nodes from which a node with `start` is reachable.
    fn reverse_reach(&self, start: impl Fn(usize) -> bool) -> Vec<bool> {
        let mut sources = vec![Vec::new(); self.targets.len()];
        for (source, targets) in self.targets.iter().enumerate() {
            for target in targets {
                sources[*target as usize].push(source);
            }
        }
        let mut reached: Vec<bool> = (0..self.targets.len())
            .map(|node| node < self.functions && start(node))
            .collect();
        let mut work: Vec<usize> = (0..reached.len()).filter(|node| reached[*node]).collect();
        while let Some(node) = work.pop() {
            for source in &sources[node] {
                if !reached[*source] {
                    reached[*source] = true;
                    work.push(*source);
                }
            }
        }
        reached
    }
}

impl Graph {
    /// Returns the facts of a function.
    pub fn facts(&self, function: FunctionId) -> &FunctionFacts {
        &self.functions[function.0 as usize]
    }

    /// Returns true if a function with `signature` can be the target of an indirect call and satisfies `test`.
    pub fn any_table_function(&self, signature: SignatureId, test: impl Fn(&FunctionFacts) -> bool) -> bool {
        self.table_functions[signature.0 as usize]
            .iter()
            .any(|function| self.facts(*function).reachable && test(self.facts(*function)))
    }

    fn collect_table_functions(&mut self, linked: &Linked) {
        for instance in &linked.instances {
            for element in instance.module.elements.iter().filter(|element| !element.declared) {
                for item in element.items.iter().flatten() {
                    let function = instance.functions[*item as usize];
                    let facts = &mut self.functions[function.0 as usize];
                    if !facts.in_table {
                        facts.in_table = true;
                        let signature = linked.functions[function.0 as usize].signature;
                        self.table_functions[signature.0 as usize].push(function);
                    }
                }
            }
        }
    }

    fn reach(&mut self, linked: &Linked, roots: &[FunctionId]) -> Result<(), TranslateError> {
        let mut called_signatures = vec![false; linked.signatures.len()];
        let mut work: Vec<FunctionId> = roots.to_vec();
        while let Some(function) = work.pop() {
            let facts = &mut self.functions[function.0 as usize];
            if facts.reachable {
                continue;
            }
            facts.reachable = true;
            let FunctionKind::Defined(instance, defined) = linked.functions[function.0 as usize].kind else {
                continue;
            };
            let scan = scan(&linked.instances[instance.0 as usize], defined)?;
            work.extend(&scan.callees);
            for signature in &scan.indirect {
                if !std::mem::replace(&mut called_signatures[signature.0 as usize], true) {
                    work.extend(&self.table_functions[signature.0 as usize]);
                }
            }
            self.changes_tables |= scan.changes_tables;
            self.grows |= scan.grows;
            self.functions[function.0 as usize].scan = Some(scan);
        }
        Ok(())
    }

    fn apply_components(&mut self, edges: &Edges, components: &components::Components) {
        for (index, facts) in self.functions.iter_mut().enumerate() {
            let component = components.of_node[index] as usize;
            facts.recursive = components.sizes[component] > 1 || edges.targets[index].contains(&node_number(index));
        }
        // Components are in reverse topological order: callees first.
        let mut longest = vec![0u32; components.sizes.len()];
        for node in &components.order {
            let component = components.of_node[*node as usize] as usize;
            let own = self.functions.get(*node as usize).is_some_and(|facts| !facts.recursive);
            let below = edges.targets[*node as usize]
                .iter()
                .map(|target| longest[components.of_node[*target as usize] as usize])
                .max()
                .unwrap_or(0);
            longest[component] = longest[component].max(below.saturating_add(u32::from(own)));
        }
        self.uncounted_frames = longest.into_iter().max().unwrap_or(0).saturating_add(1);
    }

    fn apply_stops(&mut self, linked: &Linked, options: &Options, edges: &Edges) {
        let everywhere = options.fuel && options.suspension == Suspension::Everywhere;
        let functions = &self.functions;
        let resumable = edges.reverse_reach(|index| {
            let facts = &functions[index];
            match linked.functions[index].kind {
                FunctionKind::Host(host) => facts.reachable && !linked.host_functions[host as usize].terminal,
                FunctionKind::Defined(..) => {
                    everywhere && (facts.recursive || facts.scan.as_ref().is_some_and(|scan| scan.loops))
                }
            }
        });
        let can_stop = edges.reverse_reach(|index| {
            let facts = &functions[index];
            matches!(linked.functions[index].kind, FunctionKind::Host(_))
                || facts.recursive
                || facts.scan.as_ref().is_some_and(|scan| {
                    scan.traps
                        || (options.late_reserve && scan.grows)
                        || (options.fuel && (scan.loops || !scan.callees.is_empty()))
                })
        });
        let may_grow = edges.reverse_reach(|index| functions[index].scan.as_ref().is_some_and(|scan| scan.grows));
        for (index, facts) in self.functions.iter_mut().enumerate() {
            facts.resumable = resumable[index];
            facts.can_stop = can_stop[index] || resumable[index];
            facts.may_grow = may_grow[index];
        }
    }
}

fn node_number(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}
