//! Saved settings: theme, recent files and dismissed hints.

use crate::theme::ThemeChoice;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Range of the interface scale, percent.
pub const SCALES: std::ops::RangeInclusive<u32> = 50..=300;
/// Minimum size of the window, points.
pub const MIN_WINDOW: [f32; 2] = [800.0, 500.0];
/// Default size of the window, points.
const FIRST_WINDOW: [f32; 2] = [1280.0, 800.0];
/// Maximum size and coordinate that is accepted from a file.
const MAX_WINDOW: f32 = 16_384.0;
/// Maximum number of recent files kept.
const MAX_RECENT: usize = 12;

/// Geometry of the window in desktop points, without the interface scale.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WindowPlace {
    /// Upper left corner; `None`: the desktop chooses it, or does not report it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<[f32; 2]>,
    /// Inner size when the window is not maximised.
    pub size: [f32; 2],
    /// Whether the window is maximised.
    pub maximized: bool,
}

impl Default for WindowPlace {
    fn default() -> Self {
        Self {
            at: None,
            size: FIRST_WINDOW,
            maximized: false,
        }
    }
}

/// User settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// Whether the light theme was chosen. Versions with two themes read and write this.
    pub light: bool,
    /// Name of the chosen theme; empty: the file is from a version with two themes.
    pub theme_name: String,
    /// Interface scale, percent; 0: default.
    pub scale: u32,
    /// Dismissed hints, which do not return.
    pub hints_read: u32,
    /// Whether the tour was taken or dismissed, so that it is not offered again.
    pub tour_seen: bool,
    /// Recent recordings, latest first.
    pub recent: Vec<PathBuf>,
    /// Name of the newest crash report that was shown to the user.
    pub crash_told: String,
    /// Last geometry of the window; `None`: default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<WindowPlace>,
    #[serde(skip)]
    folder: Option<PathBuf>,
    #[serde(skip)]
    first_run: bool,
}

impl Settings {
    /// Loads the settings from a folder; without a folder nothing is saved.
    #[must_use]
    pub fn load(folder: Option<PathBuf>) -> Self {
        let file = folder.as_ref().map(|f| f.join("settings.toml"));
        let text = file.as_ref().and_then(|f| std::fs::read_to_string(f).ok());
        let first_run = file.is_some_and(|f| !f.exists());
        let mut s: Self = text.and_then(|t| toml::from_str(&t).ok()).unwrap_or_default();
        s.recent.truncate(MAX_RECENT);
        s.folder = folder;
        s.first_run = first_run;
        s
    }

    /// Returns whether no settings were saved before this run.
    #[must_use]
    pub fn is_first_run(&self) -> bool {
        self.first_run
    }

    /// Returns the user's settings folder.
    #[must_use]
    pub fn user_folder() -> Option<PathBuf> {
        directories::ProjectDirs::from("", "", "kinescope").map(|d| d.config_dir().to_owned())
    }

    /// Returns the folder of the settings, if they are saved.
    #[must_use]
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// Returns the chosen theme.
    #[must_use]
    pub fn theme(&self) -> ThemeChoice {
        let by_light = if self.light {
            ThemeChoice::Light
        } else {
            ThemeChoice::Dark
        };
        ThemeChoice::from_name(&self.theme_name).unwrap_or(by_light)
    }

    /// Sets the theme.
    pub fn set_theme(&mut self, theme: ThemeChoice) {
        self.light = theme == ThemeChoice::Light;
        theme.name().clone_into(&mut self.theme_name);
    }

    /// Returns the interface scale, percent, within [`SCALES`].
    #[must_use]
    pub fn scale(&self) -> u32 {
        match self.scale {
            0 => 100,
            s => s.clamp(*SCALES.start(), *SCALES.end()),
        }
    }

    /// Returns the saved window geometry, limited to what a desktop can have.
    #[must_use]
    pub fn window(&self) -> WindowPlace {
        let kept = self.window.unwrap_or_default();
        let [width, height] = kept.size;
        let sound = width.is_finite() && height.is_finite();
        WindowPlace {
            at: kept.at.filter(|at| at.iter().all(|x| x.abs() <= MAX_WINDOW)),
            size: match sound {
                true => [
                    width.clamp(MIN_WINDOW[0], MAX_WINDOW),
                    height.clamp(MIN_WINDOW[1], MAX_WINDOW),
                ],
                false => FIRST_WINDOW,
            },
            maximized: kept.maximized,
        }
    }

    /// Adds a recording to the front of the recent files. Stores its absolute path, because the next run may start in
    /// another folder.
    pub fn add_recent(&mut self, path: &Path) {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        self.recent.retain(|r| *r != path);
        self.recent.insert(0, path);
        self.recent.truncate(MAX_RECENT);
        self.save();
    }

    /// Saves the settings.
    pub fn save(&self) {
        let Some(folder) = &self.folder else { return };
        let text = toml::to_string(self).unwrap_or_default();
        let done = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(folder.join("settings.toml"), text));
        if let Err(e) = done {
            crate::log::push(
                crate::log::Level::Warning,
                format!("settings were not saved in {}: {e}", folder.display()),
            );
        }
    }

    /// Returns the workspace file of a recording.
    #[must_use]
    pub fn workspace_path(&self, recording: &Path) -> Option<PathBuf> {
        self.file_for(recording, "workspaces", "toml")
    }

    /// Returns the fallback journal of a recording, for when its folder cannot be written.
    #[must_use]
    pub fn journal_path(&self, recording: &Path) -> Option<PathBuf> {
        self.file_for(recording, "journals", "kine-edits")
    }

    fn file_for(&self, recording: &Path, folder: &str, extension: &str) -> Option<PathBuf> {
        let whole = recording.canonicalize().unwrap_or_else(|_| recording.to_owned());
        let digest = blake3::hash(whole.as_os_str().as_encoded_bytes()).to_hex();
        let name = recording.file_name()?.to_string_lossy().into_owned();
        let folder = self.folder.as_ref()?.join(folder);
        Some(folder.join(format!("{name}-{}.{extension}", &digest[..12])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_restored_and_recent_files_are_unique() {
        let dir = tempfile::tempdir().unwrap();
        let mut s = Settings::load(Some(dir.path().into()));
        s.set_theme(ThemeChoice::Contrast);
        s.scale = 130;
        s.add_recent(Path::new("/a"));
        s.add_recent(Path::new("/b"));
        s.add_recent(Path::new("/a"));
        let back = Settings::load(Some(dir.path().into()));
        assert_eq!(back.recent, [PathBuf::from("/a"), PathBuf::from("/b")]);
        assert_eq!((back.theme(), back.scale()), (ThemeChoice::Contrast, 130));
        assert!(
            back.workspace_path(Path::new("/a"))
                .is_some_and(|p| p.starts_with(dir.path()))
        );
        assert!(Settings::load(None).workspace_path(Path::new("/a")).is_none());
    }

    #[test]
    fn older_and_newer_settings_still_load() {
        let load = |text: &str| {
            let dir = tempfile::tempdir().unwrap();
            std::fs::write(dir.path().join("settings.toml"), text).unwrap();
            Settings::load(Some(dir.path().into()))
        };
        let before = load("light = true\nhints_read = 3\nrecent = [\"/a\"]\n");
        assert_eq!(
            (before.theme(), before.scale(), before.hints_read),
            (ThemeChoice::Light, 100, 3)
        );
        assert_eq!(load("light = false\n").theme(), ThemeChoice::Dark);
        let later = load("light = true\ntheme_name = \"sepia\"\nscale = 100000\nhints_read = 2\n");
        assert_eq!(
            (later.theme(), later.scale(), later.hints_read),
            (ThemeChoice::Light, 300, 2)
        );
        let mut chosen = Settings::default();
        for theme in ThemeChoice::ALL {
            chosen.set_theme(theme);
            assert_eq!((chosen.theme(), chosen.light), (theme, theme == ThemeChoice::Light));
        }
    }

    #[test]
    fn window_placement_is_restored_within_bounds() {
        let dir = tempfile::tempdir().unwrap();
        let mut s = Settings::load(Some(dir.path().into()));
        assert_eq!(s.window(), WindowPlace::default());
        let placement = WindowPlace {
            at: Some([-300.0, 40.0]),
            size: [1024.0, 700.0],
            maximized: true,
        };
        s.window = Some(placement);
        s.save();
        assert_eq!(Settings::load(Some(dir.path().into())).window(), placement);
        let far = WindowPlace {
            at: Some([f32::NAN, 0.0]),
            size: [1.0, 1e9],
            maximized: false,
        };
        s.window = Some(far);
        let bounded = s.window();
        assert_eq!((bounded.at, bounded.size), (None, [800.0, 16_384.0]));
    }

    #[test]
    fn recent_files_are_stored_by_absolute_path() {
        let mut s = Settings::load(None);
        s.add_recent(Path::new("traces/a.kine"));
        s.add_recent(&std::env::current_dir().unwrap().join("traces/a.kine"));
        assert_eq!(s.recent, [std::env::current_dir().unwrap().join("traces/a.kine")]);
    }
}
