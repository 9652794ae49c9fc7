//! Rows of API traces (CUDA): launches, copies, fills, orders of streams, allocations, other calls.
//!
//! The order of events is the host's: a call is where it returned. Streams and the [`OrderRow`]s between them give the
//! order of work on the device.

mod annotation_calls;
mod content;
mod event;
mod metadata;
mod rows;

pub use annotation_calls::{
    BufferName, BufferShape, MAX_NAME_BYTES, NAME_BUFFER_CALL, NOTE_CALL, NameError, RANGE_BEGIN_CALL, RANGE_END_CALL,
    check_buffer_name, check_range_name, is_annotation,
};
pub use event::CallEvent;
pub use metadata::{
    Api, ApiTraceMetadata, CallDevice, CallFunction, CallGlobal, CallModule, CallProcess, CallStream, CallWindow,
    CodeKind,
};
pub use rows::{
    AllocationKind, AllocationRow, CALL_ASYNC, CALL_CAPTURED, CALL_OF_GRAPH, CallRow, CopyKind, CopyRow, FillRow,
    LaunchRow, NO_CONTENT, OrderKind, OrderRow,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::{EventsBuilder, MemoryBuilder, Recording, TraceKind};
    use crate::{GpuVa, PAGE_SIZE};

    #[test]
    fn row_sizes_match_the_file_format() {
        assert_eq!(size_of::<LaunchRow>(), 72);
        assert_eq!(size_of::<CopyRow>(), 80);
        assert_eq!(size_of::<FillRow>(), 64);
        assert_eq!(size_of::<OrderRow>(), 24);
        assert_eq!(size_of::<AllocationRow>(), 32);
        assert_eq!(size_of::<CallRow>(), 32);
    }

    #[test]
    fn copy_content_is_assembled_from_its_pages() {
        let mut pages = MemoryBuilder::new();
        let mut events = EventsBuilder::new();
        // 5000 bytes that start 100 bytes before the end of a page: three pages.
        let bytes: Vec<u8> = (0..5000u32).map(|n| (n * 7) as u8).collect();
        let phase = PAGE_SIZE - 100;
        let mut padded = vec![0; phase];
        padded.extend_from_slice(&bytes);
        padded.resize(3 * PAGE_SIZE, 0);
        let ids: Vec<u32> = padded
            .chunks_exact(PAGE_SIZE)
            .map(|p| pages.add_page(p.try_into().unwrap()).0)
            .collect();
        let pages_at = events.call_pages(&ids);
        let row = CopyRow {
            to: 0x1539_4000_0000 + phase as u64,
            bytes: 2500,
            rows: 2,
            kind: CopyKind::HostToDevice as u32,
            pages_at,
            ..Default::default()
        };
        events.copy(5, 1, row);
        let mut r = Recording {
            events: events.finish(),
            memory: pages.finish(),
            ..Default::default()
        };
        assert_eq!(row.pages(), Some(3));
        assert_eq!(r.copy_content(&row).unwrap(), bytes);
        // Each part equals its bytes of the complete content: within a page, across pages, at both ends, and empty.
        for (from, to) in [
            (0, 1),
            (99, 101),
            (100, 4196),
            (4195, 5000),
            (0, 5000),
            (17, 17),
            (5000, 5000),
        ] {
            let mut part = vec![0xee; to - from];
            assert!(r.read_copy_content(&row, from as u64, &mut part), "{from}..{to}");
            assert_eq!(part, bytes[from..to], "{from}..{to}");
        }
        assert!(r.has_copy_content(&row));
        let mut two = [0; 2];
        assert!(
            !r.read_copy_content(&row, 4999, &mut two),
            "a read after the end succeeds"
        );
        assert!(
            !r.read_copy_content(&row, u64::MAX, &mut two),
            "a read at the largest offset succeeds"
        );
        assert_eq!(r.events.call(0), Some(CallEvent::Copy(row)));
        // A row that references more than the file contains has no content.
        for invalid in [
            CopyRow { bytes: 1 << 40, ..row },
            CopyRow { rows: u64::MAX, ..row },
            CopyRow { pages_at: 1, ..row },
            CopyRow {
                pages_at: NO_CONTENT,
                ..row
            },
        ] {
            assert_eq!(r.copy_content(&invalid), None, "{invalid:?}");
            assert!(
                !r.has_copy_content(&invalid) && !r.read_copy_content(&invalid, 0, &mut two),
                "{invalid:?}"
            );
        }
        let module = CallModule {
            bytes: 5000,
            pages: vec![[ids[1], 1], [ids[2], 1]],
            ..Default::default()
        };
        assert_eq!(r.module_code(&module).unwrap(), padded[PAGE_SIZE..PAGE_SIZE + 5000]);
        for pages in [
            vec![],
            vec![[1, 1]],
            vec![[1, u32::MAX]],
            vec![[u32::MAX, 2]],
            vec![[77, 2]],
        ] {
            let invalid = CallModule {
                pages,
                ..module.clone()
            };
            assert_eq!(r.module_code(&invalid), None);
        }
        assert_eq!(r.api(), None);
        r.metadata.kind = TraceKind::Api(serde_json::from_str(r#"{"api":"cuda","future":1}"#).unwrap());
        assert_eq!(r.api().unwrap().api, Api::Cuda);
    }

    #[test]
    fn call_description_is_readable() {
        let metadata = ApiTraceMetadata {
            functions: vec![CallFunction {
                name: "_Z3addPf".into(),
                demangled: "add(float*)".into(),
                ..Default::default()
            }],
            streams: vec![CallStream {
                name: "default stream".into(),
                ..Default::default()
            }],
            ..Default::default()
        };
        let launch = CallEvent::Launch(LaunchRow {
            grid: [4, 1, 1],
            block: [256, 1, 1],
            shared: 64,
            flags: CALL_OF_GRAPH,
            result: 700,
            ..Default::default()
        });
        assert_eq!(
            launch.describe(Some(&metadata)),
            "add(float*), grid 4×1×1, block 256×1×1, 64 bytes of shared memory, default stream, in a graph, failed with 700"
        );
        assert!(launch.describe(None).starts_with("function 0, grid 4×1×1"));
        let fill = CallEvent::Fill(FillRow {
            to: GpuVa::new(0x1000),
            elements: 3,
            rows: 2,
            element: 4,
            ..Default::default()
        });
        assert_eq!(fill.describe(None), "24 bytes at 0x1000 set to 0x0, stream 0");
    }
}
