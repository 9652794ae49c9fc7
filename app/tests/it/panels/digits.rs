//! Tests of Inputs with the recording that reads digits: the test paints a digit and replays it.

use crate::common::Window;
use egui_kittest::kittest::Queryable as _;
use kinescope_files::scene::Selection;

fn digits() -> Window {
    let mut w = Window::open_sample("digits.kine");
    w.run("show-inputs");
    w.doc().select(Selection::Buffer("image".into()));
    w.settle();
    w
}

/// Returns the scores that the last replay computed.
fn scores(w: &mut Window) -> Vec<f32> {
    let o = w.doc().replay.outcome.clone().unwrap();
    assert!(o.computed, "{:?}", o.failure);
    let logits = o.outputs.iter().find(|b| b.name == "logits").unwrap();
    let floats = logits.data.chunks_exact(4);
    floats.map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
}

fn best(scores: &[f32]) -> usize {
    (0..scores.len())
        .max_by(|a, b| scores[*a].total_cmp(&scores[*b]))
        .unwrap()
}

fn pixels(w: &mut Window) -> Vec<f32> {
    let (bytes, _) = w.doc().buffer_now("image").unwrap();
    bytes
        .chunks_exact(4)
        .map(|b| f32::from_le_bytes(b.try_into().unwrap()))
        .collect()
}

fn press(w: &mut Window, button: egui::PointerButton, from: egui::Pos2, to: egui::Pos2) {
    let event = |pos, pressed| egui::Event::PointerButton {
        pos,
        button,
        pressed,
        modifiers: egui::Modifiers::NONE,
    };
    w.harness.hover_at(from);
    w.settle();
    w.harness.input_mut().events.push(event(from, true));
    w.harness.step();
    w.harness.hover_at(to);
    w.harness.step();
    w.harness.input_mut().events.push(event(to, false));
    w.settle();
}

/// Regression test: a stroke that began and ended between two frames, such as a trackpad tap, painted nothing.
#[test]
fn taps_and_quick_strokes_paint_from_their_start() {
    let mut w = digits();
    w.click("Clear");
    let rect = w.harness.get_by_label("Picture of image").rect();
    let px = rect.width() / 8.0;
    let at = |x: f32, y: f32| rect.min + egui::vec2((x + 0.5) * px, (y + 0.5) * px);
    let button = |pos, pressed| egui::Event::PointerButton {
        pos,
        button: egui::PointerButton::Primary,
        pressed,
        modifiers: egui::Modifiers::NONE,
    };
    w.harness.hover_at(at(2.0, 2.0));
    w.settle();
    let tap = [button(at(2.0, 2.0), true), button(at(2.0, 2.0), false)];
    w.harness.input_mut().events.extend(tap);
    w.settle();
    let painted = |w: &mut Window| pixels(w).iter().filter(|p| **p == 1.0).count();
    assert_eq!(painted(&mut w), 1);
    w.harness.hover_at(at(5.0, 1.0));
    w.settle();
    let to = at(5.0, 4.0);
    let stroke = [button(at(5.0, 1.0), true), egui::Event::PointerMoved(to)];
    w.harness.input_mut().events.extend(stroke);
    w.harness.step();
    w.harness.input_mut().events.push(button(to, false));
    w.settle();
    assert_eq!(painted(&mut w), 1 + 4);
}

#[test]
fn painted_digit_replays_to_the_network_result() {
    let mut w = digits();
    w.run("replay");
    assert_eq!(best(&scores(&mut w)), 2, "the recorded digit is a two");
    // A stroke down the middle of a cleared picture is a one.
    w.click("Clear");
    assert!(pixels(&mut w).iter().all(|p| *p == 0.0));
    let rect = w.harness.get_by_label("Picture of image").rect();
    let px = rect.width() / 8.0;
    let at = |x: f32, y: f32| rect.min + egui::vec2((x + 0.5) * px, (y + 0.5) * px);
    press(&mut w, egui::PointerButton::Primary, at(3.0, 0.0), at(3.0, 7.0));
    press(&mut w, egui::PointerButton::Primary, at(4.0, 0.0), at(4.0, 7.0));
    press(&mut w, egui::PointerButton::Primary, at(7.0, 3.0), at(7.0, 4.0));
    assert_eq!(pixels(&mut w).iter().filter(|p| **p == 1.0).count(), 18);
    // The right button erases.
    press(&mut w, egui::PointerButton::Secondary, at(7.0, 3.0), at(7.0, 4.0));
    let painted = pixels(&mut w);
    assert_eq!(painted.iter().filter(|p| **p == 1.0).count(), 16);
    assert_eq!(painted.iter().filter(|p| **p == 0.0).count(), 48);
    w.run("replay");
    assert_eq!(best(&scores(&mut w)), 1);
    // The ten scores are bars next to the image.
    let got = scores(&mut w);
    for (digit, score) in got.iter().enumerate() {
        let message = format!("output value {digit} {}", f64::from(*score));
        assert!(w.has(&message), "{message}");
    }
}
