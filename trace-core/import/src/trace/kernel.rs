//! The meaning of single ftrace lines about a driver and its device, before they are combined. Probes are recognised by
//! their functions, not by the names that somebody gave them.
//!
//! | line | says |
//! |---|---|
//! | `irq_handler_entry`, `irq_handler_exit` | an interrupt is handled |
//! | `rwmmio_write`, `rwmmio_post_read` | a register access at a virtual address (`CONFIG_TRACE_MMIO_ACCESS`) |
//! | `ioremap*` and its return | which physical addresses the virtual ones are |
//! | `dma_alloc_attrs`, `dma_map_page_attrs`, `dma_map_sg_attrs` and returns | memory for the device |
//! | `request_threaded_irq` | which interrupts are the device's |
//! | `pci_conf1_read`, `pci_conf1_write` | an access to configuration space, a read without its value |
//! | a location with `at` and `st8` to `st64` | a register store in the driver's own code, at a virtual address |
//! | a location with `at` alone, then `ld8` to `ld64` | a register load in the driver's own code, likewise |
//! | any other function with an offset | a register accessor of the driver |
//! | any other function with an address, `readl`, `iowrite32`, … | a register access at a virtual address |
//! | an event of a GPU driver or of the DRM scheduler | an access or a job of the driver ([`driver_events`]) |
//!
//! Sources: the kernel's `include/trace/events/rwmmio.h` and `irq.h`, `Documentation/trace/kprobetrace.rst`, and the
//! logs.

use super::accessors::{self, AccessorCall, any_field};
use super::driver_events::{self, DriverEvent};
use super::ftrace::{self, Event, Head, Probe};
use super::names::Names;
use super::score::LineScore;
use super::text::mask;

/// The meaning of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum KernelEvent {
    IrqEntry {
        irq: u32,
        name: Box<str>,
    },
    Mmio {
        write: bool,
        at: u64,
        width: u8,
        value: u64,
        config: bool,
        module: u16,
    },
    /// A register load is about to execute, reported by the probe of this name.
    Load {
        probe: u16,
        at: u64,
    },
    /// The load reported by the probe of this name was executed.
    Loaded {
        probe: u16,
        width: u8,
        value: u64,
        module: u16,
    },
    Store {
        at: u64,
        width: u8,
        value: u64,
        module: u16,
    },
    Ioremap {
        physical: u64,
        bytes: u64,
    },
    IoremapDone {
        at: u64,
    },
    Dma {
        allocated: bool,
        bytes: u64,
    },
    DmaDone {
        allocated: bool,
        bus: Option<u64>,
    },
    RequestIrq {
        irq: u32,
    },
    Config {
        write: bool,
        place: u32,
        register: u32,
        width: u8,
        value: Option<u64>,
    },
    Enter(AccessorCall),
    Return {
        function: u16,
        value: u64,
    },
    Driver(DriverEvent),
    Mark(Box<str>),
    Lost(Option<u64>, Box<str>),
    /// An event of another subject, by its name.
    Other(u16),
}

/// A line with a meaning.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) head: Head,
    pub(super) event: KernelEvent,
}

/// The result of parsing a line.
pub(super) enum ParsedLine {
    /// A line with a meaning.
    Item(Item),
    /// A line to ignore: a comment, the other half of an access, an event of another subject.
    Nothing,
    /// Not a line of the format, or an incomplete one: what is missing.
    Unusable(&'static str),
}

/// Reads a line.
pub(super) fn parse_line(line: &[u8], names: &mut Names) -> ParsedLine {
    let Some(e) = ftrace::event(line) else {
        if ftrace::is_frame(line) {
            return ParsedLine::Nothing;
        }
        return match ftrace::lost(line) {
            Some(count) => ParsedLine::Item(Item {
                head: Head::default(),
                event: KernelEvent::Lost(count, String::from_utf8_lossy(line.trim_ascii()).into()),
            }),
            None => ParsedLine::Unusable("a line of ftrace: task, CPU, time, event and text"),
        };
    };
    match parse_event(&e, names) {
        Ok(Some(what)) => ParsedLine::Item(Item {
            head: e.head,
            event: what,
        }),
        Ok(None) => ParsedLine::Nothing,
        Err(missing) => ParsedLine::Unusable(missing),
    }
}

/// Returns how well a line fits the format.
pub(super) fn score(line: &[u8]) -> LineScore {
    let tracer = line.strip_prefix(b"# tracer: ");
    if let Some(name) = tracer {
        // The tracer of mmiotrace prints lines of its own.
        return match name.trim_ascii() {
            b"mmiotrace" => LineScore::Foreign,
            _ => LineScore::Frame,
        };
    }
    if ftrace::event(line).is_none() {
        return LineScore::Foreign;
    }
    match parse_line(line, &mut Names::default()) {
        ParsedLine::Item(item) => match item.event {
            KernelEvent::Mmio { .. }
            | KernelEvent::Loaded { .. }
            | KernelEvent::Store { .. }
            | KernelEvent::Return { .. }
            | KernelEvent::Config { .. }
            | KernelEvent::Enter(AccessorCall { value: Some(_), .. }) => LineScore::Access,
            KernelEvent::Driver(event) if event.is_work() => LineScore::Access,
            _ => LineScore::Frame,
        },
        ParsedLine::Nothing => LineScore::Frame,
        ParsedLine::Unusable(missing) => LineScore::Near(missing),
    }
}

/// Interprets an event. Returns `None` for one to ignore.
///
/// # Errors
///
/// What an incomplete event lacks.
fn parse_event(e: &Event<'_>, names: &mut Names) -> Result<Option<KernelEvent>, &'static str> {
    Ok(Some(match e.name {
        b"irq_handler_entry" => {
            let name = ftrace::fields(e.text).find(|(key, _)| *key == b"name");
            let irq = ftrace::field(e.text, b"irq").and_then(|n| u32::try_from(n).ok());
            KernelEvent::IrqEntry {
                irq: irq.ok_or("the number of the interrupt, irq=")?,
                name: String::from_utf8_lossy(name.ok_or("the name of the handler, name=")?.1).into(),
            }
        }
        b"rwmmio_write" => mmio(e.text, true, names)?,
        b"rwmmio_post_read" => mmio(e.text, false, names)?,
        b"irq_handler_exit" | b"rwmmio_read" | b"rwmmio_post_write" => return Ok(None),
        ftrace::MARK => KernelEvent::Mark(String::from_utf8_lossy(e.text).trim().into()),
        _ => {
            if let Some(event) = driver_events::parse(e.name, e.text, names) {
                return event.map(|e| Some(KernelEvent::Driver(e)));
            }
            match ftrace::probe(e.text) {
                Some(p) => match instruction(e.name, &p, names) {
                    Some(what) => what,
                    None => return probe(&p, names).ok_or("a field of the probe, or its value is no number"),
                },
                None => KernelEvent::Other(names.number(e.name)),
            }
        }
    }))
}

/// Parses a register access, whose width is in bits.
fn mmio(text: &[u8], write: bool, names: &mut Names) -> Result<KernelEvent, &'static str> {
    let at = memchr::memmem::find(text, b"width=").ok_or("the width, width=")?;
    let (place, fields) = text.split_at_checked(at).ok_or("the width, width=")?;
    let width = match ftrace::field(fields, b"width") {
        Some(bits @ (8 | 16 | 32 | 64)) => (bits / 8) as u8,
        _ => return Err("a width of 8, 16, 32 or 64 bits, width="),
    };
    let value = ftrace::field(fields, b"val").ok_or("the value, val=")?;
    let module = names.number(ftrace::module(place));
    Ok(KernelEvent::Mmio {
        write,
        at: ftrace::field(fields, b"addr").ok_or("the address, addr=")?,
        width,
        value: value & mask(width),
        config: memchr::memmem::find(place, b"pci_generic_config_").is_some(),
        module,
    })
}

/// Parses a load or store in the driver's code.
fn instruction(name: &[u8], p: &Probe<'_>, names: &mut Names) -> Option<KernelEvent> {
    let field = |name: &[u8]| ftrace::field(p.fields, name);
    let wide = |of: [&[u8]; 4]| {
        let widths = [1u8, 2, 4, 8].into_iter().zip(of);
        widths
            .filter_map(|(width, name)| Some((width, field(name)? & mask(width))))
            .next()
    };
    let module = p.module;
    if let Some((width, value)) = wide([b"ld8", b"ld16", b"ld32", b"ld64"]) {
        return Some(KernelEvent::Loaded {
            probe: names.number(name.strip_suffix(b"_ret").unwrap_or(name)),
            width,
            value,
            module: names.number(module),
        });
    }
    let at = field(b"at")?.wrapping_add(field(b"more").unwrap_or(0));
    Some(match wide([b"st8", b"st16", b"st32", b"st64"]) {
        Some((width, value)) => KernelEvent::Store {
            at,
            width,
            value,
            module: names.number(module),
        },
        None => KernelEvent::Load {
            probe: names.number(name),
            at,
        },
    })
}

fn probe(p: &Probe<'_>, names: &mut Names) -> Option<Option<KernelEvent>> {
    let field = |name: &[u8]| ftrace::field(p.fields, name);
    let result = || {
        let names: [&[u8]; 9] = [
            b"val", b"ret", b"value", b"va", b"dma", b"cpu", b"retval", b"v", b"arg1",
        ];
        any_field(p.fields, &names)
    };
    let small = |v: u64| u32::try_from(v).ok();
    Some(Some(match (p.function, p.returns) {
        (f, false) if f.starts_with(b"ioremap") => KernelEvent::Ioremap {
            physical: any_field(p.fields, &[b"phys", b"addr", b"offset"])?,
            bytes: any_field(p.fields, &[b"size", b"bytes"])?,
        },
        (f, true) if f.starts_with(b"ioremap") => KernelEvent::IoremapDone { at: result()? },
        (b"dma_alloc_attrs", false) => KernelEvent::Dma {
            allocated: true,
            bytes: field(b"size")?,
        },
        // Its result is the CPU's address of the memory; a recorder that follows the pointer gives the device's
        // address.
        (b"dma_alloc_attrs", true) => KernelEvent::DmaDone {
            allocated: true,
            bus: any_field(p.fields, &[b"dma", b"bus"]),
        },
        (b"dma_map_page_attrs" | b"dma_map_sg_attrs", false) => KernelEvent::Dma {
            allocated: false,
            bytes: field(b"size").unwrap_or(0),
        },
        (b"dma_map_page_attrs", true) => KernelEvent::DmaDone {
            allocated: false,
            bus: any_field(p.fields, &[b"dma", b"bus"]),
        },
        (b"dma_map_sg_attrs", true) => KernelEvent::DmaDone {
            allocated: false,
            bus: None,
        },
        (b"request_threaded_irq", false) => KernelEvent::RequestIrq {
            irq: small(field(b"irq")?)?,
        },
        (f @ (b"pci_conf1_read" | b"pci_conf1_write"), false) => {
            let (segment, bus, place) = (field(b"seg").unwrap_or(0), field(b"bus")?, field(b"devfn")?);
            let width = match field(b"len")? {
                w @ (1 | 2 | 4) => w as u8,
                _ => return None,
            };
            if segment > 0xffff || bus > 0xff || place > 0xff {
                return None;
            }
            let write = f == b"pci_conf1_write";
            let value = any_field(p.fields, &[b"val", b"value"]).map(|v| v & mask(width));
            if write && value.is_none() {
                return None;
            }
            KernelEvent::Config {
                write,
                place: (segment << 16 | bus << 8 | place) as u32,
                register: small(field(b"reg")?).filter(|r| *r < 0x1000)?,
                width,
                value,
            }
        }
        (b"request_threaded_irq" | b"pci_conf1_read" | b"pci_conf1_write", true) => return Some(None),
        (f, true) => KernelEvent::Return {
            function: names.number(f),
            value: result()?,
        },
        (_, false) => {
            return Some(accessors::call(p, names).map(KernelEvent::Enter));
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn means(text: &str) -> Option<KernelEvent> {
        let line = format!("sh-92 [000] ..... 4.844024: {text}");
        match parse_line(line.as_bytes(), &mut Names::default()) {
            ParsedLine::Item(item) => Some(item.event),
            ParsedLine::Nothing => None,
            ParsedLine::Unusable(why) => panic!("unusable: {text}: {why}"),
        }
    }

    #[test]
    fn kernel_trace_lines_are_parsed() {
        let config = KernelEvent::Config {
            write: true,
            place: 0x18,
            register: 0x9a,
            width: 2,
            value: Some(0xc002),
        };
        assert_eq!(
            means("cfgw: (pci_conf1_write+0x0/0xf0) seg=0 bus=0 devfn=0x18 reg=0x9a len=2 val=0xc002"),
            Some(config)
        );
        assert!(matches!(
            means("cfgr: (pci_conf1_read+0x0/0xf0) seg=0 bus=1 devfn=0x18 reg=0x4 len=2"),
            Some(KernelEvent::Config {
                write: false,
                place: 0x118,
                value: None,
                ..
            })
        ));
        let text = "rwmmio_write: f+0x154/0x1a4 -> g+0xc4/0x170 [radeonfb] width=16 val=0xf01 addr=0xffffffc00800e030";
        let at = 0xffff_ffc0_0800_e030;
        let write = KernelEvent::Mmio {
            write: true,
            at,
            width: 2,
            value: 0xf01,
            config: false,
            module: 0,
        };
        assert_eq!(means(text), Some(write));
        assert_eq!(
            means("rwmmio_read: f+0x154/0x1a4 width=16 addr=0xffffffc00800e030"),
            None
        );
        assert_eq!(
            means("dma_map_page: (dma_map_page_attrs+0x0/0x2d0) dev=0xf page=0x1 off=64 size=4096"),
            Some(KernelEvent::Dma {
                allocated: false,
                bytes: 4096
            })
        );
        assert_eq!(
            means("r: (f+0x1/0x2 <- dma_map_page_attrs) dma=0x7000"),
            Some(KernelEvent::DmaDone {
                allocated: false,
                bus: Some(0x7000)
            })
        );
        assert_eq!(
            means("sched_switch: prev_comm=sh prev_pid=1"),
            Some(KernelEvent::Other(0))
        );
        assert_eq!(means("p: (some_function+0x0/0x10) a=1"), None);
        assert_eq!(
            means("insn4: (pl031_set_time+0x34/0x4c) at=0xffff80000805d000 more=8 st32=0x1ffffffff"),
            Some(KernelEvent::Store {
                at: 0xffff_8000_0805_d008,
                width: 4,
                value: 0xffff_ffff,
                module: 0
            })
        );
        let load = means("insn5: (pl031_read_time+0x1c/0x44) at=0xffff80000805d000");
        let at = 0xffff_8000_0805_d000;
        assert_eq!(load, Some(KernelEvent::Load { probe: 0, at }));
        assert_eq!(
            means("insn5_ret: (pl031_read_time+0x20/0x44) ld32=0x5"),
            Some(KernelEvent::Loaded {
                probe: 0,
                width: 4,
                value: 5,
                module: 1
            })
        );
    }

    #[test]
    fn accessors_are_told_from_offsets_by_their_argument() {
        let enter = |text: &str| match means(text) {
            Some(KernelEvent::Enter(c)) => (c.offset, c.value, c.is_address, c.instance),
            other => panic!("{text}: {other:?}"),
        };
        const AT: u64 = 0xffff_c900_0012_3190;
        for (text, expected) in [
            (
                "r: (osl_readl+0x0/0x20 [wl]) addr=0xffffc90000123190",
                (AT, None, true, 0),
            ),
            (
                "w: (writel+0x0/0x20) val=0x1 addr=0xffffc90000123190",
                (AT, Some(1), true, 0),
            ),
            (
                "w: (writel+0x0/0x20) arg1=0x1 arg2=0xffffc90000123190",
                (AT, Some(1), true, 0),
            ),
            (
                "w: (wl_write32+0x0/0x20) arg1=0xffffc90000123190 arg2=0x1",
                (AT, Some(1), true, 0),
            ),
            ("r: (readl+0x0/0x20) arg1=0xffffc90000123190", (AT, None, true, 0)),
            ("r: (readl+0x0/0x20) addr=0xf0a80030", (0xf0a8_0030, None, true, 0)),
            (
                "r: (igb_rd32+0x0/0x60 [igb]) hw=0xffff8a7a827e0ed8 reg=0x18",
                (0x18, None, false, 0xffff_8a7a_827e_0ed8),
            ),
            ("r: (igb_rd32+0x0/0x60 [igb]) addr=0x18", (0x18, None, false, 0)),
        ] {
            assert_eq!(enter(text), expected, "{text}");
        }
        assert_eq!(means("p: (do_sys_open+0x0/0x10) arg1=0xffffc90000123190"), None);
    }

    #[test]
    fn incomplete_trace_line_is_unusable() {
        for text in [
            "rwmmio_write: f width=24 val=0x1 addr=0x2",
            "rwmmio_write: f width=32 val=0x1",
            "rwmmio_write: f width=32 val=0xfffffffffffffffff addr=0x2",
            "irq_handler_entry: irq=99999999999 name=x",
            "cfgw: (pci_conf1_write+0x0/0xf0) seg=0 bus=0 devfn=0x18 reg=0x9a len=3 val=0xc002",
            "cfgw: (pci_conf1_write+0x0/0xf0) seg=0 bus=0 devfn=0x18 reg=0x99999 len=2 val=0xc002",
            "m: (ioremap+0x0/0x20) phys=0xfebf8000",
        ] {
            let line = format!("sh-92 [000] ..... 4.844024: {text}");
            assert!(
                matches!(
                    parse_line(line.as_bytes(), &mut Names::default()),
                    ParsedLine::Unusable(_)
                ),
                "{text}"
            );
        }
    }
}
