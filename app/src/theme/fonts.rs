//! The fonts of the window: Inter for words, JetBrains Mono for numbers, Phosphor for icons; without contextual
//! alternates, which replace the characters of the text.

use egui::{FontData, FontDefinitions, FontFamily};
use std::sync::{Arc, OnceLock};

/// The feature of a font that swaps characters by their neighbours: `0x18e0` becomes `0×18e0`, `!=` becomes `≠`.
const ALTERNATES: [u8; 4] = *b"calt";
/// A tag that no shaper requests.
const UNUSED: [u8; 4] = *b"zz00";

fn word(bytes: &[u8], at: usize) -> Option<usize> {
    let b = bytes.get(at..at.checked_add(2)?)?;
    Some(usize::from(u16::from_be_bytes(b.try_into().ok()?)))
}

fn long(bytes: &[u8], at: usize) -> Option<usize> {
    let b = bytes.get(at..at.checked_add(4)?)?;
    usize::try_from(u32::from_be_bytes(b.try_into().ok()?)).ok()
}

/// Returns where the tags of an OpenType font's substitution features stand: table directory, `GSUB`, its feature
/// list.
fn feature_tags(font: &[u8]) -> Option<Vec<usize>> {
    let tables = word(font, 4)?;
    let record = (0..tables)
        .map(|i| 12 + i * 16)
        .find(|at| font.get(*at..at + 4) == Some(b"GSUB".as_slice()))?;
    let table = long(font, record + 8)?;
    let list = table.checked_add(word(font, table.checked_add(6)?)?)?;
    let count = word(font, list)?;
    Some((0..count).map(|i| list + 2 + i * 6).collect())
}

/// Returns the font with its contextual alternates disabled. egui has no option for the features of a font.
fn without_alternates(font: &[u8]) -> Vec<u8> {
    let mut out = font.to_vec();
    for at in feature_tags(font).unwrap_or_default() {
        if let Some(tag) = out.get_mut(at..at + 4).filter(|t| **t == ALTERNATES) {
            tag.copy_from_slice(&UNUSED);
        }
    }
    out
}

/// Returns the text fonts, made once.
fn texts() -> &'static [(&'static str, Vec<u8>); 3] {
    static TEXTS: OnceLock<[(&'static str, Vec<u8>); 3]> = OnceLock::new();
    TEXTS.get_or_init(|| {
        let fonts: [(&str, &[u8]); 3] = [
            ("inter", include_bytes!("../../../assets/fonts/Inter-Regular.otf")),
            (
                "inter-semibold",
                include_bytes!("../../../assets/fonts/Inter-SemiBold.otf"),
            ),
            (
                "jetbrains-mono",
                include_bytes!("../../../assets/fonts/JetBrainsMono-Regular.ttf"),
            ),
        ];
        fonts.map(|(name, bytes)| (name, without_alternates(bytes)))
    })
}

/// The font of the icons.
const PHOSPHOR: &[u8] = include_bytes!("../../../assets/fonts/Phosphor-subset.ttf");

/// Returns every font with its name.
fn all() -> impl Iterator<Item = (&'static str, &'static [u8])> {
    let texts = texts().iter().map(|(n, b)| (*n, b.as_slice()));
    texts.chain([("phosphor", PHOSPHOR)])
}

/// Returns the fonts of a family, names and files, in the order in which a character is looked up.
pub fn for_family(family: &FontFamily) -> Vec<(&'static str, &'static [u8])> {
    static FAMILIES: OnceLock<FontDefinitions> = OnceLock::new();
    let names = FAMILIES.get_or_init(definitions).families.get(family);
    let names = names.map_or(&[][..], Vec::as_slice);
    names.iter().filter_map(|n| all().find(|(name, _)| name == n)).collect()
}

/// Returns the fonts and their families.
pub(super) fn definitions() -> FontDefinitions {
    let mut defs = FontDefinitions::empty();
    for (name, bytes) in all() {
        defs.font_data
            .insert(name.to_owned(), Arc::new(FontData::from_static(bytes)));
    }
    let chain = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
    defs.families.insert(
        FontFamily::Proportional,
        chain(&["inter", "phosphor", "jetbrains-mono"]),
    );
    // The thin space that groups digits is not in the monospaced font; the narrow one of Inter is used.
    defs.families
        .insert(FontFamily::Monospace, chain(&["jetbrains-mono", "inter", "phosphor"]));
    defs.families.insert(
        FontFamily::Name("semibold".into()),
        chain(&["inter-semibold", "inter", "phosphor", "jetbrains-mono"]),
    );
    defs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::theme::{body, install, mono, small, strong};

    #[test]
    fn a_number_in_hex_is_drawn_with_the_letter_x() {
        let ctx = egui::Context::default();
        install(&ctx, crate::theme::ThemeChoice::Dark);
        let mut out = ctx.run_ui(egui::RawInput::default(), |ui| {
            for font in [body(), small(), strong(), mono()] {
                // A letter between letters has no alternate, so the word shows the plain x.
                let glyph = |t: &str, i: usize| {
                    let g = ui
                        .painter()
                        .layout_no_wrap(t.into(), font.clone(), egui::Color32::WHITE);
                    let g = g.rows[0].glyphs[i];
                    (g.uv_rect.size.y, g.uv_rect.offset.y)
                };
                assert_eq!(glyph("0x18e0", 1), glyph("axe", 1), "{font:?}");
            }
        });
        out.textures_delta.clear();
    }

    #[test]
    fn alternates_are_removed_from_every_text_font() {
        let tags = |f: &[u8]| -> Vec<[u8; 4]> {
            let at = feature_tags(f).expect("the font is OpenType with substitutions");
            at.iter().map(|a| f[*a..a + 4].try_into().unwrap()).collect()
        };
        let had = tags(include_bytes!("../../../assets/fonts/Inter-Regular.otf"));
        assert!(had.contains(&ALTERNATES));
        for (name, bytes) in texts() {
            assert!(!tags(bytes).contains(&ALTERNATES), "{name}");
        }
    }

    #[test]
    fn invalid_font_bytes_are_unchanged() {
        for bytes in [&b""[..], b"OTTO", b"OTTO\xff\xff", &[0xff; 64]] {
            assert_eq!(without_alternates(bytes), bytes);
        }
    }
}
