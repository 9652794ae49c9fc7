//! Functions that both launched: whether their modules are the same bytes, and where not, whether the function's own
//! code is.

use super::CallSide;
use crate::progress::{Cancelled, Progress};
use crate::recording::{CallFunction, CallModule, CodeKind};
use cuda_code::cubin::Cubin;
use cuda_code::{Capability, Form, Image};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Maximum number of functions that are told.
const MAX_FUNCTIONS: usize = 1000;

/// A function whose module is not the same bytes on both sides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodeDifference {
    /// Its name for a person.
    pub function: String,
    /// The first launches of it that go together: the event of the first recording, and of the second.
    pub events: (u64, u64),
    /// Launches of it that go together.
    pub launches: u64,
    /// Digests of the modules, in hexadecimal; empty where a side tells none.
    pub digests: (String, String),
    /// Bytes of the modules.
    pub bytes: (u64, u64),
    /// Whether the function's own code differs; `None`: that cannot be told.
    pub own: Option<bool>,
}

impl CodeDifference {
    /// Whether it is a difference: a module may differ in what this function has no part in.
    #[must_use]
    pub fn differs(&self) -> bool {
        self.own != Some(false)
    }

    pub(super) fn swapped(mut self) -> Self {
        self.events = (self.events.1, self.events.0);
        self.digests = (self.digests.1, self.digests.0);
        self.bytes = (self.bytes.1, self.bytes.0);
        self
    }
}

/// Functions of launches that go together.
#[derive(Debug, Default)]
pub(super) struct LaunchedCode {
    /// By the indices of the function: the first launches, and how many.
    pairs: BTreeMap<(u32, u32), ((u64, u64), u64)>,
}

impl LaunchedCode {
    /// Two launches go together.
    pub fn take(&mut self, functions: (u32, u32), events: (u64, u64)) {
        self.pairs.entry(functions).or_insert((events, 0)).1 += 1;
    }

    /// The functions whose modules are not the same, in the order of their first launches.
    pub fn compare(
        self,
        a: &CallSide<'_>,
        b: &CallSide<'_>,
        progress: &Progress,
    ) -> Result<Vec<CodeDifference>, Cancelled> {
        let mut out = Vec::new();
        for ((x, y), (events, launches)) in self.pairs {
            let (Some((f, m)), Some((g, n))) = (module(a, x), module(b, y)) else {
                continue;
            };
            // A module that is not stored has no digest: nothing is known of it.
            if m.digest == n.digest || m.digest.is_empty() || n.digest.is_empty() || out.len() >= MAX_FUNCTIONS {
                continue;
            }
            progress.check()?;
            let own = (|| Some(function_code(a, f, m)? != function_code(b, g, n)?))();
            out.push(CodeDifference {
                function: a.calls().function_name(x).to_owned(),
                events,
                launches,
                digests: (m.digest.clone(), n.digest.clone()),
                bytes: (m.bytes, n.bytes),
                own,
            });
        }
        out.sort_by_key(|c| c.events);
        Ok(out)
    }
}

fn module<'r>(of: &CallSide<'r>, function: u32) -> Option<(&'r CallFunction, &'r CallModule)> {
    let facts = of.calls().facts();
    let f = facts.functions.get(function as usize)?;
    Some((f, facts.modules.get(f.module? as usize)?))
}

/// The code of one function: its instructions, or its text. `None`: it cannot be told from the rest of the module.
fn function_code(of: &CallSide<'_>, function: &CallFunction, module: &CallModule) -> Option<Vec<u8>> {
    let code = of.recording.module_code(module)?;
    let [major, minor] = of.calls().facts().device.capability;
    let found = Image::detect(&code)
        .find_kernel(&function.name, Capability::new(major, minor))
        .ok()?;
    // Text says what its function says, but not what it calls: that is told by the whole module alone.
    if found.form != Form::Machine || module.kind == CodeKind::Ptx {
        return None;
    }
    let cubin = Cubin::parse(&found.code).ok()?;
    let kernel = cubin.kernel(&function.name).ok()??;
    let from = usize::try_from(kernel.code_at).ok()?;
    let to = from.checked_add(usize::try_from(kernel.code_bytes).ok()?)?;
    Some(found.code.get(from..to)?.to_vec())
}
