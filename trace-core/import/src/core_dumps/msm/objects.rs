//! Rings and buffers of a dump: their lines, and their place in memory.

use crate::core_dumps::dump_contents::{DumpContents, cut_text, parse_number};
use crate::core_dumps::dumped_memory::DumpedRange;
use trace_core::GpuVa;
use trace_core::finding::FindingKind;
use trace_core::mmu::VA_BITS;
use trace_core::recording::BufferRole;

/// Index of the address space of the GPU.
pub(super) const GPU_SPACE: u32 = 0;
/// Index of the address space of the kernel's own buffers: GPUs from the sixth generation on have them at addresses of 49
/// bits, which other page tables translate.
pub(super) const KERNEL_SPACE: u32 = 1;
/// Index of the address space of the management unit.
pub(super) const GMU_SPACE: u32 = 2;

/// Returns the address space of a GPU address, and the address in it.
pub(super) fn place(va: GpuVa) -> (u32, GpuVa) {
    match va.get() >> VA_BITS {
        1 => (KERNEL_SPACE, GpuVa::new(va.get() & ((1 << VA_BITS) - 1))),
        _ => (GPU_SPACE, va),
    }
}

/// A ring or a buffer.
#[derive(Default)]
pub(super) struct DumpedObject {
    /// Line of its first key.
    pub line: u64,
    pub iova: Option<u64>,
    pub bytes: Option<u64>,
    pub flags: Option<u64>,
    pub name: String,
    /// Numbers of a ring.
    pub id: Option<u64>,
    pub last_fence: Option<u64>,
    pub retired_fence: Option<u64>,
    pub rptr: Option<u64>,
    pub wptr: Option<u64>,
    /// The content without the zeros at its end.
    pub data: Option<Vec<u8>>,
    /// Whether the content ends before the zeros.
    pub is_cut: bool,
}

impl DumpedObject {
    /// Handles a line `key: value`. Returns whether the key is known and its value is of its form.
    pub(super) fn take(&mut self, item: &str) -> bool {
        let Some((key, value)) = item.split_once(':') else {
            return false;
        };
        let value = value.trim();
        if key == "name" {
            self.name = cut_text(value);
            return true;
        }
        let field = match key {
            "iova" => &mut self.iova,
            "size" => &mut self.bytes,
            "flags" => &mut self.flags,
            "id" => &mut self.id,
            "last-fence" => &mut self.last_fence,
            "retired-fence" => &mut self.retired_fence,
            "rptr" => &mut self.rptr,
            "wptr" => &mut self.wptr,
            _ => return false,
        };
        // Old kernels print fences as signed numbers.
        let signed = || value.parse::<i32>().ok().map(|n| u64::from(n as u32));
        *field = parse_number(value).or_else(signed);
        field.is_some()
    }

    /// Whether nothing of it was read.
    pub(super) fn is_empty(&self) -> bool {
        self.iova.is_none() && self.bytes.is_none() && self.id.is_none() && self.data.is_none()
    }

    /// Returns the name of a buffer.
    pub(super) fn buffer_name(&self) -> String {
        match self.name.is_empty() {
            false => self.name.clone(),
            true => format!("buffer {:#x}", self.iova.unwrap_or_default()),
        }
    }

    /// Stores the content in memory. Returns its address and content, if the dump holds it.
    pub(super) fn store(self, space: u32, name: &str, contents: &mut DumpContents) -> Option<(GpuVa, Vec<u8>)> {
        let Some(iova) = self.iova else {
            let message = format!("{name} has no address (`iova:` is missing); it is not used");
            contents.note(FindingKind::NotUsed, self.line, message);
            return None;
        };
        let va = GpuVa::new(iova);
        let bytes = self.bytes.unwrap_or_else(|| {
            let message = format!("{name} has no size (`size:` is missing); its data is used");
            contents.note(FindingKind::Assumed, self.line, message);
            self.data.as_ref().map_or(0, |d| d.len() as u64)
        });
        let (space, placed) = if space == GPU_SPACE { place(va) } else { (space, va) };
        let range = DumpedRange {
            space,
            name: name.to_owned(),
            role: BufferRole::Shared,
            va: placed,
            bytes,
            content: self.data.as_deref(),
            has_zero_end: !self.is_cut,
            flags: self.flags.unwrap_or(0),
            page_addresses: &[],
        };
        contents.range(&format!("line {}", self.line), range);
        Some((va, self.data?))
    }
}
