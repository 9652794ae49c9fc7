//! Tests of rewritten methods and of windows.

mod outputs;
mod preparation;

use super::*;
use replay_engine::channel::initial_bindings;

const FIRMWARE: u32 = 1 << 13 | 0x510 >> 2;

/// Returns the words as a replay sends them, and the number of replaced methods.
fn rewrite(words: &[u32]) -> Result<(Vec<u32>, usize), String> {
    let mut bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    let mut bindings = initial_bindings(0xcbc0);
    let mut rules = MethodRules::new(0xcbc0);
    let mut rewritten = RewrittenBuffer::default();
    let buffer = PushBuffer::new(&bytes);
    let mut methods = buffer.methods(&mut bindings);
    while let Some(method) = methods.next() {
        let method = method.map_err(|e| e.to_string())?;
        rewritten.note_rule(&method, methods.run(), rules.judge(&method))?;
    }
    rewritten.replace_methods(&mut bytes)?;
    let words = bytes.as_chunks::<4>().0.iter().map(|w| u32::from_le_bytes(*w));
    Ok((words.collect(), rewritten.reasons.len()))
}

#[test]
fn methods_of_the_firmware_do_nothing() {
    let wait = [1 << 29 | 1 << 16 | 1 << 13 | 0x110 >> 2, 0];
    let nothing = |count: u32| 3 << 29 | count << 16 | 1 << 13 | 0x100 >> 2;
    let words = [wait.as_slice(), &[1 << 29 | 2 << 16 | FIRMWARE, 7, 8], &wait].concat();
    let expected = [wait.as_slice(), &[nothing(2), 7, 8], &wait].concat();
    assert_eq!(rewrite(&words), Ok((expected, 2)));
    assert_eq!(rewrite(&wait), Ok((wait.to_vec(), 0)));
}

#[test]
fn headers_with_other_methods_are_refused() {
    // The last firmware register, and the method after it.
    let mixed = [1 << 29 | 2 << 16 | 1 << 13 | 0x57c >> 2, 1, 2];
    let immediate = [4 << 29 | 1 << 16 | FIRMWARE];
    for words in [mixed.as_slice(), &immediate] {
        assert!(rewrite(words).is_err(), "{words:x?}");
    }
    let bound = [1 << 29 | 1 << 16 | 2 << 13, 0x902d];
    assert!(rewrite(&bound).is_err_and(|e| e.starts_with("word 1: it binds class 0x902d")));
}

#[test]
fn windows_of_compute_engines_are_found() {
    let method = |class, method| Method {
        subchannel: 1,
        class: Some(class),
        method,
        value: 0x7294,
        word: 0,
    };
    assert_eq!(window_start(&method(0xcbc0, 0x2a0)), Some(0x7294_0000_0000));
    assert_eq!(window_start(&method(0xcbc0, 0x7b0)), Some(0x7294_0000_0000));
    assert_eq!(window_start(&method(0xcbc0, 0x2a4)), None);
    assert_eq!(window_start(&method(0xc8b5, 0x2a0)), None);
}
