//! The user's key bindings: the format of `keys.toml` in the settings folder. The window defines key names and
//! commands.

use std::fmt;

/// Maximum size of the file, bytes.
pub const MAX_BYTES: usize = 64 << 10;
/// Maximum number of keys of one command.
pub const MAX_KEYS: usize = 4;
/// Maximum length of a key name, bytes.
const MAX_NAME: usize = 24;
/// Maximum number of problems reported for a file.
const MAX_PROBLEMS: usize = 40;

/// A key with modifiers, as it is written: `Ctrl Shift P`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Chord {
    /// With Ctrl (Cmd on macOS).
    pub ctrl: bool,
    /// With Shift.
    pub shift: bool,
    /// With Alt.
    pub alt: bool,
    /// Name of the key, as written.
    pub key: String,
}

impl Chord {
    /// Parses `Ctrl Shift P`; `ctrl+shift+p` means the same. Returns `None` if the text has no key.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut chord = Self {
            ctrl: false,
            shift: false,
            alt: false,
            key: String::new(),
        };
        let mut rest = text.trim();
        while let Some((word, behind)) = modifier(rest) {
            match word {
                "ctrl" | "cmd" => chord.ctrl = true,
                "shift" => chord.shift = true,
                _ => chord.alt = true,
            }
            rest = behind;
        }
        let sound = !rest.is_empty()
            && rest.len() <= MAX_NAME
            && !rest.contains(|c: char| c.is_control() || c.is_whitespace())
            && (rest == "+" || !rest.starts_with('+'));
        chord.key = rest.to_owned();
        sound.then_some(chord)
    }
}

/// Returns the modifier at the start of a text, and the rest after the separator. A final `+` is the key itself.
fn modifier(text: &str) -> Option<(&'static str, &str)> {
    for word in ["ctrl", "cmd", "shift", "alt"] {
        let Some((head, behind)) = text.split_at_checked(word.len()) else {
            continue;
        };
        let rest = behind.trim_start();
        if !head.eq_ignore_ascii_case(word) || (rest.len() == behind.len() && !rest.starts_with('+')) {
            continue;
        }
        let parted = rest.strip_prefix('+').map(str::trim_start).filter(|r| !r.is_empty());
        return Some((word, parted.unwrap_or(rest)));
    }
    None
}

impl fmt::Display for Chord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (on, word) in [(self.ctrl, "Ctrl "), (self.shift, "Shift "), (self.alt, "Alt ")] {
            if on {
                f.write_str(word)?;
            }
        }
        f.write_str(&self.key)
    }
}

/// The contents of a key bindings file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeysFile {
    /// Command ids, sorted, with the keys of each. An empty list means that the command has no key.
    pub commands: Vec<(String, Vec<Chord>)>,
    /// Ignored entries, one line each.
    pub problems: Vec<String>,
}

/// Why a file cannot be used at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeysError {
    /// The file is too long.
    #[error("the file has {0} bytes, too many for a file of keys")]
    TooLong(usize),
    /// The file is not TOML.
    #[error("{0}")]
    Form(String),
}

/// Returns a text of the file, shortened and escaped for one line of a message.
fn escape_line(text: &str) -> String {
    let short: String = text.chars().take(40).collect();
    let dots = if short.len() < text.len() { "…" } else { "" };
    format!("{:?}", short + dots)
}

impl KeysFile {
    /// Parses a file. Unusable entries are reported as problems; the rest is kept.
    ///
    /// # Errors
    /// Returns an error if the file is longer than [`MAX_BYTES`] or is not TOML.
    pub fn parse(text: &str) -> Result<Self, KeysError> {
        if text.len() > MAX_BYTES {
            return Err(KeysError::TooLong(text.len()));
        }
        let table: toml::Table = toml::from_str(text).map_err(|e| KeysError::Form(e.to_string()))?;
        let mut out = Self::default();
        for (id, value) in table {
            let keys = match value {
                toml::Value::String(s) => vec![s],
                toml::Value::Array(all) if all.iter().all(toml::Value::is_str) => {
                    all.iter().filter_map(|v| v.as_str().map(str::to_owned)).collect()
                }
                _ => {
                    out.add_problem(format!(
                        "{}: the value must be a text such as \"Ctrl K\" or a list of such texts",
                        escape_line(&id)
                    ));
                    continue;
                }
            };
            let keys: Vec<String> = keys.into_iter().filter(|k| !k.trim().is_empty()).collect();
            if keys.len() > MAX_KEYS {
                out.add_problem(format!(
                    "{}: {} keys are too many for one command; only the first {MAX_KEYS} are used",
                    escape_line(&id),
                    keys.len()
                ));
            }
            let (mut chords, wanted) = (Vec::new(), keys.len().min(MAX_KEYS));
            for key in keys.iter().take(MAX_KEYS) {
                match Chord::parse(key) {
                    Some(c) if !chords.contains(&c) => chords.push(c),
                    Some(_) => {}
                    None => out.add_problem(format!("{}: there is no key {}", escape_line(&id), escape_line(key))),
                }
            }
            // A command keeps its default keys if none of its keys can be parsed.
            if wanted == 0 || !chords.is_empty() {
                out.commands.push((id, chords));
            }
        }
        Ok(out)
    }

    /// Adds a problem line.
    pub fn add_problem(&mut self, line: String) {
        match self.problems.len() {
            n if n < MAX_PROBLEMS => self.problems.push(line),
            MAX_PROBLEMS => self.problems.push("more errors of this kind are not listed".into()),
            _ => {}
        }
    }

    /// Returns the text of the file.
    #[must_use]
    pub fn text(&self) -> String {
        let mut table = toml::Table::new();
        for (id, keys) in &self.commands {
            let mut keys = keys.iter().map(|k| toml::Value::String(k.to_string()));
            let value = match (keys.next(), keys.len()) {
                (Some(one), 0) => one,
                (first, _) => toml::Value::Array(first.into_iter().chain(keys).collect()),
            };
            table.insert(id.clone(), value);
        }
        let lines = toml::to_string(&table).unwrap_or_default();
        format!(
            "# Keys of commands that differ from the defaults: \"Ctrl Shift P\", several as a list, none as \
             [].\n{lines}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortcut_spellings_are_normalized() {
        let normalize = |t: &str| Chord::parse(t).map(|c| c.to_string());
        assert_eq!(normalize("Ctrl Shift P").as_deref(), Some("Ctrl Shift P"));
        assert_eq!(normalize(" ctrl+shift + p").as_deref(), Some("Ctrl Shift p"));
        assert_eq!(normalize("alt  Left").as_deref(), Some("Alt Left"));
        for plus in ["Ctrl +", "ctrl++", "Ctrl+ +"] {
            assert_eq!(normalize(plus).as_deref(), Some("Ctrl +"), "{plus}");
        }
        assert_eq!(
            normalize("Ctrl"),
            Some("Ctrl".into()),
            "the window reports an unknown key"
        );
        assert_eq!(normalize("CtrlP"), Some("CtrlP".into()));
        assert_eq!(
            (normalize(""), normalize("Ctrl "), normalize("a\nb")),
            (None, Some("Ctrl".into()), None)
        );
        assert_eq!(
            (normalize(&"x".repeat(25)), normalize("ctrl + + x"), normalize("a b")),
            (None, None, None)
        );
    }

    #[test]
    fn invalid_key_entries_are_reported_and_others_apply() {
        let text = "fit = \"F2\"\nundo = [\"Ctrl Z\", \"Ctrl U\"]\nredo = []\nopen = 7\nhelp = [1]\nquit = \"\\u0007\"\n\
                    back = [\"1\", \"2\", \"3\", \"4\", \"5\"]\nplan = \"\"";
        let read = KeysFile::parse(text).unwrap();
        let keys_of = |id: &str| {
            let found = read.commands.iter().find(|c| c.0 == id);
            found.map(|c| c.1.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        assert_eq!(keys_of("fit"), Some(vec!["F2".into()]));
        assert_eq!(keys_of("undo"), Some(vec!["Ctrl Z".into(), "Ctrl U".into()]));
        assert_eq!((keys_of("redo"), keys_of("plan")), (Some(vec![]), Some(vec![])));
        assert_eq!((keys_of("open"), keys_of("help"), keys_of("quit")), (None, None, None));
        assert_eq!(keys_of("back").map(|k| k.len()), Some(MAX_KEYS));
        assert_eq!(read.problems.len(), 4, "{:?}", read.problems);
        assert!(matches!(KeysFile::parse("= no"), Err(KeysError::Form(_))));
        let long = "#".repeat(MAX_BYTES + 1);
        assert_eq!(KeysFile::parse(&long), Err(KeysError::TooLong(MAX_BYTES + 1)));
    }

    #[test]
    fn many_key_file_problems_are_folded_into_few_lines() {
        let text: String = (0..500).map(|n| format!("c{n} = {n}\n")).collect();
        let read = KeysFile::parse(&text).unwrap();
        assert_eq!((read.commands.len(), read.problems.len()), (0, MAX_PROBLEMS + 1));
    }

    #[test]
    fn keys_file_round_trips() {
        let read = KeysFile::parse("a = \"Ctrl +\"\nb = []\nc = [\"'\", \"\\\"\"]\n\"d e\" = \"]\"").unwrap();
        assert_eq!(read.commands.len(), 4);
        assert_eq!(KeysFile::parse(&read.text()).as_ref(), Ok(&read), "{}", read.text());
    }
}
