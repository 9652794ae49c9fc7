//! Tests of completion.

use super::sample;
use crate::filter::{CandidateKind, Query, complete};
use crate::recording::{ApiTraceMetadata, TraceKind};

/// Returns the candidates at the position of `|`.
fn candidates(text: &str) -> Vec<String> {
    let at = text.find('|').unwrap();
    let text = text.replace('|', "");
    let on = sample();
    complete(&text, at, &on.0)
        .candidates
        .into_iter()
        .map(|c| c.text)
        .collect()
}

/// Returns the text after the first candidate was accepted.
fn accept_first(text: &str) -> String {
    let at = text.find('|').unwrap();
    let mut text = text.replace('|', "");
    let c = complete(&text, at, &sample().0);
    text.replace_range(c.replace, &c.candidates[0].text);
    text
}

#[test]
fn condition_start_offers_fields_kinds_and_registers() {
    let all = candidates("|");
    for text in [
        "reg",
        "value",
        "write",
        "job",
        "not",
        "GPU_ID",
        "JS_COMMAND",
        "JS1_HEAD_NEXT",
    ] {
        assert!(all.iter().any(|t| t == text) || all.len() == 200, "{text}: {all:?}");
    }
    assert_eq!(candidates("wr|")[0], "write");
    assert_eq!(candidates("read and wr|")[0], "write");
    assert_eq!(candidates("not ti|")[0], "time");
    assert_eq!(candidates("(val|")[0], "value");
    assert!(candidates("COMMAND_NE|").contains(&"JS1_COMMAND_NEXT".to_owned()));
}

#[test]
fn completion_after_a_name_offers_its_operators() {
    assert_eq!(&candidates("reg |")[..5], ["=", "!=", "=~", "!~", "in"]);
    assert_eq!(&candidates("value |")[..3], ["=", "!=", "<"]);
    assert_eq!(candidates("write |"), ["and", "or"]);
    assert_eq!(candidates("value = 3 |"), ["and", "or"]);
    assert_eq!(candidates("value = 3 a|"), ["and"]);
}

#[test]
fn completion_offers_values_of_the_compared_field() {
    assert_eq!(candidates("reg = js1_command_n|")[0], "JS1_COMMAND_NEXT");
    assert_eq!(candidates("references js1_command_n|")[0], "JS1_COMMAND_NEXT");
    assert_eq!(candidates("references GPU_ID |"), ["and", "or"]);
    assert_eq!(candidates("space = |"), ["gpu", "bar1"]);
    assert_eq!(candidates("irq.line = m|"), ["mmu"]);
    assert!(candidates("kind = |").contains(&"host-write".to_owned()));
    assert!(candidates("block in {MMU, |").contains(&"JOB_SLOT".to_owned()));
    assert!(candidates("value = |").is_empty());
    assert!(candidates("job in 4..|").is_empty());
    assert!(candidates("value = 3|").is_empty());
    assert!(candidates("JS1_COMMAND = |").contains(&"start".to_owned()));
    assert_eq!(candidates("JS1_CONFIG.start_mmu = |"), ["yes", "no"]);
    assert!(candidates("JS1_CONFIG.start_flush = |").contains(&"\"clean+invalidate\"".to_owned()));
}

#[test]
fn names_of_calls_are_completed() {
    let mut on = sample().0;
    on.metadata.kind = TraceKind::Api(ApiTraceMetadata {
        names: vec!["fd_write".into(), "lost calls".into()],
        ..ApiTraceMetadata::default()
    });
    let values = |text: &str| {
        let found = complete(text, text.len(), &on).candidates;
        found.into_iter().map(|c| c.text).collect::<Vec<_>>()
    };
    assert_eq!(values("call.name = "), ["fd_write", "\"lost calls\""]);
    assert_eq!(values("call.name = fd"), ["fd_write"]);
    assert!(values("call.n").contains(&"call.name".to_owned()));
}

#[test]
fn register_fields_are_completed_after_the_dot() {
    let fields = candidates("JS1_CONFIG.start|");
    assert!(fields.contains(&"JS1_CONFIG.start_flush".to_owned()), "{fields:?}");
    assert_eq!(accept_first("js1_config.start_m|"), "JS1_CONFIG.start_mmu");
}

#[test]
fn completion_replaces_the_word_at_the_cursor() {
    assert_eq!(accept_first("wr|ite and read"), "write and read");
    assert_eq!(accept_first("reg = \"GPU_I|\" and read"), "reg = \"GPU_ID\" and read");
    assert_eq!(accept_first("reg =~ 'LATEST_F|"), "reg =~ 'LATEST_FLUSH'");
    assert_eq!(accept_first("value >= 3 an|"), "value >= 3 and");
}

#[test]
fn completion_candidate_has_kind_and_description() {
    let on = sample();
    let c = complete("val", 3, &on.0).candidates.remove(0);
    assert_eq!(
        (c.kind, c.description.as_str()),
        (CandidateKind::Field, "value read or written")
    );
    let c = complete("GPU_ID", 6, &on.0).candidates.remove(0);
    assert_eq!(c.kind, CandidateKind::Register);
    assert!(!c.description.is_empty());
}

#[test]
fn completion_accepts_any_cursor_position() {
    let on = sample();
    let text = "rég = \"x' in {4..9 §§ JS1_CONFIG.start_flush & 0x and not (";
    for at in 0..=text.len() + 2 {
        let c = complete(text, at, &on.0);
        assert!(text.get(c.replace.clone()).is_some(), "{at}: {c:?}");
    }
}

#[test]
fn offered_completions_parse_as_filters() {
    let on = sample();
    for prefix in ["", "JS1_CONFIG.", "AS_", "kin", "J", "GPU"] {
        for c in complete(prefix, prefix.len(), &on.0).candidates {
            if c.kind == CandidateKind::Operator {
                continue;
            }
            let q = Query::parse(&c.text).unwrap_or_else(|e| panic!("{}: {e}", c.text));
            q.compile(&on.0, None).unwrap_or_else(|e| panic!("{}: {e}", c.text));
        }
    }
}
