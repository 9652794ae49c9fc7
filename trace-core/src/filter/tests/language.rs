//! Tests of the meaning of filters, and of the messages for invalid ones.

use super::{access, filter, find_events, parse_error, recording, sample};
use crate::filter::{Derived, InputSpan, Interrupt, KEYWORDS, MAX_BYTES, Query, Selection};
use crate::progress::{Cancelled, Progress};
use crate::recording::{
    Api, ApiTraceMetadata, CallRow, CopyRow, EventsBuilder, InterruptRow, LaunchRow, Recording, TraceKind,
};
use std::ops::ControlFlow;

#[test]
fn filters_select_the_expected_events() {
    let on = sample();
    for (text, events) in [
        ("", (0..13).collect::<Vec<u64>>()),
        ("read", vec![1, 5]),
        ("write", vec![2, 3, 6, 11, 12]),
        ("access and not write", vec![1, 5]),
        ("interrupt", vec![4, 5]),
        ("IRQ", vec![4, 5]),
        ("submit", vec![3, 6, 7]),
        ("poll", vec![1, 2]),
        ("mark or host-write or undecoded or dma", vec![0, 8, 9, 10]),
        ("kind in {mark, hostwrite}", vec![0, 8]),
        ("kind != write and access", vec![1, 5]),
        ("event in 3..5", vec![3, 4]),
        ("event in ..2", vec![0, 1]),
        ("event not in 2..", vec![0, 1]),
        ("event in 4..4", vec![]),
        ("time < 2us", vec![0, 1, 2]),
        ("time in 1.5us..5ms", vec![2, 3, 4, 5]),
        ("time >= 2s", vec![11, 12]),
        ("thread = 2", vec![3, 5]),
        ("width = 8", vec![]),
        ("width", vec![1, 2, 3, 5, 6, 9, 11, 12]),
        ("value = 0x1", vec![3, 6, 11, 12]),
        ("value != 1", vec![1, 2, 5]),
        ("not value = 1", vec![0, 1, 2, 4, 5, 7, 8, 9, 10]),
        ("value & 0x100 != 0", vec![2]),
        ("value & 0x100", vec![2]),
        ("value & 0x3 in {1, 2}", vec![3, 5, 6, 11, 12]),
        ("offset = 0x20", vec![9]),
        ("space = bar1", vec![9, 12]),
        ("space =~ '^b' and write", vec![12]),
        ("space != gpu", vec![9, 12]),
        ("reg = js1_command_next", vec![3, 6]),
        ("reg = JS_COMMAND_NEXT", vec![3, 6]),
        ("reg =~ \"^JS1_C.*\"", vec![2, 3, 6]),
        ("reg !~ \"^JS1_C.*\"", vec![1, 5, 11]),
        ("reg in {GPU_ID, JOB_IRQ_STATUS}", vec![1, 5]),
        ("reg = JS1_HEAD_NEXT", vec![11]),
        ("reg = JS1_HEAD_NEXT_HI", vec![11]),
        ("reg", vec![1, 2, 3, 5, 6, 11]),
        ("block = JOB_SLOT", vec![2, 3, 6, 11]),
        ("js1", vec![2, 3, 6, 11]),
        ("JS_COMMAND_NEXT", vec![3, 6]),
        ("write js1 value = 1", vec![3, 6, 11]),
        ("JS1_COMMAND_NEXT = start", vec![3, 6]),
        ("JS1_COMMAND_NEXT in {start, nop}", vec![3, 6]),
        ("JS1_CONFIG_NEXT & 0xff00 = 0x7b00", vec![2]),
        ("JS1_CONFIG_NEXT.start_flush = \"clean+invalidate\"", vec![2]),
        ("JS_CONFIG_NEXT.start_flush >= 3", vec![2]),
        ("JS1_CONFIG_NEXT.chain_flag", vec![2]),
        (
            "JS1_CONFIG_NEXT.chain_flag = yes and JS1_CONFIG_NEXT.start_mmu = no",
            vec![2],
        ),
        ("JS1_CONFIG_NEXT.priority = 8", vec![2]),
        ("JS1_HEAD_NEXT = 0x1_0000_2000", vec![]),
        ("JS1_HEAD_NEXT_HI = 1", vec![11]),
        ("job = 0", vec![2, 3, 4]),
        ("job in 0..1", vec![2, 3, 4]),
        ("job in 0..=0", vec![2, 3, 4]),
        ("event in 3..=5", vec![3, 4, 5]),
        ("event not in 1..=11", vec![0, 12]),
        ("event in ..=1", vec![0, 1]),
        ("bar1+0x18e0", vec![12]),
        ("gpu+0x18e0", vec![3, 6]),
        ("BAR1+0x20", vec![9]),
        ("gpu+0x18d8 & 0x100", vec![2]),
        ("\"bar1+0x18e0\" = 1", vec![12]),
        ("bar1+6368 = 2", vec![]),
        ("job >= 1", (6..13).collect()),
        ("not job", vec![0, 1, 5]),
        ("irq.line = job", vec![4]),
        ("irq.line in {job, mmu}", vec![4, 5]),
        ("interrupt.status & 0x10", vec![5]),
        ("address = 0x9000 or address = 0xae0c3000", vec![6, 7]),
        ("address in 0x1000..0x8001", vec![3, 8, 10]),
        ("bytes >= 64", vec![8, 10]),
        ("text = begin", vec![0]),
        ("text =~ \"^BEG\"", vec![0]),
        ("(read or write) and not (thread = 1)", vec![3, 5]),
        ("read || write && thread == 2", vec![1, 3, 5]),
        ("!access && !interrupt", vec![0, 7, 8, 9, 10]),
        (
            "reg =~ \"JS1_.*\" and write and value & 0x100 != 0 and job in 0..9",
            vec![2],
        ),
    ] {
        assert_eq!(find_events(text, &on), events, "{text}");
    }
}

#[test]
fn filters_find_registers_at_any_access_width() {
    let on = super::with_many_widths();
    for (text, events) in [
        ("reg = QUEUE_DESC", vec![0, 1, 2, 5]),
        ("reg = QUEUE_DESC_LO", vec![0, 1, 5]),
        ("reg = 'QUEUE_DESC_LO[7:0]'", vec![5]),
        ("reg =~ '\\[7:0\\]$'", vec![5]),
        ("reg = DEVICE_STATUS", vec![3, 4]),
        ("reg != DEVICE_STATUS", vec![0, 1, 2, 5, 6, 7]),
        ("QUEUE_DESC = 0x1_0000_2000", vec![0]),
        ("QUEUE_DESC_LO = 0x2000", vec![0, 1]),
        ("QUEUE_DESC_HI = 1", vec![0, 2]),
        ("QUEUE_DESC.address > 0xffff_ffff", vec![0]),
        ("DEVICE_STATUS = 0xf", vec![3, 4]),
        ("DEVICE_STATUS.driver_ok", vec![3, 4]),
        ("QUEUE_SELECT.queue = 3", vec![4, 6]),
        ("QUEUE_ENABLE.enabled = yes", vec![7]),
    ] {
        assert_eq!(find_events(text, &on), events, "{text}");
    }
}

#[test]
fn filter_errors_show_their_location() {
    for (text, message) in [
        (
            "wirte",
            "no field, kind of event or register is called `wirte`; did you mean `write`?\nwirte\n^^^^^",
        ),
        (
            "write and JS1_COMAND = 1",
            "no field, kind of event or register is called `JS1_COMAND`; did you mean `JS1_COMMAND`?\n\
             write and JS1_COMAND = 1\n          ^^^^^^^^^^",
        ),
        (
            "reg = JS1_COMAND",
            "no register is called `JS1_COMAND`; did you mean `JS1_COMMAND`?\nreg = JS1_COMAND\n      ^^^^^^^^^^",
        ),
        (
            "JS1_CONFIG.start_flash = 1",
            "JS1_CONFIG has no field `start_flash`; did you mean `start_flush`?\n\
             JS1_CONFIG.start_flash = 1\n           ^^^^^^^^^^^",
        ),
        (
            "JS1_CONFIG.start_flush = claen",
            "no value of this field is called `claen`; did you mean `clean`?\n\
             JS1_CONFIG.start_flush = claen\n                         ^^^^^",
        ),
        (
            "space = bar2",
            "no space is called `bar2`; did you mean `bar1`?\nspace = bar2\n        ^^^^",
        ),
        (
            "value =",
            "a number or a name is expected here, where the filter ends\nvalue =\n       ^",
        ),
        (
            "value = and",
            "a number or a name is expected here, not `and`\nvalue = and\n        ^^^",
        ),
        ("(read", "`)` is expected here, where the filter ends\n(read\n     ^"),
        ("read )", "`)` is not expected here\nread )\n     ^"),
        (
            "and",
            "a field, a kind of event, a register or `(` is expected here, not `and`\nand\n^^^",
        ),
        (
            "value = 0x",
            "`0x` is not a number: 0x is followed by digits and a to f\nvalue = 0x\n        ^^",
        ),
        (
            "job in 9..4",
            "the range ends before it begins (FIRST..END excludes END, FIRST..=LAST includes LAST)\njob in 9..4\n       ^^^^",
        ),
        (
            "job in 4",
            "`..` or `..=` is expected here, where the filter ends\njob in 4\n        ^",
        ),
        (
            "job in 4..=",
            "a number is expected here, where the filter ends\njob in 4..=\n           ^",
        ),
        (
            "bar7+0x10",
            "no space is called `bar7`; did you mean `bar1`?\nbar7+0x10\n^^^^^^^^^",
        ),
        (
            "reg = \"JS1*\"",
            "no register is called `JS1*`; for a pattern: reg =~ \"^JS1\"\nreg = \"JS1*\"\n      ^^^^^^",
        ),
        (
            "block = \"*SLOT?\"",
            "no block is called `*SLOT?`; for a pattern: block =~ \"SLOT.$\"\nblock = \"*SLOT?\"\n        ^^^^^^^^",
        ),
        (
            "means ~ \"reset\"",
            "'~' has no meaning here; did you mean `=~`, which takes a pattern in quotes?\nmeans ~ \"reset\"\n      ^",
        ),
        (
            "job in 4-9",
            "'-' has no meaning here; a range is written 4..=9\njob in 4-9\n        ^",
        ),
        (
            "JS1*",
            "'*' has no meaning here; a pattern is written reg =~ \"^JS1_\"\nJS1*\n   ^",
        ),
        (
            "job in {4",
            "`,` or `}` is expected here, where the filter ends\njob in {4\n         ^",
        ),
        (
            "write = 1",
            "`write` stands alone and cannot be compared\nwrite = 1\n^^^^^",
        ),
        (
            "value = 3us",
            "`value` can only be compared with a number without a unit of time\nvalue = 3us\n        ^^^",
        ),
        (
            "value = x",
            "`value` can only be compared with a number\nvalue = x\n        ^",
        ),
        ("reg = 3", "`reg` can only be compared with a name\nreg = 3\n      ^"),
        (
            "reg > GPU_ID",
            "`>` cannot be used with `reg`: names can only be compared with =, !=, =~, !~ and in\nreg > GPU_ID\n^^^",
        ),
        (
            "value =~ 'x'",
            "`=~` cannot be used with `value`: it is a number, not a name\nvalue =~ 'x'\n^^^^^",
        ),
        (
            "reg =~ \"JS(\"",
            "the regular expression is invalid: unclosed group\nreg =~ \"JS(\"\n       ^^^^^",
        ),
        (
            "reg = \"x",
            "the text that begins here has no closing quote\nreg = \"x\n      ^^",
        ),
        ("read § write", "'§' has no meaning here\nread § write\n     ^"),
        (
            "irq.line = jbo",
            "no interrupt line is called `jbo`; did you mean `job`?\nirq.line = jbo\n           ^^^",
        ),
    ] {
        assert_eq!(parse_error(text), message, "{text}");
    }
}

#[test]
fn a_filter_of_several_lines_points_at_its_line() {
    let text = "write and\n\tänder = 3 and\nread";
    let on = sample();
    let e = Query::parse(text).unwrap().compile(&on.0, None).unwrap_err();
    assert_eq!(e.caret(text, "  "), "   änder = 3 and\n   ^^^^^");
}

#[test]
fn hostile_filters_are_refused() {
    assert!(Query::parse(&"(".repeat(5000)).is_err());
    assert!(Query::parse(&"not ".repeat(4000)).is_err());
    assert!(Query::parse(&"!".repeat(5000)).is_err());
    assert!(Query::parse(&" ".repeat(MAX_BYTES + 1)).is_err());
    let chain = "read or ".repeat(2000) + "read";
    assert!(Query::parse(&chain).is_ok());
    let on = sample();
    for regex in ["(a{1000}){1000}{1000}", &"(".repeat(4000)] {
        let q = Query::parse(&format!("reg =~ '{regex}'")).unwrap();
        assert!(q.compile(&on.0, None).is_err(), "{regex}");
    }
}

#[test]
fn unknown_words_are_explained_without_a_register_map() {
    let mut r = sample().0;
    r.metadata.identity.gpu_id = 0;
    let describe = |t: &str| Query::parse(t).unwrap().compile(&r, None).unwrap_err().to_string();
    assert_eq!(
        describe("wirte"),
        "no field or kind of event is called `wirte`; did you mean `write`?"
    );
    assert_eq!(
        describe("JS1_COMMAND = 1"),
        "`JS1_COMMAND` can only be a register, but no register map names a register of this recording"
    );
    assert_eq!(find_events("reg = X or offset = 0", &(r, Derived::default())), [1]);
}

#[test]
fn references_find_the_events_that_refer_to_a_target() {
    let on = sample();
    for (text, events) in [
        ("references JS1_COMMAND_NEXT", vec![3, 6]),
        ("XREF js1_config_next.start_flush", vec![2]),
        ("references 'bar1+0x18e0'", vec![12]),
        ("not references GPU_ID and read", vec![5]),
        ("references GPU_ID or references JS1_HEAD_NEXT", vec![1, 11]),
        ("references 0x1_2345", vec![]),
    ] {
        assert_eq!(find_events(text, &on), events, "{text}");
    }
    let expected = "an address, a buffer, a register or a pixel is expected here";
    assert!(parse_error("references").starts_with(expected));
    assert!(parse_error("references = 1").starts_with(expected));
    assert!(parse_error("references nowhere").starts_with("'nowhere' is neither an address"));
    assert!(parse_error("references 5us").contains("a number without a unit of time"));
}

#[test]
fn queries_report_if_they_need_derived_data() {
    for (text, needs) in [
        ("read and value = 1", false),
        ("job = 1", true),
        ("not (read or poll)", true),
        ("irq.status", true),
        ("kind = submit", true),
        ("\"job\" = 1", false),
        ("references GPU_ID", true),
        ("\"references\" = 1", false),
    ] {
        assert_eq!(Query::parse(text).unwrap().needs_derived(), needs, "{text}");
    }
}

#[test]
fn every_keyword_in_the_table_is_found() {
    for w in KEYWORDS {
        for name in std::iter::once(&w.name).chain(w.aliases) {
            assert_eq!(crate::filter::Keyword::find(&name.to_uppercase()), Some(w), "{name}");
        }
        assert!(!w.doc.is_empty());
    }
}

#[test]
fn every_word_is_documented() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/query.md");
    let text = std::fs::read_to_string(path).unwrap();
    for w in KEYWORDS {
        for name in std::iter::once(&w.name).chain(w.aliases) {
            assert!(
                text.contains(&format!("`{name}`")) || text.contains(&format!("\"{name}\"")),
                "{name}"
            );
        }
    }
}

/// Creates many events, of which some pass early and some late.
fn long() -> (Recording, Derived) {
    let mut b = EventsBuilder::new();
    for n in 0..500_000u64 {
        if n % 1000 == 999 {
            b.mark(n, "m");
        } else {
            b.access(n, (n / 300_000) as u32, access(n % 3 == 0, (n % 64 * 4) as u32, n));
        }
    }
    (recording(b), Derived::default())
}

#[test]
fn scan_results_arrive_in_order_and_can_be_stopped() {
    let on = long();
    let f = filter("value & 0xff = 0 and write", &on);
    let plain: Vec<u64> = (0..500_000u64)
        .filter(|n| n % 1000 != 999 && n % 3 == 0 && n & 0xff == 0)
        .collect();
    for threads in [1, 2, 5] {
        let (mut all, progress) = (Vec::new(), Progress::new());
        f.scan_on(threads, &on.0.events, 0..u64::MAX, &progress, &mut |find_events| {
            assert_eq!(find_events.count(), find_events.events().count() as u64);
            all.extend(find_events.events());
            ControlFlow::Continue(())
        })
        .unwrap();
        assert_eq!(all, plain, "{threads} threads");
        assert_eq!(progress.fraction(), Some(1.0));
        let mut first = Vec::new();
        f.scan_on(
            threads,
            &on.0.events,
            1000..450_001,
            &Progress::new(),
            &mut |find_events| {
                first.extend(find_events.events());
                ControlFlow::Break(())
            },
        )
        .unwrap();
        assert!(!first.is_empty() && first.len() < plain.len());
        assert_eq!(first[0], *plain.iter().find(|e| **e >= 1000).unwrap());
    }
}

/// Regression test from a property test: a missing row of the event decided whether it passed.
#[test]
fn interrupt_with_a_lost_row_uses_the_inferred_interrupt() {
    let mut b = EventsBuilder::new();
    b.interrupt(0, InterruptRow { line: 1, status: 0x2 });
    let mut r = recording(b);
    r.events.payload = vec![7].into();
    let inferred = Interrupt {
        event: 0,
        line: 0,
        status: 4,
    };
    let derived = Derived {
        interrupts: vec![inferred],
        ..Derived::default()
    };
    let on = (r, derived);
    assert_eq!(find_events("irq.status = 4", &on), [0]);
    assert_eq!(find_events("irq.line = 0", &on), [0]);
    assert!(find_events("irq.status = 2", &on).is_empty());
}

/// Creates a run with two inputs and three names of calls.
fn sample_run() -> (Recording, Derived) {
    let mut b = EventsBuilder::new();
    let call = |name, result| CallRow {
        name,
        result,
        ..CallRow::default()
    };
    b.call(0, 0, call(0, 0)); // 0: run
    b.copy(1, 0, CopyRow::default()); // 1
    b.call(2, 0, call(1, 0)); // 2: fd_write
    b.call(3, 0, call(2, 0)); // 3: exit
    b.call(4, 1, call(1, 8)); // 4: fd_write, error 8
    b.call(5, 1, call(7, 0)); // 5: a name that does not exist
    b.launch(6, 0, LaunchRow::default()); // 6
    b.mark(7, "end"); // 7
    let mut r = recording(b);
    r.metadata.kind = TraceKind::Api(ApiTraceMetadata {
        api: Api::Wasm,
        names: ["run", "fd_write", "exit"].map(str::to_owned).to_vec(),
        ..ApiTraceMetadata::default()
    });
    let input = |name: &str, events| InputSpan {
        name: name.to_owned(),
        events,
    };
    let derived = Derived {
        inputs: vec![input("a.txt", (1, 3)), input("b.txt", (4, 5))],
        ..Derived::default()
    };
    (r, derived)
}

#[test]
fn calls_and_inputs_are_selected() {
    let on = sample_run();
    for (text, events) in [
        ("call.name = fd_write", vec![2, 4]),
        ("call.name = FD_WRITE and errno != 0", vec![4]),
        ("call.name != fd_write", vec![0, 3]),
        ("call.name in {exit, run}", vec![0, 3]),
        ("call.name =~ '^fd_'", vec![2, 4]),
        ("call.name", vec![0, 2, 3, 4]),
        ("call", vec![0, 2, 3, 4, 5]),
        ("call.result = 8", vec![4]),
        ("errno", vec![0, 1, 2, 3, 4, 5, 6]),
        ("errno in 1..", vec![4]),
        ("input = 'a.txt'", vec![1, 2, 3]),
        ("input != 'a.txt'", vec![4, 5]),
        ("input =~ '^b' and call.name = fd_write", vec![4]),
        ("input", vec![1, 2, 3, 4, 5]),
        ("not input", vec![0, 6, 7]),
        ("input.number = 1", vec![4, 5]),
        ("copy.number in {0, 2}", vec![1, 2, 3]),
    ] {
        assert_eq!(find_events(text, &on), events, "{text}");
    }
    let error = |text: &str| {
        Query::parse(text)
            .unwrap()
            .compile(&on.0, Some(&on.1))
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        error("call.name = fd_wirte"),
        "no call is called `fd_wirte`; did you mean `fd_write`?"
    );
    assert!(error("input = 'c.txt'").starts_with("no input is called `c.txt`"));
    // A recording without calls and inputs has neither.
    for text in ["call.name = fd_write", "input = x", "input.number = 0", "errno"] {
        assert!(find_events(text, &sample()).is_empty(), "{text}");
    }
    let needs = |text: &str| {
        let query = Query::parse(text).unwrap();
        [query.needs_inputs(), query.needs_derived()]
    };
    assert_eq!(needs("write or input = x"), [true, false]);
    assert_eq!(needs("job = 1 and copy.number = 0"), [true, true]);
    assert_eq!(needs("call.name = x"), [false, false]);
}

#[test]
fn cancelled_filter_scan_stops() {
    let on = long();
    let f = filter("value = 1", &on);
    for threads in [1, 2] {
        let progress = Progress::new();
        progress.cancel();
        let all = f.scan_on(threads, &on.0.events, 0..u64::MAX, &progress, &mut |_| {
            ControlFlow::Continue(())
        });
        assert_eq!(all, Err(Cancelled));
    }
}

#[test]
fn a_selection_finds_rows_and_events() {
    let on = long();
    for text in [
        "",
        "value & 0xfff = 0",
        "thread = 0",
        "value & 1",
        "event in 70000..70100",
        "value = 499998",
    ] {
        let f = filter(text, &on);
        let s = f.select(&on.0.events, &Progress::new()).unwrap();
        let all: Vec<u64> = s.iter().collect();
        assert_eq!(s.len(), all.len() as u64, "{text}");
        for (row, e) in (0u64..).zip(&all).step_by(97) {
            assert_eq!(s.get(row), Some(*e), "{text}");
            assert_eq!((s.rank(*e), s.contains(*e)), (row, true), "{text}");
        }
        assert_eq!(s.get(s.len()), None);
        assert_eq!(s.rank(u64::MAX), s.len());
        for e in (0..500_000u64).step_by(1009) {
            assert_eq!(s.rank(e), all.partition_point(|x| *x < e) as u64, "{text} {e}");
            assert_eq!(s.contains(e), all.binary_search(&e).is_ok(), "{text} {e}");
        }
        assert_eq!(
            all.iter().copied().collect::<Selection>().iter().collect::<Vec<_>>(),
            all
        );
    }
}

#[test]
fn range_descriptions_name_both_ends() {
    for (text, description) in [
        ("job in 4..9", &["job 4 to 8"][..]),
        (
            "write and (job in 4..=9 or offset in 0x10..0x20)",
            &["job 4 to 9", "offset 0x10 to 0x1f"],
        ),
        ("not event in 3..=3", &["event 3 to 3"]),
        ("job in 4.. and event in ..9", &[]),
        ("job in 4..4", &[]),
        ("time in 1ms..2ms", &[]),
        ("write", &[]),
        ("", &[]),
    ] {
        assert_eq!(Query::parse(text).unwrap().describe_ranges(), description, "{text}");
    }
}
