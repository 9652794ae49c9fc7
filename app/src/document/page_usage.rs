//! The recorded use of a page: page table, job header, shader code, buffer, or unknown.

use super::jobs::Chain;
use super::lookup;
use super::spaces::SpaceFact;
use std::ops::Range;
use std::sync::Arc;
use trace_core::GpuVa;
use trace_core::recording::{Buffer, BufferRole, Recording};

/// Index of named addresses, so that the use of a page is a binary search.
#[derive(Clone, Debug, Default)]
pub struct PageUsage {
    jobs: JobAddresses,
    /// Buffers: address, one past the last byte, index.
    buffers: Vec<(u64, u64, u32)>,
    /// Maximum size of a buffer, bytes.
    longest: u64,
}

/// The addresses that jobs name, sorted. There may be millions, so they are sorted off the interface thread.
#[derive(Clone, Debug, Default)]
pub struct JobAddresses {
    /// Job headers: address, job.
    heads: Vec<(u64, u32)>,
    /// Shader code: address, job.
    shaders: Vec<(u64, u32)>,
}

impl JobAddresses {
    /// Sorts the addresses. Each job is given as header address, index and chain.
    #[must_use]
    pub fn new<'a>(jobs: impl Iterator<Item = (u64, u32, &'a Arc<Chain>)>) -> Self {
        let mut out = Self::default();
        let mut last: Option<&Arc<Chain>> = None;
        for (head, index, chain) in jobs {
            out.heads.push((head, index));
            // Jobs that run the same chain share it.
            if !last.is_some_and(|l| Arc::ptr_eq(l, chain)) {
                out.heads.extend(chain.iter().map(|c| (c.va, index)));
                out.shaders
                    .extend(chain.iter().filter_map(|c| Some((c.shader?, index))));
            }
            last = Some(chain);
        }
        for list in [&mut out.heads, &mut out.shaders] {
            list.sort_unstable();
            list.dedup();
        }
        out
    }
}

/// A use of a page or range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageUse {
    /// A page table.
    Table {
        /// Level, 0 to 3.
        level: u8,
        /// First address that it translates.
        va: u64,
    },
    /// Job headers: the first few jobs, and the number of all.
    Heads(Vec<u32>, usize),
    /// Shader entry points: the first few jobs, and the number of all.
    Shaders(Vec<u32>, usize),
    /// A buffer, by index.
    Buffer(u32),
}

/// Maximum number of jobs that are listed individually.
const NAMED: usize = 4;

impl PageUsage {
    /// Sets the addresses that jobs name.
    pub fn set_jobs(&mut self, places: JobAddresses) {
        self.jobs = places;
    }

    /// Whether a job's shader starts in an address range.
    #[must_use]
    pub fn has_shader_in(&self, range: Range<u64>) -> bool {
        let n = self.jobs.shaders.partition_point(|s| s.0 < range.start);
        self.jobs.shaders.get(n).is_some_and(|s| range.contains(&s.0))
    }

    /// Sets and sorts the buffers.
    pub fn set_buffers(&mut self, buffers: &[Buffer]) {
        self.longest = buffers.iter().map(|b| b.bytes).max().unwrap_or(0);
        let places = buffers.iter().zip(0u32..);
        self.buffers = places
            .map(|(b, i)| (b.va.0, b.va.0.saturating_add(b.bytes), i))
            .collect();
        self.buffers.sort_unstable();
    }

    /// Returns the uses of an address range.
    #[must_use]
    pub fn find_uses(&self, from: u64, to: u64) -> Vec<PageUse> {
        let mut out = Vec::new();
        let named = |list: &[(u64, u32)]| {
            let a = list.partition_point(|h| h.0 < from);
            let b = list.partition_point(|h| h.0 < to);
            let part = &list[a.min(b)..b];
            let mut jobs: Vec<u32> = part.iter().take(NAMED).map(|h| h.1).collect();
            jobs.dedup();
            (jobs, part.len())
        };
        let (jobs, n) = named(&self.jobs.heads);
        if n > 0 {
            out.push(PageUse::Heads(jobs, n));
        }
        let (jobs, n) = named(&self.jobs.shaders);
        if n > 0 {
            out.push(PageUse::Shaders(jobs, n));
        }
        let first = self
            .buffers
            .partition_point(|b| b.0 < from.saturating_sub(self.longest));
        let last = self.buffers.partition_point(|b| b.0 < to);
        let reach = self.buffers[first.min(last)..last].iter().filter(|b| b.1 > from);
        out.extend(reach.take(NAMED).map(|b| PageUse::Buffer(b.2)));
        out
    }
}

/// Returns the uses of the page of an address, including page tables. The list is empty if they are unknown.
#[must_use]
pub fn find_page_uses(
    recording: &Recording,
    uses: &PageUsage,
    spaces: &[SpaceFact],
    space: u32,
    va: u64,
    event: u64,
) -> Vec<PageUse> {
    let page = va & !4095;
    let mut out = Vec::new();
    let at = lookup::memory_at(recording, space, event).and_then(|m| m.physical_address(GpuVa(page)));
    if let Some(frame) = at.map(|a| a.frame()) {
        for s in spaces {
            out.extend(s.marks.tables_in(frame).iter().take(NAMED).map(|t| PageUse::Table {
                level: t.level,
                va: t.va,
            }));
        }
    }
    out.extend(uses.find_uses(page, page.saturating_add(4096)));
    out
}

/// Describes a use.
#[must_use]
pub fn describe_use(recording: &Recording, used: &PageUse) -> String {
    let jobs = |list: &[u32], n: usize, what: &str| {
        let named: Vec<String> = list.iter().map(|j| format!("job {j}")).collect();
        let more = if n > list.len() {
            format!(" and {} more", n - list.len())
        } else {
            String::new()
        };
        format!("{what} of {}{more}", named.join(", "))
    };
    match used {
        PageUse::Table { level, va } => format!("level {level} page table of {va:#x}"),
        PageUse::Heads(list, n) => jobs(list, *n, if *n == 1 { "header" } else { "headers" }),
        PageUse::Shaders(list, n) => jobs(list, *n, "shader code"),
        PageUse::Buffer(i) => recording
            .metadata
            .buffers
            .get(*i as usize)
            .map_or_else(String::new, |b| match b.role {
                BufferRole::Shared => b.name.clone(),
                r if r.name() == b.name => b.name.clone(),
                r => format!("{} {}", r.name(), b.name),
            }),
    }
}

/// Describes several uses on one line; empty if there are none.
#[must_use]
pub fn describe_uses(recording: &Recording, list: &[PageUse]) -> String {
    let parts: Vec<String> = list.iter().map(|u| describe_use(recording, u)).collect();
    parts.join(" · ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace_core::recording::ElementType;

    #[test]
    fn page_usage_follows_page_content() {
        let buffer = |va: u64, bytes: u64| Buffer {
            name: format!("b{va:x}"),
            role: BufferRole::Input,
            address_space: 0,
            va: GpuVa(va),
            bytes,
            element: ElementType::F32,
        };
        let mut uses = PageUsage::default();
        uses.set_buffers(&[buffer(0x1000, 0x5000), buffer(0x9000, 16)]);
        let empty = Arc::default();
        uses.set_jobs(JobAddresses::new(
            [(0x9140, 1, &empty), (0x9100, 0, &empty)].into_iter(),
        ));
        assert_eq!(uses.find_uses(0x5000, 0x6000), [PageUse::Buffer(0)]);
        assert_eq!(uses.find_uses(0x6000, 0x7000), []);
        assert_eq!(
            uses.find_uses(0x9000, 0xa000),
            [PageUse::Heads(vec![0, 1], 2), PageUse::Buffer(1)]
        );
    }
}
