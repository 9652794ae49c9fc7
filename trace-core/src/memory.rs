//! Memory by GPU address: reads, searches, typed views. A byte without content is distinguished from a zero.

mod element;
mod likely;
mod search;
#[cfg(test)]
mod tests;
mod view;

pub use element::{
    ElementError, bf16_to_f32, element_text, elements_text, f16_to_f32, f32_to_f16, f64_to_bf16, f64_to_f16,
    parse_element, parse_elements, parse_hex,
};
pub use likely::{MAX_SAMPLE_BYTES, likely_element};
pub use search::{Hit, MAX_HITS, MAX_MATCH_BYTES, Pattern, SearchError};
pub use view::{BufferBytes, ByteState, GpuMemory, GpuMemoryView, MAX_READ};
