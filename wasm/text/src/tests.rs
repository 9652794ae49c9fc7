//! Tests of the printer on programs in text form.

use crate::{MAX_LINE_BYTES, PrintError, ProgramText, print_program};
use std::cell::Cell;

fn print(text: &str) -> ProgramText {
    print_program(&wat::parse_str(text).unwrap(), &|| false).unwrap()
}

/// Returns the first line that contains `words`.
fn line_with(text: &ProgramText, words: &str) -> u32 {
    (0..text.lines())
        .find(|line| text.line(*line).contains(words))
        .unwrap_or_else(|| panic!("{words}"))
}

const PROGRAM: &str = r#"(module
  (import "wasi_snapshot_preview1" "sched_yield" (func $yield (result i32)))
  (memory (export "memory") 1)
  (func $"a b" (param i32) (result i32)
    local.get 0
    i32.const 5
    i32.div_u)
  (func (result i32)
    (loop (result i32) (call $yield) (br_if 0 (i32.const 0))))
  (data (i32.const 0) "hello"))"#;

#[test]
fn instructions_have_their_byte_offsets() {
    let binary = wat::parse_str(PROGRAM).unwrap();
    let text = print(PROGRAM);
    let divide = line_with(&text, "i32.div_u");
    let offset = text.offset(divide).unwrap();
    assert_eq!(binary[offset as usize], 0x6e);
    assert_eq!(text.find_line(offset), Some(divide));
    // The second byte of `i32.const 5` belongs to its line.
    let constant = text.offset(divide - 1).unwrap();
    assert_eq!(binary[constant as usize..][..2], [0x41, 5]);
    assert_eq!(text.find_line(constant + 1), Some(divide - 1));
    for line in 0..text.lines() {
        let Some(offset) = text.offset(line) else { continue };
        if text.function(line).is_some_and(|f| f.first < line) {
            assert_eq!(text.find_line(offset), Some(line), "{}", text.line(line));
        }
    }
    assert_eq!(text.find_line(0), None);
    assert_eq!(text.find_line(u64::MAX), None);
}

#[test]
fn functions_have_lines_and_names() {
    let text = print(PROGRAM);
    let functions = text.functions();
    let names: Vec<String> = functions.iter().map(|f| text.function_name(*f)).collect();
    assert_eq!(names, ["a b", "func[2]"]);
    assert_eq!(text.function(line_with(&text, "div_u")), Some(functions[0]));
    assert_eq!(text.function(line_with(&text, "loop")), Some(functions[1]));
    assert_eq!(text.function(line_with(&text, "(data")), None);
    assert_eq!(text.function(0), None);
    assert_eq!(text.line(text.lines()), "");
    assert!(!text.is_truncated());
}

#[test]
fn a_program_without_functions_has_lines() {
    let text = print("(module)");
    assert!(text.lines() >= 1);
    assert_eq!(text.line(0), "(module)");
    assert_eq!(text.functions(), []);
    assert_eq!(text.find_line(0), None);
}

#[test]
fn long_lines_are_cut() {
    let data = "ä".repeat(MAX_LINE_BYTES);
    let text = print(&format!("(module (memory 1) (data (i32.const 0) \"{data}\"))"));
    let line = text.line(line_with(&text, "(data"));
    assert!(
        line.ends_with('…') && line.len() <= MAX_LINE_BYTES + 3,
        "{}",
        line.len()
    );
}

#[test]
fn damaged_programs_and_cancellations_are_errors() {
    let binary = wat::parse_str(PROGRAM).unwrap();
    for end in 0..binary.len() {
        let _ = print_program(&binary[..end], &|| false);
    }
    let damaged = print_program(b"\0asm\x01\0\0\0\x0a\x7f", &|| false);
    assert!(matches!(damaged, Err(PrintError::Invalid(_))), "{damaged:?}");
    let calls = Cell::new(0);
    let is_cancelled = || {
        calls.set(calls.get() + 1);
        true
    };
    let body = "nop ".repeat(5000);
    let large = wat::parse_str(format!("(module (func {body}))")).unwrap();
    assert_eq!(print_program(&large, &is_cancelled).unwrap_err(), PrintError::Cancelled);
    assert_eq!(calls.get(), 1);
}
