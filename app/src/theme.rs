//! The look of the window: colours with one meaning each, fonts, spacing, and the few widgets that every panel shares.

pub mod columns;
pub mod field;
pub mod focus;
pub mod fonts;
pub mod horizontal_scroll;
pub mod icons;
pub mod plot;
pub mod rows;
pub mod table_keys;
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

/// Choice of the window's colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ThemeChoice {
    /// Light marks on a dark background.
    #[default]
    Dark,
    /// Dark marks on a light background.
    Light,
    /// Bright marks on black: text at 7 to 1 and more, edges around the selection.
    Contrast,
}

impl ThemeChoice {
    /// Every theme, in the order in which one key cycles through them.
    pub const ALL: [Self; 3] = [Self::Dark, Self::Light, Self::Contrast];

    /// Returns its name in settings and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Dark => "dark",
            Self::Light => "light",
            Self::Contrast => "contrast",
        }
    }

    /// Returns the theme with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|t| t.name() == name)
    }

    /// Returns the theme after this one; after the last comes the first.
    #[must_use]
    pub fn next(self) -> Self {
        match self {
            Self::Dark => Self::Light,
            Self::Light => Self::Contrast,
            Self::Contrast => Self::Dark,
        }
    }

    fn file(self) -> &'static str {
        match self {
            Self::Dark => include_str!("../../assets/themes/dark.toml"),
            Self::Light => include_str!("../../assets/themes/light.toml"),
            Self::Contrast => include_str!("../../assets/themes/contrast.toml"),
        }
    }

    /// Returns the theme of these visuals, identified by the background of panels, which differs in every theme.
    fn holding(visuals: &Visuals) -> Self {
        let has = |t: &Self| Palette::for_theme(*t).panel == visuals.panel_fill;
        let by_light = if visuals.dark_mode { Self::Dark } else { Self::Light };
        Self::ALL.into_iter().find(has).unwrap_or(by_light)
    }
}

/// A theme's colours. Each has one meaning.
#[derive(Clone, Debug)]
pub struct Palette {
    /// Background of everything.
    pub background: Color32,
    /// Background of panels.
    pub panel: Color32,
    /// Buttons, fields, headers.
    pub raised: Color32,
    /// Under the pointer.
    pub hover: Color32,
    /// Lines between items.
    pub line: Color32,
    /// Text.
    pub text: Color32,
    /// Text of less importance.
    pub quiet: Color32,
    /// Background of the selection.
    pub selection: Color32,
    /// The most important button.
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
    /// A poll, idle time, a folded part.
    pub poll: Color32,
    /// An error, a divergence, a difference.
    pub error: Color32,
    /// What only the first of two recordings has.
    pub only_a: Color32,
    /// What only the second has.
    pub only_b: Color32,
    /// A warning.
    pub warning: Color32,
    /// Edited by the user.
    pub edited: Color32,
    /// Whether the selection also has an edge.
    pub outlined: bool,
    /// Lines of a plot, in the order in which they are assigned.
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
    outlined: bool,
    lines: [String; 6],
}

impl Palette {
    /// Parses the colours that a theme file names.
    ///
    /// # Errors
    /// Returns the TOML reader's message, or the name of the colour that is not `#RRGGBB`.
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
            outlined: file.outlined,
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
            outlined: false,
            lines: [ink; 6],
        }
    }

    /// Returns the colours of a theme.
    #[must_use]
    pub fn for_theme(theme: ThemeChoice) -> &'static Self {
        static ALL: [OnceLock<Palette>; 3] = [const { OnceLock::new() }; 3];
        let [dark, light, contrast] = &ALL;
        let place = match theme {
            ThemeChoice::Dark => dark,
            ThemeChoice::Light => light,
            ThemeChoice::Contrast => contrast,
        };
        place.get_or_init(|| Self::parse(theme.file()).unwrap_or_else(|_| Self::fallback(theme != ThemeChoice::Light)))
    }

    /// Returns the colours that these visuals were made with.
    #[must_use]
    pub fn holding(visuals: &Visuals) -> &'static Self {
        Self::for_theme(ThemeChoice::holding(visuals))
    }
}

/// Strength of marks that are less important than others of their kind: 0 is the background, 1 the full colour.
pub const SOFT: f32 = 0.9;
/// Strength of disabled items; they are as readable as other text.
const DISABLED: f32 = 0.85;

/// Returns the colours of this part of the window.
#[must_use]
pub fn palette(ui: &egui::Ui) -> &'static Palette {
    Palette::holding(ui.visuals())
}

/// Returns the font of normal text.
#[must_use]
pub fn body() -> FontId {
    FontId::new(13.0, FontFamily::Proportional)
}

/// Returns the font of less important text: column headers, hints.
#[must_use]
pub fn small() -> FontId {
    FontId::new(11.5, FontFamily::Proportional)
}

/// Returns the font of group titles.
#[must_use]
pub fn strong() -> FontId {
    FontId::new(11.5, FontFamily::Name("semibold".into()))
}

/// Returns the font of numbers, addresses, code.
#[must_use]
pub fn mono() -> FontId {
    FontId::new(12.0, FontFamily::Monospace)
}

/// Returns the font of numbers on an axis or in a lane.
#[must_use]
pub fn mono_small() -> FontId {
    FontId::new(10.5, FontFamily::Monospace)
}

/// Installs the fonts and a theme in a context.
pub fn install(ctx: &egui::Context, theme: ThemeChoice) {
    ctx.set_fonts(fonts::definitions());
    choose(ctx, theme);
}

/// Chooses a theme. The toolkit knows only dark and light, so the high-contrast theme is its dark one.
pub fn choose(ctx: &egui::Context, theme: ThemeChoice) {
    let which = match theme {
        ThemeChoice::Dark | ThemeChoice::Contrast => egui::Theme::Dark,
        ThemeChoice::Light => egui::Theme::Light,
    };
    ctx.set_style_of(which, style(theme));
    ctx.set_theme(which);
}

fn style(theme: ThemeChoice) -> egui::Style {
    let p = Palette::for_theme(theme);
    let dark = theme != ThemeChoice::Light;
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

/// Returns the WCAG contrast of two opaque colours, 1 to 21.
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
mod tests;
