//! Tests of the properties of each mapping.

use super::super::*;
use crate::{GpuVa, PhysAddr};

#[test]
fn mappings_report_their_anomalies() {
    let leaf = |va, pa, bytes, rights| Leaf {
        va: GpuVa::new(va),
        pa: PhysAddr::new(pa),
        bytes,
        rights,
        attr_index: 0,
        raw: 0,
        level: 3,
        table: 3,
        elsewhere: None,
    };
    let mapping = |va, pages, rights| Mapping {
        va: GpuVa::new(va),
        pages,
        rights,
        attr_index: 0,
        contiguous_pa: None,
        elsewhere: None,
    };
    let wx = Rights {
        read: true,
        write: true,
        execute: true,
    };
    // Two pages at 0x1000; the second of them again at 0x8000 and at 0x9000.
    let scan = Scan {
        leaves: vec![
            leaf(0x1000, 0xa000, 4096, Rights::RW),
            leaf(0x2000, 0xb000, 4096, Rights::RW),
            leaf(0x8000, 0xb000, 4096, wx),
            leaf(0x9000, 0xb000, 4096, Rights::RX),
        ],
        mappings: vec![
            mapping(0x1000, 2, Rights::RW),
            mapping(0x8000, 1, wx),
            mapping(0x9000, 1, Rights::RX),
        ],
        ..Scan::default()
    };
    let tallies = tally(&scan, &[0xa..0xb, 0xf0..0xf1]);
    let short: Vec<_> = tallies
        .iter()
        .map(|t| (t.executable_and_writable, t.twice, t.without_content))
        .collect();
    assert_eq!(short, [(false, 1, 1), (true, 1, 1), (false, 1, 1)]);
    let alias = |va, also| Alias {
        va: GpuVa::new(va),
        pages: 1,
        alias_va: GpuVa::new(also),
        pa: PhysAddr::new(0xb000),
    };
    assert_eq!(tallies[0].aliases, [alias(0x2000, 0x8000)]);
    assert_eq!(tallies[1].aliases, [alias(0x8000, 0x2000), alias(0x8000, 0x9000)]);
    // A run that goes through two mappings is cut between them.
    let scan = Scan {
        leaves: vec![
            leaf(0x1000, 0xa000, 4096, Rights::RW),
            leaf(0x2000, 0xb000, 4096, Rights::RX),
            leaf(0x8000, 0xa000, 0x2000, Rights::RW),
        ],
        mappings: vec![
            mapping(0x1000, 1, Rights::RW),
            mapping(0x2000, 1, Rights::RX),
            mapping(0x8000, 2, Rights::RW),
        ],
        ..Scan::default()
    };
    let tallies = tally(&scan, &[]);
    let aliases: Vec<_> = tallies
        .iter()
        .flat_map(|t| &t.aliases)
        .map(|a| (a.va.get(), a.alias_va.get(), a.pages, a.pa.get()))
        .collect();
    assert_eq!(
        aliases,
        [
            (0x1000, 0x8000, 1, 0xa000),
            (0x2000, 0x9000, 1, 0xb000),
            (0x8000, 0x1000, 2, 0xa000)
        ]
    );
    assert_eq!(
        tallies.iter().map(|t| (t.twice, t.without_content)).collect::<Vec<_>>(),
        [(1, 1), (1, 1), (2, 2)]
    );
}
