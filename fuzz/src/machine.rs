//! Fuzz targets for what hardware reads: page tables, job chains, register maps, and the simulator with hostile memory.

use crate::input::Input;
use device_mali::{Budget, Model, SoftwareMali};
use register_maps::naming::{self, MapHeader, NameEntry, NamedField, NamedRegister};
use replay_core::Device;
use replay_engine::device::{Arena, RegisterTarget, Target, space};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use trace_core::families::ChainEnd;
use trace_core::families::Dispatch;
use trace_core::families::mali_jm::{self, HEADER_BYTES, JobHeader, Payload, WriteKind};
use trace_core::memory::GpuMemory;
use trace_core::mmu::{self, PhysMemory, Rights};
use trace_core::page_table_format::{MAX_INDEX_BITS, MAX_LEVELS, PageTableFormat, embedded_formats};
use trace_core::recording::{MmuFormat, Page, ZERO_PAGE};
use trace_core::registers::{AccessRule, FieldKind, Layout, RegisterMap, Role};
use trace_core::{GpuVa, PhysAddr, RegOffset};

/// Maximum number of frames that a page-table input fills, at least 1.
const FRAMES: u16 = 24;

/// Memory that lends whole tables if `lends` is set.
struct Tables {
    frames: BTreeMap<u64, Box<Page>>,
    lends: bool,
}

impl PhysMemory for Tables {
    fn read_u64(&self, at: PhysAddr) -> Option<u64> {
        let page = self.frames.get(&at.frame())?;
        let bytes = page.get(at.in_page()..at.in_page() + 8)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    }

    fn table(&self, frame: u64) -> Option<&Page> {
        if self.lends {
            self.frames.get(&frame).map(|p| &**p)
        } else {
            None
        }
    }
}

fn format(byte: u8) -> MmuFormat {
    if byte & 1 == 1 {
        MmuFormat::MaliLpae
    } else {
        MmuFormat::Aarch64_4k
    }
}

/// Returns a format of page tables: one that the program writes, or an embedded one.
fn table_format(byte: u8) -> MmuFormat {
    let chosen = usize::from(byte.saturating_sub(2));
    match byte {
        0 | 1 => format(byte),
        _ => embedded_formats()
            .nth(chosen % embedded_formats().count())
            .and_then(|embedded| MmuFormat::from_name(embedded.name))
            .unwrap_or(MmuFormat::Aarch64_4k),
    }
}

/// Fuzzes page tables. The input has one byte for the format, then root and address, then entries of 12 bytes: frame,
/// index, repeat count, entry. All kinds of lookup must agree.
pub fn page_tables(data: &[u8]) -> bool {
    let mut input = Input(data);
    let format = table_format(input.u8());
    let (root, va) = (PhysAddr::new(input.u64()), GpuVa::new(input.u64()));
    let mut mem = Tables {
        frames: BTreeMap::new(),
        lends: true,
    };
    while !input.is_empty() {
        let (frame, position, entry) = (input.u16(), input.u16(), input.u64());
        let page = mem
            .frames
            .entry(u64::from(frame % FRAMES) + 1)
            .or_insert_with(|| Box::new(ZERO_PAGE));
        // The upper bits of the index repeat an entry with increasing targets, so that few bytes make many leaves.
        let (index, repeat) = (usize::from(position & 511), u64::from(position >> 9));
        for i in 0..=repeat {
            let Some(to) = page.as_chunks_mut::<8>().0.get_mut(index + i as usize) else {
                break;
            };
            *to = entry.wrapping_add(i << 12).to_le_bytes();
        }
    }
    let scan = mmu::scan(format, root, &mem);
    for leaf in scan.leaves.iter().take(64) {
        let inside = GpuVa::new(leaf.va.get() + (va.get() & (leaf.bytes - 1)));
        let walked = mmu::walk(format, root, inside, &mem);
        assert_eq!(walked.result, mmu::translate(format, root, inside, &mem));
        match walked.result {
            Ok(found) => assert_eq!(found, *leaf),
            Err(e) => assert!(matches!(e, mmu::WalkFault::NoAccessFlag { .. }), "{e}"),
        }
        assert_eq!(leaf.target(inside).map(|p| p - leaf.pa), Some(inside - leaf.va));
    }
    let pages: u64 = scan.leaves.iter().map(|l| l.bytes / mmu::PAGE_BYTES).sum();
    let held = scan.mappings.iter().filter(|m| m.elsewhere.is_none());
    assert_eq!(held.map(|m| m.pages).sum::<u64>(), pages);
    assert!(
        scan.mappings.windows(2).all(|m| m[0].end() <= m[1].va),
        "mappings overlap"
    );
    let mappings = mmu::mappings(format, root, &mem);
    match scan.problems.first() {
        None => assert_eq!(mappings.as_ref(), Ok(&scan.mappings)),
        Some(first) => assert_eq!(mappings.as_ref().err(), Some(first)),
    }
    mem.lends = false;
    let slow = mmu::scan(format, root, &mem);
    assert_eq!((&slow.leaves, &slow.tables), (&scan.leaves, &scan.tables));
    assert_eq!((&slow.mappings, &slow.problems), (&scan.mappings, &scan.problems));
    let _ = mmu::walk(format, root, va, &mem);
    let mut some = 0;
    let _ = mmu::for_each_leaf(format, root, &mem, &mut |_| {
        some += 1;
        if some > 100 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    let _ = mmu::find_double_mappings(&scan.leaves);
    let _ = mmu::find_pages_without_content(&scan.leaves, &[0..4, 9..1 << 40], 100);
    !scan.leaves.is_empty()
}

/// GPU memory that starts at address 0 and is as long as the input.
struct FlatMemory<'a>(&'a [u8]);

impl GpuMemory for FlatMemory<'_> {
    fn read(&self, va: GpuVa, out: &mut [u8]) -> bool {
        let from = usize::try_from(va.get())
            .ok()
            .and_then(|at| self.0.get(at..))
            .unwrap_or_default();
        match from.get(..out.len()) {
            Some(bytes) => {
                out.copy_from_slice(bytes);
                true
            }
            None => false,
        }
    }
}

/// Fuzzes a job chain: the address of its first header (two bytes), then the memory.
pub fn job_chain(data: &[u8]) -> bool {
    let mut input = Input(data);
    let head = GpuVa::new(u64::from(input.u16()));
    let chain = mali_jm::read_chain(&FlatMemory(input.0), head);
    assert!(chain.jobs.len() <= mali_jm::MAX_JOBS);
    for job in &chain.jobs {
        let Ok(header) = &job.header else { continue };
        assert_eq!(JobHeader::decode(&header.encode()).as_ref(), Ok(header));
        let _ = header.check_soundness();
        if let Some(d) = &job.dispatch {
            packs(d);
        }
        if let Payload::WriteValue(w) = &job.payload {
            assert_eq!(WriteKind::from_raw(w.kind.raw()), w.kind);
            let _ = w.encode();
        }
    }
    if let Some(bytes) = input.0.first_chunk::<HEADER_BYTES>() {
        let h = JobHeader::read(bytes);
        assert_eq!(JobHeader::read(&h.encode()), h);
        let _ = h.check_soundness();
    }
    packs(&Dispatch::unpack(input.u32(), input.u32()));
    chain.end == ChainEnd::End
}

/// Checks that sizes that can be packed are the same after they are unpacked.
fn packs(d: &Dispatch) {
    if let Some((sizes, shifts)) = d.pack(3) {
        assert_eq!(Dispatch::unpack(sizes, shifts), *d);
    }
    let _ = d.invocations();
}

/// Fuzzes the description of a page-table format: it is read or refused, and its functions take any entry.
pub fn page_table_format(data: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(data) else {
        return false;
    };
    let Ok(format) = PageTableFormat::parse(text) else {
        return false;
    };
    assert!(usize::from(format.levels()) <= MAX_LEVELS);
    for raw in [0, 1, 3, 0x1003, u64::from(u32::MAX), 0xa5a5_5a5a_0102_0304, u64::MAX] {
        let _ = (format.rights(raw), format.has_access_flag(raw));
        for table in format.tables() {
            assert!(table.entries() <= 1 << MAX_INDEX_BITS);
            assert!(table.index(GpuVa::new(raw)) < table.entries());
            let _ = table.attribute(raw);
            for field in table.fields() {
                let _ = field.describe(raw);
            }
            for part in table.parts() {
                assert!(part.offset() + part.bytes() <= table.entry_bytes());
                if let Some((_, rule)) = part.find_rule(raw) {
                    let _ = (rule.address(raw), rule.other_bits(raw));
                }
            }
        }
        if let Some(low) = format.translated_bits(GpuVa::new(raw)) {
            assert_eq!(format.extend(low.get()), GpuVa::new(raw));
        }
    }
    true
}

/// Maximum number of registers that are visited: a few lines describe millions.
const MAX_VISITED: usize = 4096;

/// Fuzzes a register map file. A file without a `[map]` table is read together with the real map and its enumerations.
pub fn register_map(data: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(data) else {
        return false;
    };
    let head = include_str!("../../assets/registers/mali-jm/map.toml");
    let exceptions = include_str!("../../assets/registers/mali-jm/exceptions.toml");
    let map = if text.contains("[map]") {
        RegisterMap::parse(&[("fuzz.toml", text)])
    } else {
        RegisterMap::parse(&[("map.toml", head), ("exceptions.toml", exceptions), ("fuzz.toml", text)])
    };
    let Ok(map) = map else { return false };
    let values = [0, 1, 0x8000_0000, u64::from(u32::MAX), 0xa5a5_5a5a_0102_0304, u64::MAX];
    for register in map.registers().take(48) {
        assert!(u64::from(register.offset.get()) < map.window_bytes());
        assert_eq!(map.at(register.offset).map(|r| &r.name), Some(&register.name));
        assert_eq!(
            map.find_by_name(&register.name).map(|r| r.offset),
            Some(register.offset)
        );
        for value in values {
            let _ = register.describe(value);
        }
        decodes(&register.layout, &values);
        if let Some(wide) = register.wide.as_deref() {
            decodes(wide, &values);
        }
        accesses(&map, register.offset.get(), &values);
    }
    for (register, source) in map.screen().take(48) {
        assert_eq!(register.replay.role, Some(Role::Screen));
        for value in values {
            let _ = source.read(value);
        }
    }
    for layout in map.layouts().take(100) {
        decodes(layout, &values);
        assert!(map.layout(&layout.name).is_some());
    }
    for id in [0x60a0_0002, 0, u32::MAX] {
        let _ = map.gpu_name(id);
    }
    for range in map.memory().take(48) {
        assert!(map.memory_at(range.space, range.address).is_some());
    }
    if let Some(real) = RegisterMap::by_name("mali-jm") {
        over(&map, real);
        over(real, &map);
    }
    if text.contains("[map]") && map.register_count() <= MAX_VISITED as u64 {
        named(text, &map);
    }
    true
}

/// Checks a map over another: it keeps every register of the upper map, and no two registers share a byte.
fn over(upper: &RegisterMap, under: &RegisterMap) {
    let Ok(both) = upper.overlay(under) else { return };
    for r in upper.registers().take(MAX_VISITED) {
        assert_eq!(both.at(r.offset).map(|b| (&b.name, b.width)), Some((&r.name, r.width)));
    }
    let mut end = 0;
    for r in both.registers().take(MAX_VISITED) {
        assert!(r.offset >= RegOffset::new(end));
        end = r.end().get();
    }
    for l in upper.layouts() {
        assert_eq!(both.layouts().find(|b| b.name == l.name).map(|b| b.bits), Some(l.bits));
    }
}

/// Checks that a name added to the file is there, that the rest of the map stays, and that the old entry can be
/// restored.
fn named(text: &str, map: &RegisterMap) {
    const NAME: &str = "NAMED_BY_HAND";
    let first = map.registers().next();
    for offset in [0, 0x40, first.map_or(4, |r| r.offset.get())] {
        let width = map.at(RegOffset::new(offset)).map_or(4, |r| r.width);
        let field = NamedField {
            name: "mode".into(),
            lo: 0,
            hi: 1,
            kind: FieldKind::Enum(std::sync::Arc::new(vec![(0, "off".into()), (1, "on".into())].into())),
            doc: String::new(),
            say: String::new(),
        };
        let added = NameEntry::Register(NamedRegister {
            offset: RegOffset::new(offset),
            name: NAME.into(),
            access: AccessRule::ReadWrite,
            width,
            wide: false,
            doc: String::new(),
            fields: vec![field],
        });
        let Ok(written) = naming::set_entry(text, &MapHeader::default(), &added) else {
            continue;
        };
        let reparsed = RegisterMap::parse(&[("named", written.text.as_str())]);
        let reparsed = reparsed.as_ref().map(|m| {
            (
                m.at(RegOffset::new(offset)).map(|r| r.name.as_str()),
                m.layouts().count(),
            )
        });
        assert_eq!(reparsed, Ok((Some(NAME), map.layouts().count())));
        let (new, old) = (written.new.as_deref(), written.old.as_deref());
        let back = naming::replace_entry(&written.text, &MapHeader::default(), added.key(), new, old);
        let back = back.as_deref().map(|t| RegisterMap::parse(&[("back", t)]));
        let names = |m: &RegisterMap| m.registers().map(|r| r.name.clone()).collect::<Vec<_>>();
        assert!(matches!(&back, Ok(Ok(m)) if names(m) == names(map)), "{back:?}");
    }
}

/// Checks accesses of any width around an offset: each accessed byte belongs to one register.
fn accesses(map: &RegisterMap, offset: u32, values: &[u64]) {
    for width in [0, 1, 2, 4, 8, u8::MAX] {
        for offset in [
            offset.wrapping_sub(3),
            offset,
            offset.wrapping_add(1),
            offset.wrapping_add(7),
        ] {
            let mut at = 0;
            for part in map.covered_registers(RegOffset::new(offset), width) {
                assert!(part.at >= at && part.bytes > 0 && part.byte + part.bytes <= part.register.width);
                at = part.at + part.bytes;
                assert!(at <= width.min(8));
                assert_eq!(part.bits(u64::MAX), part.mask());
                assert!(!part.name().is_empty());
            }
            assert_eq!(map.name_of(RegOffset::new(offset), width).is_some(), at > 0);
            for value in values {
                assert_eq!(map.describe(RegOffset::new(offset), width, *value).is_some(), at > 0);
            }
        }
    }
}

fn decodes(layout: &Layout, values: &[u64]) {
    for value in values {
        let decoded = layout.decode(*value);
        assert_eq!(decoded.fields.len(), layout.fields.len());
        let _ = layout.describe(*value);
        let bytes = value.to_le_bytes().repeat(8);
        for n in [0, 1, 7, 8, 64] {
            let _ = layout.decode_bytes(bytes.get(..n).unwrap_or_default());
        }
        for field in layout.fields.iter().filter(|f| f.hi < 64) {
            assert_eq!(field.extract(field.insert(*value, u64::MAX)), field.extract(u64::MAX));
        }
    }
}

/// Fuzzes the simulator with steps of 12 bytes: an access, a word of memory, a wait or a pause. It must survive all
/// steps and stay inside its arena.
pub fn device_mali(data: &[u8]) -> bool {
    const BASE: u64 = 0x40_0000;
    const PAGES: u64 = 16;
    let mut input = Input(data);
    let mode = input.u8();
    let model = if mode & 1 == 0 { Model::G71 } else { Model::G52 };
    let mut device = SoftwareMali::with_arena(
        model,
        Arena {
            base: PhysAddr::new(BASE),
            pages: PAGES,
        },
    )
    .with_budget(Budget {
        wave: 500,
        job: 5_000,
        read: 100_000,
    });
    if mode & 2 != 0 {
        boot(&mut device, BASE, PAGES, format(mode >> 2));
    }
    let mut steps = 0;
    while !input.is_empty() && steps < 2_000 {
        steps += 1;
        let (op, small, at, value) = (input.u8(), input.u8(), u64::from(input.u16()), input.u64());
        let near = BASE + value % (PAGES * 4096) / 64 * 64;
        let register = at & 0x3ffc;
        let width = if small & 0x80 == 0 { 4 } else { small };
        let _ = match op % 8 {
            0 => device.read(space::REGISTERS, register, width).err(),
            1 => device.write(space::REGISTERS, register, width, value).err(),
            2 => device.write(space::REGISTERS, register, width, near).err(),
            3 => device.write(space::ARENA, at * 8 % (PAGES * 4096), 8, value).err(),
            4 => device
                .write(space::ARENA, at * 8 % (PAGES * 4096), 8, near | value >> 52)
                .err(),
            5 => device.wait_interrupt(u32::from(small), value % 1_000_000_000).err(),
            6 => device.pause(value % 1_000_000_000).err(),
            _ => device.read(small, value, width).err(),
        };
    }
    let _ = device.wait_interrupt(7, 1_000_000_000);
    let reports = device.take_job_reports();
    assert!(reports.len() <= 2_000 * mali_jm::MAX_JOBS);
    let inside = BASE / 4096..BASE / 4096 + PAGES;
    assert!(device.memory().backed_frames().iter().all(|f| inside.contains(f)));
    assert!(device.reset().is_ok());
    assert_eq!((device.raised_lines(), device.now_ns()), (0, 0));
    reports.iter().any(|r| r.status == 1)
}

/// Writes tables into the first four frames that map the arena to its offset, turns power on and sets up address space
/// 0.
fn boot(device: &mut SoftwareMali, base: u64, pages: u64, format: MmuFormat) {
    let at = |n: u64| PhysAddr::new(base + n * 4096);
    let word = |device: &mut SoftwareMali, n: u64, index: u64, value: u64| {
        let _ = device.write(space::ARENA, n * 4096 + index * 8, 8, value);
    };
    for level in 0..3 {
        word(device, level, 0, mmu::encode_table(format, at(level + 1)));
    }
    for n in 0..pages {
        word(device, 3, n, mmu::encode_leaf(format, at(n), Rights::RW, 0));
    }
    switch_on(device, format, PhysAddr::new(base));
}

/// Unmasks interrupts, powers the cores, and enables the first address space with the tables at `root`.
pub(crate) fn switch_on(device: &mut SoftwareMali, format: MmuFormat, root: PhysAddr) {
    let config = if format == MmuFormat::MaliLpae { 0 } else { 0x4200_0006 };
    for (register, value) in [
        (0x28, u64::from(u32::MAX)),
        (0x1008, u64::from(u32::MAX)),
        (0x2008, u64::from(u32::MAX)),
        (0x180, 0xff),
        (0x190, 1),
        (0x2430, config),
        (0x2400, mmu::root_register(format, root)),
        (0x2418, 1),
    ] {
        let _ = device.write(space::REGISTERS, register, 4, value & u64::from(u32::MAX));
    }
    let _ = device.wait_interrupt(4, 1_000_000);
}
