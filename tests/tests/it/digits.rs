//! The digits sample on the command line: its image is the input, and its scores are the output, as NPY files.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test panics when it fails")]

use std::path::Path;
use whole_program_tests::{root, run};

/// Returns the elements of an NPY file of version 1. Bytes 8 and 9 are the length of the header.
fn elements(npy: &[u8]) -> &[u8] {
    assert_eq!(&npy[..8], b"\x93NUMPY\x01\x00");
    &npy[10 + usize::from(u16::from_le_bytes([npy[8], npy[9]]))..]
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes
        .chunks_exact(4)
        .map(|b| f32::from_le_bytes(b.try_into().unwrap()))
        .collect()
}

fn best(scores: &[f32]) -> usize {
    (0..scores.len())
        .max_by(|a, b| scores[*a].total_cmp(&scores[*b]))
        .unwrap()
}

/// Replays the sample with the image of a file, or as recorded. Returns its scores.
fn scores(image: Option<&Path>) -> Vec<f32> {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("scores.npy");
    let sample = root().join("sample-traces/digits.kine");
    let (input, output) = (
        image.map(|i| format!("image={}", i.display())),
        format!("logits={}", out.display()),
    );
    let mut line = vec!["replay", sample.to_str().unwrap(), "--on", "software:mali-g71"];
    line.extend(["--output", &output, "--json"]);
    if let Some(i) = &input {
        line.extend(["--input", i]);
    }
    let ended = run(line);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let parsed_json = ended.json();
    assert_eq!(
        (&parsed_json["outcome"], &parsed_json["computed"]),
        (&"match".into(), &true.into())
    );
    let npy = std::fs::read(&out).unwrap();
    let header = String::from_utf8_lossy(&npy[..128]).into_owned();
    assert!(header.contains("'<f4'") && header.contains("(10,)"), "{header}");
    floats(elements(&npy))
}

#[test]
fn digit_replay_matches_reference_scores() {
    let data = root().join("sample-traces/digits");
    let read_held_out = |name: &str| std::fs::read(data.join("held-out").join(name)).unwrap();
    let (images, reference) = (read_held_out("images.npy"), read_held_out("scores.npy"));
    let (images, reference) = (elements(&images), floats(elements(&reference)));

    let digit = data.join("digit.npy");
    let pixels = floats(elements(&std::fs::read(&digit).unwrap()));
    let same = |ink: &[u8]| ink.iter().zip(&pixels).all(|(i, p)| f32::from(*i) / 16.0 == *p);
    let digit_index = images.chunks_exact(64).position(same).unwrap();

    let recorded = scores(None);
    for (image, at) in [(None, 1), (Some(digit.as_path()), digit_index)] {
        let got = scores(image);
        let expected = &reference[at * 10..at * 10 + 10];
        assert!(got.iter().zip(expected).all(|(a, b)| (a - b).abs() <= 1e-4), "{got:?}");
        assert_eq!(best(&got), best(expected));
        assert_eq!(image.is_none(), got == recorded);
    }
    assert_eq!((best(&recorded), best(&scores(Some(&digit)))), (2, 7));
}
