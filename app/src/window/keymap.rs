//! The keymap: default shortcuts of commands, and the user's changes in `keys.toml`.

use super::command::Command;
use super::shortcut::{Shortcut, ctrl, ctrl_shift};
use super::workspace_file::write_atomic;
use egui::{Event, Key};
use kinescope_files::keys::{KeysFile, MAX_BYTES, MAX_KEYS};
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Name of the file in the settings folder.
pub const FILE: &str = "keys.toml";

/// Shortcuts of every command. A key runs at most one command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keymap {
    commands: Vec<Keys>,
    /// Every shortcut and the index of its command in table order, for the lookup of a press.
    by_key: Vec<(Shortcut, usize)>,
    /// Ignored parts of the user's file, one message each.
    pub problems: Vec<String>,
    /// Whether the file is unusable. It is renamed before another one is written.
    damaged: bool,
}

/// Shortcuts of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Keys {
    id: &'static str,
    title: String,
    first: Option<Shortcut>,
    now: Vec<Shortcut>,
}

impl Keymap {
    /// Creates a keymap with the default shortcuts.
    #[must_use]
    pub fn with_defaults<A>(commands: &[Command<A>]) -> Self {
        let keys = |c: &Command<A>| Keys {
            id: c.id,
            title: c.full_title(),
            first: c.shortcut,
            now: c.shortcut.into_iter().collect(),
        };
        let mut out = Self {
            commands: commands.iter().map(keys).collect(),
            ..Self::default()
        };
        out.rebuild_index();
        out
    }

    /// Loads the keymap: the default shortcuts, changed by the file in `folder`.
    #[must_use]
    pub fn load<A>(commands: &[Command<A>], folder: Option<&Path>) -> Self {
        let mut out = Self::with_defaults(commands);
        let Some(path) = folder.map(|f| f.join(FILE)) else {
            return out;
        };
        let mut text = String::new();
        let read = std::fs::File::open(&path).and_then(|f| f.take(MAX_BYTES as u64 + 1).read_to_string(&mut text));
        let file = match read {
            Ok(_) => KeysFile::parse(&text).map_err(|e| e.to_string()),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return out,
            Err(e) => Err(e.to_string()),
        };
        match file {
            Ok(file) => out.apply_file(file),
            Err(why) => {
                out.problems.push(format!("the file is ignored: {}", why.trim_end()));
                out.damaged = true;
            }
        }
        out
    }

    /// Applies the settings of a file.
    fn apply_file(&mut self, file: KeysFile) {
        self.problems = file.problems;
        let mut given: Vec<Option<Vec<Shortcut>>> = vec![None; self.commands.len()];
        for (id, chords) in file.commands {
            let Some(at) = self.find_position(&id) else {
                self.problems.push(format!("{id:?} is not a command of this version"));
                continue;
            };
            let first = self.commands.get(at).and_then(|c| c.first);
            let mut keys = Vec::new();
            for chord in &chords {
                match Shortcut::from_chord(chord) {
                    None => self.problems.push(format!("{id}: \"{chord}\" is not a key")),
                    Some(s) => match s.reserved_reason().filter(|_| first != Some(s)) {
                        Some(why) => self.problems.push(format!("{id}: {} {why}", s.text())),
                        None if keys.contains(&s) => {}
                        None => keys.push(s),
                    },
                }
            }
            if (chords.is_empty() || !keys.is_empty())
                && let Some(to) = given.get_mut(at)
            {
                *to = Some(keys);
            }
        }
        // If two commands have the same key, the first one in the table gets it. Keys from the file take precedence
        // over default keys.
        let mut owners: Vec<(Shortcut, usize)> = Vec::new();
        for (at, keys) in given.iter_mut().enumerate() {
            for s in keys.iter_mut().flat_map(std::mem::take).collect::<Vec<_>>() {
                match owners.iter().find(|o| o.0 == s).map(|o| o.1) {
                    Some(other) => {
                        let (a, b) = (self.title(other), self.title(at));
                        self.problems
                            .push(format!("{} is listed twice: {a} keeps it, {b} loses it", s.text()));
                    }
                    None => {
                        owners.push((s, at));
                        if let Some(k) = keys {
                            k.push(s);
                        }
                    }
                }
            }
        }
        for (at, keys) in given.into_iter().enumerate() {
            let own = self.commands.get(at).and_then(|c| c.first).into_iter().collect();
            let keys = keys.unwrap_or_else(|| {
                let mut own: Vec<Shortcut> = own;
                if let Some((s, other)) = own.first().and_then(|s| owners.iter().find(|o| o.0 == *s)).copied() {
                    let (a, b) = (self.title(other), self.title(at));
                    self.problems
                        .push(format!("{} now runs {a}, so {b} has no key", s.text()));
                    own.clear();
                }
                own
            });
            if let Some(c) = self.commands.get_mut(at) {
                c.now = keys;
            }
        }
        self.rebuild_index();
    }

    fn rebuild_index(&mut self) {
        let all = self.commands.iter().enumerate();
        self.by_key = all.flat_map(|(at, c)| c.now.iter().map(move |s| (*s, at))).collect();
    }

    fn find_position(&self, id: &str) -> Option<usize> {
        self.commands.iter().position(|c| c.id == id)
    }

    fn title(&self, at: usize) -> String {
        self.commands
            .get(at)
            .map_or_else(String::new, |c| format!("\"{}\"", c.title))
    }

    /// Returns the table index of the command whose shortcut the event presses, and the shortcut.
    #[must_use]
    pub fn find_pressed(&self, event: &Event) -> Option<(usize, Shortcut)> {
        let pressed = Shortcut::from_event(event)?;
        let of = |s: Shortcut| self.by_key.iter().find(|k| k.0 == s).map(|k| (k.1, s));
        of(pressed).or_else(|| {
            // Many programs use Ctrl+Y for redo, and as many use Ctrl+Shift+Z.
            let same = ctrl(Key::Y) == Some(pressed);
            let (at, s) = ctrl_shift(Key::Z).filter(|_| same).and_then(of)?;
            (self.commands.get(at)?.first == Some(s)).then_some((at, pressed))
        })
    }

    /// Returns the shortcuts of a command.
    #[must_use]
    pub fn shortcuts(&self, id: &str) -> &[Shortcut] {
        let c = self.commands.iter().find(|c| c.id == id);
        c.map_or(&[], |c| c.now.as_slice())
    }

    /// Returns the shortcuts of a command as display text; empty: it has none.
    #[must_use]
    pub fn text(&self, id: &str) -> String {
        let all: Vec<String> = self.shortcuts(id).iter().map(|s| s.text()).collect();
        all.join(", ")
    }

    /// Returns the default shortcut of a command.
    #[must_use]
    pub fn first(&self, id: &str) -> Option<Shortcut> {
        self.commands.iter().find(|c| c.id == id).and_then(|c| c.first)
    }

    /// Returns the id and title of the command that has this shortcut.
    #[must_use]
    pub fn find_owner(&self, key: Shortcut) -> Option<(&'static str, &str)> {
        let at = self.by_key.iter().find(|k| k.0 == key)?.1;
        self.commands.get(at).map(|c| (c.id, c.title.as_str()))
    }

    /// Returns whether a command's shortcuts differ from the defaults.
    #[must_use]
    pub fn is_changed(&self, id: &str) -> bool {
        let c = self.commands.iter().find(|c| c.id == id);
        c.is_some_and(|c| c.now.as_slice() != c.first.as_slice())
    }

    /// Returns the number of commands whose shortcuts differ from the defaults.
    #[must_use]
    pub fn count_changed(&self) -> usize {
        self.commands.iter().filter(|c| self.is_changed(c.id)).count()
    }

    /// Replaces the shortcuts of a command, [`MAX_KEYS`] at most. Removes them from other commands.
    pub fn set(&mut self, id: &str, keys: &[Shortcut]) {
        let Some(at) = self.find_position(id) else { return };
        for (n, c) in self.commands.iter_mut().enumerate() {
            if n == at {
                c.now = keys.iter().copied().take(MAX_KEYS).collect();
            } else {
                c.now.retain(|s| !keys.contains(s));
            }
        }
        self.rebuild_index();
    }

    /// Adds a shortcut to a command. Returns `false` if the command has the maximum number already.
    pub fn add(&mut self, id: &str, key: Shortcut) -> bool {
        let mut keys = self.shortcuts(id).to_vec();
        if !keys.contains(&key) {
            keys.push(key);
        }
        let fits = keys.len() <= MAX_KEYS;
        if fits {
            self.set(id, &keys);
        }
        fits
    }

    /// Restores the default shortcut of a command and removes it from other commands.
    pub fn reset(&mut self, id: &str) {
        let first = self.first(id);
        self.set(id, first.as_slice());
    }

    /// Restores the default shortcuts of all commands.
    pub fn reset_all(&mut self) {
        for c in &mut self.commands {
            c.now = c.first.into_iter().collect();
        }
        self.rebuild_index();
    }

    /// Returns the differences from the default shortcuts, as the file stores them.
    #[must_use]
    pub fn file(&self) -> KeysFile {
        let changed = self.commands.iter().filter(|c| self.is_changed(c.id));
        let mut commands: Vec<_> = changed
            .map(|c| (c.id.to_owned(), c.now.iter().map(|s| s.chord()).collect()))
            .collect();
        commands.sort();
        KeysFile {
            commands,
            problems: Vec::new(),
        }
    }

    /// Saves the differences in a folder. Renames an unreadable file first and returns its new path.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn save(&mut self, folder: &Path) -> std::io::Result<Option<PathBuf>> {
        let path = folder.join(FILE);
        std::fs::create_dir_all(folder)?;
        let aside = self.damaged.then(|| folder.join("keys.toml.damaged"));
        if let Some(to) = &aside {
            std::fs::rename(&path, to)?;
        }
        write_atomic(&path, &self.file().text())?;
        self.damaged = false;
        self.problems.clear();
        Ok(aside)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::window::command::Menu;
    use crate::window::shortcut::{alt, key, shift};
    use egui::Modifiers;

    fn table() -> Vec<Command<()>> {
        let row = |id, shortcut| Command {
            id,
            title: id,
            menu: Menu::Go,
            shortcut,
            enabled: |()| true,
            run: |(), _| {},
        };
        vec![
            row("one", key(Key::A)),
            row("two", ctrl(Key::B)),
            row("three", None),
            row("redo", ctrl_shift(Key::Z)),
            row("stop", key(Key::Escape)),
        ]
    }

    fn loaded(text: &str) -> (Keymap, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(FILE), text).unwrap();
        (Keymap::load(&table(), Some(folder.path())), folder)
    }

    fn press(key: Key, modifiers: Modifiers) -> Event {
        Event::Key {
            key,
            physical_key: None,
            pressed: true,
            repeat: false,
            modifiers,
        }
    }

    #[test]
    fn default_shortcuts_apply_without_a_keys_file() {
        let map = Keymap::load(&table(), Some(Path::new("/nowhere/at/all")));
        assert_eq!((map.text("one").as_str(), map.text("three").as_str()), ("A", ""));
        assert_eq!((map.count_changed(), map.problems.len()), (0, 0));
        assert_eq!(map, Keymap::load(&table(), None));
    }

    #[test]
    fn only_changed_shortcuts_are_saved_and_restored() {
        let (mut map, folder) = loaded("");
        map.set("one", key(Key::N).as_slice());
        assert!(map.add("one", alt(Key::ArrowUp).unwrap()));
        map.set("two", &[]);
        map.save(folder.path()).unwrap();
        let text = std::fs::read_to_string(folder.path().join(FILE)).unwrap();
        assert!(text.ends_with("one = [\"N\", \"Alt Up\"]\ntwo = []\n"), "{text}");
        let back = Keymap::load(&table(), Some(folder.path()));
        assert_eq!((back.text("one").as_str(), back.text("two").as_str()), ("N, Alt ↑", ""));
        assert_eq!((back.count_changed(), back.problems.len()), (2, 0));
        map.reset_all();
        map.save(folder.path()).unwrap();
        assert_eq!(
            Keymap::load(&table(), Some(folder.path())),
            Keymap::with_defaults(&table())
        );
    }

    #[test]
    fn key_is_bound_to_one_command_only() {
        let mut map = Keymap::with_defaults(&table());
        let a = key(Key::A).unwrap();
        assert_eq!(map.find_owner(a), Some(("one", "one")));
        map.set("three", &[a]);
        assert_eq!(
            (map.find_owner(a), map.text("one").as_str()),
            (Some(("three", "three")), "")
        );
        assert_eq!(map.find_pressed(&press(Key::A, Modifiers::NONE)), Some((2, a)));
        map.reset("one");
        assert_eq!((map.text("one").as_str(), map.text("three").as_str()), ("A", ""));
        for (n, k) in [Key::F1, Key::F2, Key::F3, Key::F4, Key::F5].into_iter().enumerate() {
            assert_eq!(map.add("three", key(k).unwrap()), n < MAX_KEYS);
        }
        assert_eq!(map.shortcuts("three").len(), MAX_KEYS);
    }

    #[test]
    fn invalid_keymap_entries_are_reported_and_skipped() {
        let (map, _f) = loaded(
            "one = \"Ctrl Foo\"\ntwo = [\"Ctrl K\", \"F40\"]\ngone = \"G\"\nthree = [\"Ctrl C\", \"Tab\", \"Enter\", \"Escape\"]\nstop = \"Escape\"",
        );
        assert_eq!(map.text("one"), "A", "the command keeps its default key");
        assert_eq!((map.text("two").as_str(), map.text("three").as_str()), ("Ctrl K", ""));
        assert_eq!(map.text("stop"), "Escape");
        let message = map.problems.join("\n");
        for part in [
            "one: \"Ctrl Foo\" is not a key",
            "two: \"F40\" is not a key",
            "\"gone\" is not a command of this version",
            "three: Ctrl C is for the clipboard",
            "three: Tab goes from field to field",
            "three: Enter is for buttons, lists and fields",
            "three: Escape stops and closes things",
        ] {
            assert!(message.contains(part), "{part} in {message}");
        }
        assert_eq!(map.problems.len(), 7, "{message}");
    }

    #[test]
    fn key_conflicts_name_the_command_that_gets_the_key() {
        let (map, _f) = loaded("two = \"F2\"\nthree = [\"F2\", \"A\"]");
        assert_eq!((map.text("two").as_str(), map.text("three").as_str()), ("F2", "A"));
        assert_eq!(map.text("one"), "");
        let message = map.problems.join("\n");
        assert!(
            message.contains("F2 is listed twice: \"two\" keeps it, \"three\" loses it"),
            "{message}"
        );
        assert!(
            message.contains("A now runs \"three\", so \"one\" has no key"),
            "{message}"
        );
    }

    #[test]
    fn invalid_keys_file_is_renamed_before_saving() {
        let (mut map, folder) = loaded("this is = = not it");
        assert!(map.problems[0].starts_with("the file is ignored"), "{:?}", map.problems);
        assert_eq!(map.count_changed(), 0);
        map.set("one", shift(Key::F9).as_slice());
        let aside = map.save(folder.path()).unwrap().unwrap();
        assert_eq!(std::fs::read_to_string(aside).unwrap(), "this is = = not it");
        assert_eq!(Keymap::load(&table(), Some(folder.path())).text("one"), "Shift F9");
        assert_eq!(map.save(folder.path()).unwrap(), None);
    }

    #[test]
    fn ctrl_y_is_redo_unless_rebound() {
        let mut map = Keymap::with_defaults(&table());
        let y = press(Key::Y, Modifiers::COMMAND);
        assert_eq!(map.find_pressed(&y).map(|p| p.0), Some(3));
        map.set("one", ctrl(Key::Y).as_slice());
        assert_eq!(map.find_pressed(&y).map(|p| p.0), Some(0));
        map.reset("one");
        map.set("redo", &[]);
        assert_eq!(map.find_pressed(&y), None);
    }
}
