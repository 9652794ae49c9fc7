//! Tests of the themes' colours: contrast here, colour-vision deficiencies in `vision.rs`.

use super::*;

mod vision;

/// Returns a colour drawn with opacity `part` over a background.
fn over(c: Color32, part: f32, ground: Color32) -> Color32 {
    let m = |a: u8, b: u8| (f32::from(a) * part + f32::from(b) * (1.0 - part)).round() as u8;
    Color32::from_rgb(m(c.r(), ground.r()), m(c.g(), ground.g()), m(c.b(), ground.b()))
}

/// Returns every pair of colours in use: its purpose, the mark, its background, the minimum contrast.
fn pairs(p: &Palette, theme: ThemeChoice) -> Vec<(String, Color32, Color32, f32)> {
    const MARK: f32 = 3.0;
    // WCAG 2 requires this of text at level AA, and at AAA for the high-contrast theme.
    let text = if theme == ThemeChoice::Contrast { 7.0 } else { 4.5 };
    let grounds = [("panel", p.panel), ("raised", p.raised), ("selection", p.selection)];
    let texts = [
        ("text", p.text),
        ("quiet", p.quiet),
        ("read", p.read),
        ("write", p.write),
        ("interrupt", p.interrupt),
        ("job", p.job),
        ("error", p.error),
        ("only in the first", p.only_a),
        ("only in the second", p.only_b),
        ("warning", p.warning),
        ("edited", p.edited),
    ];
    let mut out = vec![
        (
            "text on a job".to_owned(),
            p.on_accent,
            over(p.job, SOFT, p.panel),
            text,
        ),
        ("text on the main button".to_owned(), p.on_accent, p.accent, text),
        ("number of the current event".to_owned(), p.panel, p.text, text),
        ("set bit".to_owned(), p.background, p.write, text),
        ("set bit, read".to_owned(), p.background, p.read, text),
        ("text under the pointer".to_owned(), p.text, p.hover, text),
        ("quiet under the pointer".to_owned(), p.quiet, p.hover, text),
        ("edge of a phase, hatch".to_owned(), p.poll, p.panel, MARK),
        ("edge of a phase inside".to_owned(), p.poll, p.raised, MARK),
        ("pages not recorded".to_owned(), p.poll, p.background, MARK),
    ];
    for (ground, at) in grounds {
        for (name, ink) in texts {
            out.push((format!("{name} on {ground}"), ink, at, text));
        }
        out.push((format!("poll on {ground}"), p.poll, at, MARK));
    }
    for (name, ink) in [("text", p.text), ("quiet", p.quiet)] {
        let faded = over(ink, DISABLED, p.panel);
        out.push((format!("{name}, disabled"), faded, p.panel, text));
    }
    for (n, ink) in p.lines.into_iter().enumerate() {
        out.push((format!("line {n} of a plot"), ink, p.panel, MARK));
        out.push((format!("line {n} of a plot, selected"), ink, p.selection, MARK));
    }
    for (name, ink) in texts {
        out.push((format!("soft {name}"), over(ink, SOFT, p.panel), p.panel, MARK));
        out.push((format!("{name} in the map of pages"), ink, p.background, MARK));
    }
    out
}

#[test]
fn every_colour_pair_in_use_has_enough_contrast() {
    for theme in ThemeChoice::ALL {
        let p = Palette::parse(theme.file()).unwrap();
        for (purpose, ink, ground, min) in pairs(&p, theme) {
            let c = contrast(ink, ground);
            assert!(c >= min, "{theme:?} {purpose}: {c:.2} to 1, {ink:?} on {ground:?}");
        }
    }
}

/// Edges of fields and lines between items are marks only in the high-contrast theme: in the others they are dimmed.
#[test]
fn edges_are_seen_in_high_contrast() {
    let p = Palette::for_theme(ThemeChoice::Contrast);
    assert!(p.outlined);
    for ground in [p.panel, p.raised, p.hover, p.selection, p.background] {
        let c = contrast(p.line, ground);
        assert!(c >= 3.0, "{c:.2} on {ground:?}");
    }
}

#[test]
fn theme_is_identified_by_background_and_name() {
    for theme in ThemeChoice::ALL {
        assert_eq!(ThemeChoice::holding(&style(theme).visuals), theme);
        assert_eq!(ThemeChoice::from_name(theme.name()), Some(theme));
    }
    assert_eq!(ThemeChoice::from_name("blue"), None);
    assert_eq!(
        ThemeChoice::ALL
            .map(ThemeChoice::next)
            .map(ThemeChoice::next)
            .map(ThemeChoice::next),
        ThemeChoice::ALL
    );
}

#[test]
fn invalid_colour_is_reported() {
    let e = Palette::parse("background = \"blue\"").unwrap_err();
    assert!(e.contains("background"), "{e}");
}
