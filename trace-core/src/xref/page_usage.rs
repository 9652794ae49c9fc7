//! The recorded use of a page: page table, job header, shader code, buffer, or unknown.

use super::data::XrefData;
use super::reference::TableLocation;
use crate::GpuVa;
use crate::memory::GpuMemoryView;
use crate::recording::{Buffer, Recording};

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
    heads: Vec<(GpuVa, u32)>,
    /// Shader code: address, job.
    shaders: Vec<(GpuVa, u32)>,
}

impl JobAddresses {
    /// Sorts the addresses of job headers and of shader code, each with its job.
    #[must_use]
    pub fn new(mut heads: Vec<(GpuVa, u32)>, mut shaders: Vec<(GpuVa, u32)>) -> Self {
        for list in [&mut heads, &mut shaders] {
            list.sort_unstable();
            list.dedup();
        }
        Self { heads, shaders }
    }
}

/// A use of a page or range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageUse {
    /// A page table.
    Table(TableLocation),
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

    /// Sets and sorts the buffers.
    pub fn set_buffers(&mut self, buffers: &[Buffer]) {
        self.longest = buffers.iter().map(|b| b.bytes).max().unwrap_or(0);
        let places = buffers.iter().zip(0u32..);
        self.buffers = places
            .map(|(b, i)| (b.va.get(), b.va.get().saturating_add(b.bytes), i))
            .collect();
        self.buffers.sort_unstable();
    }

    /// Returns the uses of an address range.
    #[must_use]
    pub fn find_uses(&self, from: GpuVa, to: GpuVa) -> Vec<PageUse> {
        let mut out = Vec::new();
        let named = |list: &[(GpuVa, u32)]| {
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
            .partition_point(|b| b.0 < from.saturating_sub(self.longest).get());
        let last = self.buffers.partition_point(|b| b.0 < to.get());
        let reach = self.buffers[first.min(last)..last].iter().filter(|b| b.1 > from.get());
        out.extend(reach.take(NAMED).map(|b| PageUse::Buffer(b.2)));
        out
    }
}

/// Returns the uses of the page of an address, including page tables. The list is empty if they are unknown.
#[must_use]
pub fn find_page_uses(
    recording: &Recording,
    data: &impl XrefData,
    uses: &PageUsage,
    (space, va): (u32, GpuVa),
    event: u64,
) -> Vec<PageUse> {
    let page = va.align_down(4096);
    let memory = GpuMemoryView::at(recording, space, event);
    let tables = memory
        .and_then(|m| m.physical_address(page))
        .map_or_else(Vec::new, |at| data.tables_in(at.frame()));
    let mut out: Vec<PageUse> = tables.into_iter().take(NAMED).map(PageUse::Table).collect();
    out.extend(uses.find_uses(page, page.saturating_add(4096)));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::{BufferRole, ElementType};

    #[test]
    fn page_usage_follows_page_content() {
        let buffer = |va: u64, bytes: u64| Buffer {
            name: format!("b{va:x}"),
            role: BufferRole::Input,
            address_space: 0,
            va: GpuVa::new(va),
            bytes,
            element: ElementType::F32,
        };
        let mut uses = PageUsage::default();
        uses.set_buffers(&[buffer(0x1000, 0x5000), buffer(0x9000, 16)]);
        uses.set_jobs(JobAddresses::new(
            vec![(GpuVa::new(0x9140), 1), (GpuVa::new(0x9100), 0)],
            Vec::new(),
        ));
        assert_eq!(
            uses.find_uses(GpuVa::new(0x5000), GpuVa::new(0x6000)),
            [PageUse::Buffer(0)]
        );
        assert_eq!(uses.find_uses(GpuVa::new(0x6000), GpuVa::new(0x7000)), []);
        assert_eq!(
            uses.find_uses(GpuVa::new(0x9000), GpuVa::new(0xa000)),
            [PageUse::Heads(vec![0, 1], 2), PageUse::Buffer(1)]
        );
    }
}
