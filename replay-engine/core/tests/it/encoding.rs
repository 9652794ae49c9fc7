//! Tests that encoded actions decode to the same actions and that damaged bytes are reported.
#![allow(clippy::unwrap_used, reason = "tests fail in this way")]

use proptest::prelude::*;
use replay_core::{
    Action, Actions, DecodeErrorKind, EncodeError, Encoder, MAX_ACTION_BYTES, ReadClass, SLOTS, width_mask,
};

fn encode(actions: &[Action]) -> Vec<u8> {
    let mut room = vec![0; MAX_ACTION_BYTES * actions.len()];
    let mut e = Encoder::new(&mut room);
    for a in actions {
        e.push(a).unwrap();
    }
    let used = e.len();
    room.truncate(used);
    room
}

fn decode(bytes: &[u8]) -> Result<Vec<Action>, replay_core::DecodeError> {
    Actions::new(bytes).collect()
}

/// Returns an action whose event is relative to the previous action's event.
fn any_action() -> impl Strategy<Value = Action> {
    // Most actions have the forms of real recordings: four bytes, space 0, an offset of one or two bytes.
    let width = prop_oneof![1 => Just(1u8), 1 => Just(2u8), 5 => Just(4u8), 1 => Just(8u8)];
    let space = prop_oneof![5 => Just(0u8), 1 => any::<u8>()];
    let offset = prop_oneof![1 => any::<u64>(), 5 => 0u64..0x4100];
    let slot = 0u8..SLOTS as u8;
    (
        prop_oneof![5 => 0u32..0x82, 1 => 0u32..1000],
        space,
        offset,
        width,
        any::<[u64; 3]>(),
        any::<u32>(),
        slot,
        0..13,
    )
        .prop_map(|(event, space, offset, width, v, n, slot, kind)| {
            let m = width_mask(width);
            let (value, mask, limit_ns) = (v[0] & m, v[1] & m, v[2]);
            let read = |class| Action::Read {
                event,
                space,
                offset,
                width,
                class,
                expected: value,
            };
            match kind {
                0 => Action::Write {
                    event,
                    space,
                    offset,
                    width,
                    value,
                },
                1 => Action::WriteSlot {
                    event,
                    space,
                    offset,
                    width,
                    slot,
                },
                2 => read(ReadClass::Equal),
                3 => read(ReadClass::Masked(mask)),
                4 => read(ReadClass::Any),
                5 => read(ReadClass::Feeds(slot)),
                6 => Action::Until {
                    event,
                    reads: n,
                    space,
                    offset,
                    width,
                    mask,
                    expected: value,
                    limit_ns,
                },
                9 => read(ReadClass::Before(mask)),
                7 => Action::WaitInterrupt {
                    event,
                    lines: n,
                    limit_ns,
                },
                8 => Action::Put {
                    event,
                    offset,
                    width,
                    value,
                },
                10 => Action::Copy {
                    event,
                    offset,
                    bytes: n,
                    image: v[1] as u32,
                },
                11 => Action::Check { event, expectation: n },
                _ => Action::Pause { event, ns: limit_ns },
            }
        })
}

fn in_order(actions: Vec<Action>) -> Vec<Action> {
    let mut at = 0;
    actions
        .into_iter()
        .map(|mut a| {
            match &mut a {
                Action::Write { event, .. }
                | Action::WriteSlot { event, .. }
                | Action::Read { event, .. }
                | Action::Until { event, .. }
                | Action::WaitInterrupt { event, .. }
                | Action::Put { event, .. }
                | Action::Copy { event, .. }
                | Action::Check { event, .. }
                | Action::Pause { event, .. } => {
                    at += *event;
                    *event = at;
                }
            }
            a
        })
        .collect()
}

proptest! {
    #[test]
    fn actions_round_trip(actions in prop::collection::vec(any_action(), 0..40)) {
        let actions = in_order(actions);
        let bytes = encode(&actions);
        prop_assert_eq!(decode(&bytes).unwrap(), actions.clone());
        // Each action has one encoding, so decoded bytes encode to the same bytes.
        prop_assert_eq!(encode(&decode(&bytes).unwrap()), bytes.clone());
    }

    #[test]
    fn arbitrary_bytes_decode_as_actions_or_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        match decode(&bytes) {
            Ok(actions) => prop_assert_eq!(encode(&actions), bytes),
            Err(e) => prop_assert!(e.at < bytes.len()),
        }
    }

    #[test]
    fn truncated_action_is_reported(action in any_action()) {
        let bytes = encode(&[action]);
        for cut in 1..bytes.len() {
            let e = decode(&bytes[..cut]).unwrap_err();
            prop_assert_eq!((e.at, e.kind), (0, DecodeErrorKind::Truncated));
        }
        prop_assert!(bytes.len() <= MAX_ACTION_BYTES);
    }
}

#[test]
fn the_common_accesses_take_eight_bytes() {
    let w = Action::Write {
        event: 1,
        space: 0,
        offset: 0x18e0,
        width: 4,
        value: 1,
    };
    let r = Action::Read {
        event: 1,
        space: 0,
        offset: 0x2428,
        width: 4,
        class: ReadClass::Equal,
        expected: 0,
    };
    assert_eq!(encode(&[w]), [0x21, 1, 0xe0, 0x31, 1, 0, 0, 0]);
    assert_eq!(encode(&[r]), [0x23, 1, 0xa8, 0x48, 0, 0, 0, 0]);
}

#[test]
fn encoder_output_matches_the_specification_example() {
    let actions = [
        Action::Write {
            event: 3,
            space: 0,
            offset: 0x30,
            width: 4,
            value: 1,
        },
        Action::WaitInterrupt {
            event: 4,
            lines: 4,
            limit_ns: 5_000_000_000,
        },
        Action::Read {
            event: 4,
            space: 0,
            offset: 0x2c,
            width: 4,
            class: ReadClass::Equal,
            expected: 0x100,
        },
        Action::Read {
            event: 9,
            space: 0,
            offset: 0x38,
            width: 4,
            class: ReadClass::Feeds(0),
            expected: 0xff_ffe0,
        },
        Action::Until {
            event: 12,
            reads: 3,
            space: 0,
            offset: 0x2428,
            width: 4,
            mask: 0xffff_ffff,
            expected: 0,
            limit_ns: 100_000_000,
        },
        Action::Write {
            event: 20,
            space: 1,
            offset: 0x5040,
            width: 8,
            value: 0,
        },
        Action::WriteSlot {
            event: 21,
            space: 0,
            offset: 0x18f0,
            width: 4,
            slot: 0,
        },
        Action::Read {
            event: 23,
            space: 0,
            offset: 0x34,
            width: 4,
            class: ReadClass::Before(0xffff_ffff),
            expected: 4,
        },
    ];
    let hex: Vec<String> = encode(&actions).iter().map(|b| format!("{b:02x}")).collect();
    assert_eq!(
        hex.join(" "),
        "21 03 30 01 00 00 00 08 01 04 80 e4 97 d0 12 23 00 2c 00 01 00 00 26 05 38 e0 ff ff 00 00 27 03 a8 48 \
         00 00 00 00 ff ff ff ff 03 80 c2 d7 2f 71 08 01 c0 a0 01 00 00 00 00 00 00 00 00 22 01 f0 31 00 \
         2a 02 34 04 00 00 00 ff ff ff ff"
    );
    let page = include_str!("../../../../docs/plan.md");
    for line in [
        "21 03 30 01 00 00 00",
        "08 01 04 80 e4 97 d0 12",
        "27 03 a8 48",
        "71 08 01 c0 a0 01",
        "2a 02 34 04 00 00 00 ff ff ff ff",
    ] {
        assert!(page.contains(line), "docs/plan.md lacks {line}");
    }
}

#[test]
fn invalid_actions_are_refused_and_not_encoded() {
    let mut room = [0u8; 16];
    let mut e = Encoder::with_last_event(&mut room, 5);
    let write = |event, width, value| Action::Write {
        event,
        space: 0,
        offset: 0,
        width,
        value,
    };
    assert_eq!(e.push(&write(4, 4, 0)), Err(EncodeError::EventsOutOfOrder));
    assert_eq!(e.push(&write(5, 3, 0)), Err(EncodeError::BadWidth));
    assert_eq!(e.push(&write(5, 4, 1 << 32)), Err(EncodeError::ValueTooWide));
    let slot = Action::WriteSlot {
        event: 5,
        space: 0,
        offset: 0,
        width: 4,
        slot: 8,
    };
    assert_eq!(e.push(&slot), Err(EncodeError::BadSlot));
    assert!(e.is_empty());
    assert_eq!(e.push(&write(5, 8, 0)), Ok(11));
    assert_eq!(e.push(&write(5, 4, 0)), Err(EncodeError::Full));
    assert_eq!(e.len(), 11);
}

#[test]
fn decode_errors_name_their_offset() {
    let ok = encode(&[Action::Pause { event: 0, ns: 1 }]);
    let describe = |tail: &[u8]| {
        let bytes = [ok.as_slice(), tail].concat();
        let mut a = Actions::new(&bytes);
        assert!(a.next().unwrap().is_ok());
        let e = a.next().unwrap().unwrap_err();
        assert_eq!(e.at, ok.len());
        assert!(a.next().is_none(), "the iterator must end after an error");
        e.kind
    };
    assert_eq!(describe(&[0x00, 0]), DecodeErrorKind::UnknownTag(0x00));
    assert_eq!(describe(&[0xa1, 0]), DecodeErrorKind::UnknownTag(0xa1));
    assert_eq!(describe(&[0x19, 0, 0]), DecodeErrorKind::UnknownTag(0x19));
    assert_eq!(describe(&[0x09, 0x80, 0x00, 0]), DecodeErrorKind::BadNumber);
    assert_eq!(describe(&[0x09, 0x80, 0x80, 0x00]), DecodeErrorKind::BadNumber);
    assert_eq!(
        describe(&[9, 0, 255, 255, 255, 255, 255, 255, 255, 255, 255, 2]),
        DecodeErrorKind::BadNumber
    );
    assert_eq!(
        describe(&[9, 0xff, 0xff, 0xff, 0xff, 0x1f, 0]),
        DecodeErrorKind::EventTooLarge
    );
    assert_eq!(
        describe(&[8, 0, 0xff, 0xff, 0xff, 0xff, 0x1f, 0]),
        DecodeErrorKind::CountTooLarge
    );
    assert_eq!(describe(&[0x22, 0, 0, 8]), DecodeErrorKind::BadSlot(8));
    assert_eq!(describe(&[0x61, 0, 0, 0, 0, 0, 0, 0]), DecodeErrorKind::BadNumber);
    assert_eq!(describe(&[0x21, 0]), DecodeErrorKind::Truncated);
}

#[test]
fn memory_changes_are_encoded_as_documented() {
    let put = Action::Put {
        event: 7,
        offset: 0x5040,
        width: 2,
        value: 0xbeef,
    };
    let copy = Action::Copy {
        event: 7,
        offset: 0x6010,
        bytes: 300,
        image: 1,
    };
    assert_eq!(
        encode(&[put, copy]),
        [
            0x1b, 7, 0xc0, 0xa0, 0x01, 0xef, 0xbe, 0x0c, 0, 0x90, 0xc0, 0x01, 0xac, 0x02, 0x01
        ]
    );
    // `Put` and `Copy` have no space, and `Copy` has no width. Tags that set these fields are unknown.
    for tag in [0x5bu8, 0x1c, 0x4c] {
        let bytes = [tag, 7, 1, 1, 1, 1, 1, 1];
        assert_eq!(decode(&bytes).unwrap_err().kind, DecodeErrorKind::UnknownTag(tag));
    }
}

#[test]
fn check_action_is_encoded_as_documented() {
    let check = Action::Check {
        event: 9,
        expectation: 200,
    };
    assert_eq!(encode(&[check]), [0x0d, 9, 0xc8, 0x01]);
    for tag in [0x1du8, 0x4d, 0x8d] {
        let bytes = [tag, 9, 0];
        assert_eq!(decode(&bytes).unwrap_err().kind, DecodeErrorKind::UnknownTag(tag));
    }
    assert_eq!(
        decode(&[0x0d, 9, 0x80, 0x80, 0x80, 0x80, 0x10]).unwrap_err().kind,
        DecodeErrorKind::CountTooLarge
    );
}
