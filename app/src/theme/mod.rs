//! How the window looks: colours with one meaning each, fonts, spacing, and the few widgets that every panel shares.

pub mod field;
pub mod fonts;
pub mod icons;
pub mod plot;
pub mod rows;
pub mod text;
pub mod widgets;

use egui::{Color32, CornerRadius, FontFamily, FontId, Margin, Stroke, TextStyle, Visuals};
use serde::Deserialize;
use std::sync::OnceLock;

/// Height of a row of a table or list, points.
pub const ROW: f32 = 20.0;
/// Padding of a panel, points.
pub const PAD: f32 = 8.0;
/// Space between groups, points.
pub const GROUP: f32 = 12.0;

/// Colours of the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ThemeChoice {
    /// Light marks on a dark ground.
    #[default]
    Dark,
    /// Dark marks on a light ground.
    Light,
}

/// A theme's colours. Each means one thing.
#[derive(Clone, Debug)]
pub struct Palette {
    /// Behind everything.
    pub background: Color32,
    /// Panels.
    pub panel: Color32,
    /// Buttons, fields, headers.
    pub raised: Color32,
    /// Under the pointer.
    pub hover: Color32,
    /// Lines between things.
    pub line: Color32,
    /// Text.
    pub text: Color32,
    /// Text that steps back.
    pub quiet: Color32,
    /// Behind what is selected.
    pub selection: Color32,
    /// The one button that matters most.
    pub accent: Color32,
    /// Text on it.
    pub on_accent: Color32,
    /// A read.
    pub read: Color32,
    /// A write.
    pub write: Color32,
    /// An interrupt.
    pub interrupt: Color32,
    /// A job.
    pub job: Color32,
    /// A poll, idle time, something folded.
    pub poll: Color32,
    /// An error, a divergence, a difference.
    pub error: Color32,
    /// What the first of two recordings has alone.
    pub only_a: Color32,
    /// What the second has alone.
    pub only_b: Color32,
    /// A warning.
    pub warning: Color32,
    /// Edited by the person.
    pub edited: Color32,
    /// Lines of a plot, in the order in which they are given out.
    pub lines: [Color32; 6],
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct PaletteFile {
    background: String,
    panel: String,
    raised: String,
    hover: String,
    line: String,
    text: String,
    quiet: String,
    selection: String,
    accent: String,
    on_accent: String,
    read: String,
    write: String,
    interrupt: String,
    job: String,
    poll: String,
    error: String,
    only_a: String,
    only_b: String,
    warning: String,
    edited: String,
    lines: [String; 6],
}

impl Palette {
    /// The colours that a theme file names, or why it cannot be read.
    ///
    /// # Errors
    /// The TOML reader's message, or the name of the colour that is not `#RRGGBB`.
    pub fn parse(toml_text: &str) -> Result<Self, String> {
        let file: PaletteFile = toml::from_str(toml_text).map_err(|e| e.to_string())?;
        let colour = |name: &str, text: &str| {
            Color32::from_hex(text).map_err(|_| format!("{name} = {text:?} is not a colour of the form #RRGGBB"))
        };
        Ok(Self {
            background: colour("background", &file.background)?,
            panel: colour("panel", &file.panel)?,
            raised: colour("raised", &file.raised)?,
            hover: colour("hover", &file.hover)?,
            line: colour("line", &file.line)?,
            text: colour("text", &file.text)?,
            quiet: colour("quiet", &file.quiet)?,
            selection: colour("selection", &file.selection)?,
            accent: colour("accent", &file.accent)?,
            on_accent: colour("on_accent", &file.on_accent)?,
            read: colour("read", &file.read)?,
            write: colour("write", &file.write)?,
            interrupt: colour("interrupt", &file.interrupt)?,
            job: colour("job", &file.job)?,
            poll: colour("poll", &file.poll)?,
            error: colour("error", &file.error)?,
            only_a: colour("only_a", &file.only_a)?,
            only_b: colour("only_b", &file.only_b)?,
            warning: colour("warning", &file.warning)?,
            edited: colour("edited", &file.edited)?,
            lines: {
                let mut all = [Color32::TRANSPARENT; 6];
                for (to, text) in all.iter_mut().zip(&file.lines) {
                    *to = colour("lines", text)?;
                }
                all
            },
        })
    }

    fn fallback(dark: bool) -> Self {
        let (ground, ink) = if dark {
            (Color32::BLACK, Color32::WHITE)
        } else {
            (Color32::WHITE, Color32::BLACK)
        };
        Self {
            background: ground,
            panel: ground,
            raised: ground,
            hover: Color32::GRAY,
            line: Color32::GRAY,
            text: ink,
            quiet: ink,
            selection: Color32::GRAY,
            accent: ink,
            on_accent: ground,
            read: Color32::BLUE,
            write: Color32::ORANGE,
            interrupt: Color32::PURPLE,
            job: Color32::GREEN,
            poll: Color32::GRAY,
            error: Color32::RED,
            only_a: Color32::ORANGE,
            only_b: Color32::BLUE,
            warning: Color32::YELLOW,
            edited: Color32::PURPLE,
            lines: [ink; 6],
        }
    }

    /// The colours of a theme.
    #[must_use]
    pub fn of(theme: ThemeChoice) -> &'static Self {
        static DARK: OnceLock<Palette> = OnceLock::new();
        static LIGHT: OnceLock<Palette> = OnceLock::new();
        match theme {
            ThemeChoice::Dark => DARK.get_or_init(|| {
                Self::parse(include_str!("../../../assets/themes/dark.toml")).unwrap_or_else(|_| Self::fallback(true))
            }),
            ThemeChoice::Light => LIGHT.get_or_init(|| {
                Self::parse(include_str!("../../../assets/themes/light.toml")).unwrap_or_else(|_| Self::fallback(false))
            }),
        }
    }
}

/// How strong marks are that step back behind others of their kind: 0 is the ground, 1 the colour itself.
pub const SOFT: f32 = 0.9;
/// How strong what cannot be used is; it reads as well as other words.
const DISABLED: f32 = 0.85;

/// The colours that hold in this part of the window.
#[must_use]
pub fn palette(ui: &egui::Ui) -> &'static Palette {
    Palette::of(if ui.visuals().dark_mode {
        ThemeChoice::Dark
    } else {
        ThemeChoice::Light
    })
}

/// Words.
#[must_use]
pub fn body() -> FontId {
    FontId::new(13.0, FontFamily::Proportional)
}

/// Words that step back: column heads, hints.
#[must_use]
pub fn small() -> FontId {
    FontId::new(11.5, FontFamily::Proportional)
}

/// Words that lead a group.
#[must_use]
pub fn strong() -> FontId {
    FontId::new(11.5, FontFamily::Name("semibold".into()))
}

/// Numbers, addresses, code.
#[must_use]
pub fn mono() -> FontId {
    FontId::new(12.0, FontFamily::Monospace)
}

/// Numbers on an axis or in a lane.
#[must_use]
pub fn mono_small() -> FontId {
    FontId::new(10.5, FontFamily::Monospace)
}

/// Gives a context the fonts and both themes, and chooses one.
pub fn install(ctx: &egui::Context, theme: ThemeChoice) {
    ctx.set_fonts(fonts::definitions());
    for (choice, which) in [
        (ThemeChoice::Dark, egui::Theme::Dark),
        (ThemeChoice::Light, egui::Theme::Light),
    ] {
        ctx.set_style_of(which, style(choice));
    }
    choose(ctx, theme);
}

/// Chooses between the themes that [`install`] gave.
pub fn choose(ctx: &egui::Context, theme: ThemeChoice) {
    ctx.set_theme(match theme {
        ThemeChoice::Dark => egui::Theme::Dark,
        ThemeChoice::Light => egui::Theme::Light,
    });
}

fn style(theme: ThemeChoice) -> egui::Style {
    let p = Palette::of(theme);
    let dark = theme == ThemeChoice::Dark;
    let mut s = egui::Style {
        visuals: if dark { Visuals::dark() } else { Visuals::light() },
        ..Default::default()
    };
    s.text_styles = [
        (TextStyle::Small, small()),
        (TextStyle::Body, body()),
        (TextStyle::Button, body()),
        (
            TextStyle::Heading,
            FontId::new(14.0, FontFamily::Name("semibold".into())),
        ),
        (TextStyle::Monospace, mono()),
    ]
    .into();
    s.animation_time = 0.08;
    s.scroll_animation = egui::style::ScrollAnimation::none();
    s.spacing.item_spacing = egui::vec2(8.0, 4.0);
    s.spacing.button_padding = egui::vec2(8.0, 3.0);
    s.spacing.interact_size = egui::vec2(24.0, 24.0);
    s.spacing.window_margin = Margin::same(12);
    s.spacing.menu_margin = Margin::same(6);
    s.spacing.combo_width = 64.0;
    s.spacing.scroll = egui::style::ScrollStyle::thin();
    s.interaction.selectable_labels = false;
    s.interaction.tooltip_delay = 0.35;
    let v = &mut s.visuals;
    v.dark_mode = dark;
    v.override_text_color = None;
    v.weak_text_color = Some(p.quiet);
    v.hyperlink_color = p.read;
    v.faint_bg_color = p.raised;
    v.extreme_bg_color = p.background;
    v.text_edit_bg_color = Some(p.raised);
    v.code_bg_color = p.raised;
    v.warn_fg_color = p.warning;
    v.error_fg_color = p.error;
    v.panel_fill = p.panel;
    v.window_fill = p.panel;
    v.window_stroke = Stroke::new(1.0, p.line);
    v.window_corner_radius = CornerRadius::same(4);
    v.menu_corner_radius = CornerRadius::same(4);
    v.selection.bg_fill = p.selection;
    v.selection.stroke = Stroke::new(1.0, p.text);
    v.disabled_alpha = DISABLED;
    v.text_cursor.blink = false;
    v.striped = false;
    let shadow = egui::Shadow {
        offset: [0, 4],
        blur: 12,
        spread: 0,
        color: Color32::from_black_alpha(if dark { 96 } else { 40 }),
    };
    v.window_shadow = shadow;
    v.popup_shadow = shadow;
    let radius = CornerRadius::same(4);
    let w = &mut v.widgets;
    for (state, fill, stroke, ink) in [
        (&mut w.noninteractive, p.panel, p.line, p.text),
        (&mut w.inactive, p.raised, p.line, p.text),
        (&mut w.hovered, p.hover, p.quiet, p.text),
        (&mut w.active, p.selection, p.quiet, p.text),
        (&mut w.open, p.hover, p.line, p.text),
    ] {
        state.bg_fill = fill;
        state.weak_bg_fill = fill;
        state.bg_stroke = Stroke::new(1.0, stroke);
        state.fg_stroke = Stroke::new(1.0, ink);
        state.corner_radius = radius;
        state.expansion = 0.0;
    }
    s
}

/// WCAG contrast of two opaque colours, 1 to 21.
#[must_use]
pub fn contrast(a: Color32, b: Color32) -> f32 {
    let luminance = |c: Color32| {
        let f = |v: u8| {
            let v = f32::from(v) / 255.0;
            if v <= 0.03928 {
                v / 12.92
            } else {
                ((v + 0.055) / 1.055).powf(2.4)
            }
        };
        0.2126 * f(c.r()) + 0.7152 * f(c.g()) + 0.0722 * f(c.b())
    };
    let (a, b) = (luminance(a), luminance(b));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A colour as it looks through `part` over a ground.
    fn over(c: Color32, part: f32, ground: Color32) -> Color32 {
        let m = |a: u8, b: u8| (f32::from(a) * part + f32::from(b) * (1.0 - part)).round() as u8;
        Color32::from_rgb(m(c.r(), ground.r()), m(c.g(), ground.g()), m(c.b(), ground.b()))
    }

    /// Every pair of colours in use: what it is, the mark, its ground, the least contrast.
    fn pairs(p: &Palette) -> Vec<(String, Color32, Color32, f32)> {
        const TEXT: f32 = 4.5;
        const MARK: f32 = 3.0;
        let grounds = [("panel", p.panel), ("raised", p.raised), ("selection", p.selection)];
        let words = [
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
                "words on a job".to_owned(),
                p.on_accent,
                over(p.job, SOFT, p.panel),
                TEXT,
            ),
            ("words on the main button".to_owned(), p.on_accent, p.accent, TEXT),
            ("the moment's number".to_owned(), p.panel, p.text, TEXT),
            ("a bit that is set".to_owned(), p.background, p.write, TEXT),
            ("a bit that is set, read".to_owned(), p.background, p.read, TEXT),
            ("text under the pointer".to_owned(), p.text, p.hover, TEXT),
            ("quiet under the pointer".to_owned(), p.quiet, p.hover, TEXT),
            ("edge of a phase, hatch".to_owned(), p.poll, p.panel, MARK),
            ("edge of a phase inside".to_owned(), p.poll, p.raised, MARK),
            ("pages not recorded".to_owned(), p.poll, p.background, MARK),
        ];
        for (ground, at) in grounds {
            for (name, ink) in words {
                out.push((format!("{name} on {ground}"), ink, at, TEXT));
            }
            out.push((format!("poll on {ground}"), p.poll, at, MARK));
        }
        for (name, ink) in [("text", p.text), ("quiet", p.quiet)] {
            let faded = over(ink, DISABLED, p.panel);
            out.push((format!("{name}, which cannot be used"), faded, p.panel, TEXT));
        }
        for (n, ink) in p.lines.into_iter().enumerate() {
            out.push((format!("line {n} of a plot"), ink, p.panel, MARK));
            out.push((format!("line {n} of a plot, selected"), ink, p.selection, MARK));
        }
        for (name, ink) in words {
            out.push((format!("soft {name}"), over(ink, SOFT, p.panel), p.panel, MARK));
            out.push((format!("{name} in the map of pages"), ink, p.background, MARK));
        }
        out
    }

    #[test]
    fn every_pair_of_colours_in_use_is_told_apart() {
        for file in [
            include_str!("../../../assets/themes/dark.toml"),
            include_str!("../../../assets/themes/light.toml"),
        ] {
            let p = Palette::parse(file).unwrap();
            for (what, ink, ground, least) in pairs(&p) {
                let c = contrast(ink, ground);
                assert!(c >= least, "{what}: {c:.2} to 1, {ink:?} on {ground:?}");
            }
        }
    }

    #[test]
    fn pairs_stay_apart_for_the_common_colour_vision_deficiencies() {
        // Linear-light projections of Viénot, Brettel and Mollon (1999) for protanopia and deuteranopia.
        let see = |c: Color32, kind: usize| {
            let lin = |v: u8| (f32::from(v) / 255.0).powf(2.2);
            let (r, g, b) = (lin(c.r()), lin(c.g()), lin(c.b()));
            match kind {
                0 => [
                    0.1124 * r + 0.8876 * g,
                    0.1124 * r + 0.8876 * g,
                    0.004 * r - 0.004 * g + b,
                ],
                _ => [
                    0.2928 * r + 0.7072 * g,
                    0.2928 * r + 0.7072 * g,
                    -0.0223 * r + 0.0223 * g + b,
                ],
            }
            .map(|v| v.max(0.0).powf(1.0 / 2.2))
        };
        for theme in [ThemeChoice::Dark, ThemeChoice::Light] {
            let p = Palette::of(theme);
            let lines = |i: usize| p.lines.iter().skip(i + 1).map(move |b| (p.lines[i], *b));
            let lines: Vec<_> = (0..p.lines.len()).flat_map(lines).collect();
            assert_eq!(lines.len(), 15);
            for kind in 0..2 {
                for (a, b) in lines.iter().copied().chain([
                    (p.read, p.write),
                    (p.write, p.interrupt),
                    (p.job, p.interrupt),
                    (p.edited, p.write),
                    (p.only_a, p.only_b),
                    (p.error, p.only_b),
                ]) {
                    let (x, y) = (see(a, kind), see(b, kind));
                    let d: f32 = x.iter().zip(y).map(|(u, v)| (u - v) * (u - v)).sum::<f32>().sqrt();
                    assert!(d > 0.12, "{theme:?} {kind} {a:?} {b:?}: {d}");
                }
            }
        }
    }

    #[test]
    fn a_colour_that_is_none_is_told() {
        let e = Palette::parse("background = \"blue\"").unwrap_err();
        assert!(e.contains("background"), "{e}");
    }
}
