//! Tests of headers, payloads and chains: hand-made, property-based, on Mesa's dumps and on the published recordings.

mod recorded;

use super::*;
use crate::families::{ChainEnd, Dispatch};
use crate::memory::GpuMemory;
use crate::mmu::{self, PhysMemory};
use crate::recording::{MmuFormat, Page};
use crate::registers::RegisterMap;
use crate::{GpuVa, PhysAddr};
use proptest::prelude::*;
use std::collections::{BTreeMap, HashMap};

/// Ranges of GPU memory with their bytes.
#[derive(Default)]
struct Ranges(BTreeMap<u64, Vec<u8>>);

impl GpuMemory for Ranges {
    fn read(&self, va: GpuVa, out: &mut [u8]) -> bool {
        let Some((start, bytes)) = self.0.range(..=va.get()).next_back() else {
            return false;
        };
        let at = (va.get() - start) as usize;
        let Some(from) = at.checked_add(out.len()).and_then(|end| bytes.get(at..end)) else {
            return false;
        };
        out.copy_from_slice(from);
        true
    }
}

fn header(job_type: u8, index: u16, next: u64) -> JobHeader {
    JobHeader {
        exception_status: 0,
        first_incomplete_task: 0,
        fault_pointer: GpuVa::ZERO,
        is_64bit: true,
        job_type,
        barrier: true,
        switches: 0,
        index,
        dep1: 0,
        dep2: 0,
        next: GpuVa::new(next),
        reserved: 0,
    }
}

#[test]
fn recorded_words_decode_as_a_job_header() {
    let mut bytes = [0; HEADER_BYTES];
    bytes[0] = 1;
    bytes[16..20].copy_from_slice(&0x4001_0109u32.to_le_bytes());
    bytes[24..].copy_from_slice(&0xffff_b8f5_b040u64.to_le_bytes());
    let h = JobHeader::decode(&bytes).unwrap();
    assert_eq!(h.kind(), Some(JobType::Compute));
    assert_eq!(
        (h.index, h.barrier, h.is_64bit, h.next),
        (0x4001, true, true, GpuVa::new(0xffff_b8f5_b040))
    );
    assert_eq!(exception_name(h.exception_code()), "DONE");
    assert_eq!(h.check_soundness(), Soundness::Sound);
    assert_eq!(h.encode(), bytes);
}

#[test]
fn invalid_job_headers_are_refused_with_a_reason() {
    let text = b"#include <linux/module.h>\n#defin";
    assert!(matches!(JobHeader::decode(text), Err(HeaderError::Text { text }) if text.starts_with("#include")));
    assert!(matches!(
        JobHeader::read(text).check_soundness(),
        Soundness::Doubtful(_)
    ));
    assert_eq!(
        JobHeader::decode(&[0; 32]),
        Err(HeaderError::UnknownType { job_type: 0 })
    );
    let mut h = header(4, 1, 0);
    h.reserved = 0x400;
    assert_eq!(
        JobHeader::decode(&h.encode()),
        Err(HeaderError::ReservedBits { bits: 0x400 })
    );
    for next in [0x1010, 1 << 48] {
        let bytes = header(4, 1, next).encode();
        assert_eq!(
            JobHeader::decode(&bytes),
            Err(HeaderError::BadNext { next: GpuVa::new(next) })
        );
    }
    assert_eq!(
        JobHeader::decode(&header(11, 1, 0).encode()),
        Err(HeaderError::UnknownType { job_type: 11 })
    );
    let is_doubtful = |change: fn(&mut JobHeader)| {
        let mut h = header(4, 1, 0);
        change(&mut h);
        matches!(
            JobHeader::decode(&h.encode()).unwrap().check_soundness(),
            Soundness::Doubtful(_)
        )
    };
    assert!(is_doubtful(|h| h.exception_status = 0x3f));
    assert!(is_doubtful(|h| h.exception_status = 0xabcd_0001));
    assert!(is_doubtful(|h| h.fault_pointer = GpuVa::new(1 << 60)));
    assert!(is_doubtful(|h| h.dep1 = 1));
    assert!(!is_doubtful(|h| h.exception_status = 0x2c1));
}

#[test]
fn exceptions_have_names() {
    for (code, name) in [
        (0, "none"),
        (1, "DONE"),
        (0x42, "JOB_READ_FAULT"),
        (0xc3, "TRANSLATION_FAULT level 3"),
    ] {
        assert_eq!(exception_name(code), name);
    }
    assert_eq!(exception_name(0x3f), "unknown");
}

#[test]
fn payloads_of_simple_jobs_are_read() {
    let mut mem = Ranges::default();
    let write = WriteValue {
        address: GpuVa::new(0x8000),
        kind: WriteKind::Immediate { bytes: 4 },
        value: 0x1234_5678,
    };
    let mut job_bytes = header(2, 1, 0x2000).encode().to_vec();
    job_bytes.extend(write.encode());
    mem.0.insert(0x1000, job_bytes);
    let flush = CacheFlush {
        clean_l2: true,
        invalidate_shader_other: true,
        clean_tiler: true,
        ..CacheFlush::default()
    };
    let mut job_bytes = header(3, 2, 0x3000).encode().to_vec();
    let (a, b) = flush.pack();
    job_bytes.extend(a.to_le_bytes());
    job_bytes.extend(b.to_le_bytes());
    mem.0.insert(0x2000, job_bytes);
    mem.0.insert(0x3000, header(1, 3, 0).encode().to_vec());
    let c = read_chain(&mem, GpuVa::new(0x1000));
    assert_eq!(c.end, ChainEnd::End);
    let payloads: Vec<Payload> = c.jobs.iter().map(|j| j.payload).collect();
    assert_eq!(
        payloads,
        [Payload::WriteValue(write), Payload::CacheFlush(flush), Payload::None]
    );
    assert!(
        c.jobs
            .iter()
            .all(|j| j.is_decoded() && j.dispatch.is_none() && j.shader_va.is_none())
    );
}

/// The data files and the code read payloads the same way.
#[test]
fn the_register_files_agree_with_the_decoder() {
    let map = RegisterMap::by_name("mali-jm").unwrap();
    let write = WriteValue {
        address: GpuVa::new(0xffff_8000),
        kind: WriteKind::Timestamp,
        value: u64::MAX,
    };
    let d = map.layout("write-value").unwrap().decode_bytes(&write.encode());
    assert_eq!(
        (d.value("address"), d.value("value")),
        (Some(0xffff_8000), Some(u64::MAX))
    );
    assert_eq!(d.text("type"), Some("system timestamp"));
    let layout = map.layout("cache-flush").unwrap();
    for f in layout.fields.iter() {
        let raw = f.insert(0, 1);
        let flush = CacheFlush::unpack(raw as u32, (raw >> 32) as u32);
        let (a, b) = flush.pack();
        assert_eq!(u64::from(a) | u64::from(b) << 32, raw, "{}", f.name);
    }
    let dispatch = Dispatch {
        workgroups: [4, 12, 1],
        size: [16, 4, 1],
    };
    let (sizes, shifts) = dispatch.pack(6).unwrap();
    assert_eq!(
        (sizes, shifts),
        (0xbff, 0x6308_18c4),
        "the words differ from those of Mesa"
    );
    let d = map
        .layout("compute-invocation")
        .unwrap()
        .decode(u64::from(sizes) | u64::from(shifts) << 32);
    assert_eq!(
        (d.value("size_y_shift"), d.value("size_z_shift"), d.value("group_split")),
        (Some(4), Some(6), Some(6))
    );
    for raw in 1..=7 {
        assert_eq!(WriteKind::from_raw(raw).raw(), raw);
    }
    for raw in 1..=10u8 {
        let name = map.enum_name("job_type", u64::from(raw));
        assert_eq!(JobType::from_raw(raw).map(JobType::name), name);
    }
    let h = JobHeader {
        switches: 0xda00,
        fault_pointer: GpuVa::new(0x1234),
        dep1: 7,
        dep2: 9,
        ..header(4, 5, 0x40)
    };
    let d = map.layout("job-header").unwrap().decode_bytes(&h.encode());
    for (field, value) in [
        ("type", 4),
        ("index", 5),
        ("dependency_1", 7),
        ("dependency_2", 9),
        ("next", 0x40),
        ("fault_pointer", 0x1234),
        ("invalidate_cache", 1),
        ("relax_dependency_2", 1),
    ] {
        assert_eq!(d.value(field), Some(value), "{field}");
    }
    assert!(d.unknown.iter().all(|u| u.value == 0));
}

#[test]
fn chain_reader_stops_at_loops_and_invalid_links() {
    let mut mem = Ranges::default();
    let mut put = |va: u64, h: JobHeader| mem.0.insert(va, h.encode().to_vec());
    put(0x1000, header(1, 1, 0x2000));
    put(0x2000, header(1, 2, 0x1000));
    put(0x3000, header(1, 1, 0x9000));
    put(0x4000, header(1, 1, 0x5000));
    put(0x5000, header(77, 2, 0x1000));
    let c = |head| read_chain(&mem, GpuVa::new(head));
    assert_eq!(
        (c(0x1000).jobs.len(), c(0x1000).end),
        (2, ChainEnd::Loop(GpuVa::new(0x1000)))
    );
    assert_eq!(
        (c(0x3000).jobs.len(), c(0x3000).end),
        (2, ChainEnd::Unreadable(GpuVa::new(0x9000)))
    );
    assert_eq!(
        (c(0x4000).jobs.len(), c(0x4000).end),
        (2, ChainEnd::Undecoded(GpuVa::new(0x5000)))
    );
    assert_eq!(c(0).end, ChainEnd::Unreadable(GpuVa::ZERO));
    assert!(!c(0x3000).jobs[1].is_decoded());
}

/// A null job every 64 bytes, each of which links to the next.
struct Endless;

impl GpuMemory for Endless {
    fn read(&self, va: GpuVa, out: &mut [u8]) -> bool {
        let bytes = header(1, 1, va.get() + 64).encode();
        out.copy_from_slice(&bytes[..out.len()]);
        true
    }
}

#[test]
fn a_chain_without_end_is_bounded() {
    let c = read_chain(&Endless, GpuVa::new(0x1000));
    assert_eq!((c.jobs.len(), c.end), (MAX_JOBS, ChainEnd::Limit));
}

proptest! {
    #[test]
    fn headers_encode_and_decode(words in any::<[u32; 8]>(), job_type in 1u8..=10) {
        let mut bytes = [0; HEADER_BYTES];
        for (to, w) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(words) {
            *to = w.to_le_bytes();
        }
        bytes[16] = job_type << 1 | 1;
        let h = JobHeader::read(&bytes);
        prop_assert_eq!(h.encode(), bytes);
        // Every rejection has a valid reason.
        match JobHeader::decode(&bytes) {
            Ok(d) => prop_assert_eq!(d, h),
            Err(HeaderError::ReservedBits { bits }) => prop_assert!(bits != 0),
            Err(HeaderError::BadNext { next }) => prop_assert!(next.get() & 63 != 0 || next.get() >> 48 != 0),
            Err(HeaderError::Text { .. }) => {}
            Err(e) => prop_assert!(false, "{e}"),
        }
    }

    #[test]
    fn dispatches_pack_and_unpack(
        size in [1u32..100, 1u32..20, 1u32..10],
        workgroups in [1u32..200, 1u32..60, 1u32..20],
        split in 0u32..16,
    ) {
        let d = Dispatch { workgroups, size };
        if let Some((sizes, shifts)) = d.pack(split) {
            prop_assert_eq!(Dispatch::unpack(sizes, shifts), d);
            prop_assert_eq!(shifts >> 28, split);
        } else {
            let bits: u32 = size.iter().chain(&workgroups).map(|n| 32 - (n - 1).leading_zeros()).sum();
            prop_assert!(bits > 31);
        }
    }

    #[test]
    fn arbitrary_dispatch_words_unpack(sizes in any::<u32>(), shifts in any::<u32>()) {
        let d = Dispatch::unpack(sizes, shifts);
        prop_assert!(d.size.iter().chain(&d.workgroups).all(|n| *n >= 1));
        prop_assert!(d.invocations() >= 1);
    }

    /// Any memory gives a chain that ends.
    #[test]
    fn chain_reader_ends_on_arbitrary_memory(bytes in prop::collection::vec(any::<u8>(), 0..2048), jobs in prop::collection::vec((0u64..30, 1u8..=10, 0u64..32), 0..20)) {
        let mut bytes = bytes;
        for (at, job_type, next) in jobs {
            let h = header(job_type, 1, next * 64).encode();
            if let Some(to) = bytes.get_mut(at as usize * 64..at as usize * 64 + 32) {
                to.copy_from_slice(&h);
            }
        }
        let mut mem = Ranges::default();
        mem.0.insert(0, bytes);
        let c = read_chain(&mem, GpuVa::ZERO);
        prop_assert!(c.jobs.len() <= 33);
        prop_assert!(c.end != ChainEnd::Limit);
    }
}

/// A chain can also be read through GPU memory made of tables and pages, as in the simulator.
#[test]
fn a_chain_can_be_read_through_page_tables() {
    struct SparseMemory(HashMap<u64, Box<Page>>);
    impl PhysMemory for SparseMemory {
        fn read_u64(&self, at: PhysAddr) -> Option<u64> {
            let p = self.0.get(&at.frame())?;
            Some(u64::from_le_bytes(
                p[at.in_page()..at.in_page() + 8].try_into().unwrap(),
            ))
        }
    }
    impl GpuMemory for SparseMemory {
        fn read(&self, va: GpuVa, out: &mut [u8]) -> bool {
            let f = MmuFormat::MaliLpae;
            let Ok(leaf) = mmu::translate(f, PhysAddr::new(0x1000), va, self) else {
                return false;
            };
            let pa = leaf.target(va).unwrap();
            let page = &self.0[&pa.frame()];
            out.copy_from_slice(&page[pa.in_page()..pa.in_page() + out.len()]);
            true
        }
    }
    let f = MmuFormat::MaliLpae;
    let mut memory = SparseMemory(HashMap::new());
    let mut put = |frame: u64, at: usize, bytes: &[u8]| {
        let page = memory.0.entry(frame).or_insert_with(|| Box::new([0; 4096]));
        page[at..at + bytes.len()].copy_from_slice(bytes);
    };
    for level in 0..3u64 {
        put(
            1 + level,
            0,
            &mmu::encode_table(f, PhysAddr::new((2 + level) << 12)).to_le_bytes(),
        );
    }
    put(
        4,
        8,
        &mmu::encode_leaf(f, PhysAddr::new(0x9000), mmu::Rights::RW, 0).to_le_bytes(),
    );
    put(9, 0x40, &header(1, 1, 0x1080).encode());
    put(9, 0x80, &header(1, 2, 0).encode());
    let c = read_chain(&memory, GpuVa::new(0x1040));
    assert_eq!((c.jobs.len(), c.end), (2, ChainEnd::End));
    assert_eq!(
        read_chain(&memory, GpuVa::new(0x2000)).end,
        ChainEnd::Unreadable(GpuVa::new(0x2000))
    );
}
