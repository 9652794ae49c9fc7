//! A described format as a small value: the description is kept once per process.

use super::error::FormatError;
use super::format::{MemoryName, PageTableFormat};
use super::raw::RawFormat;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Mutex, PoisonError};

/// Maximum number of different descriptions that a process keeps. They are never freed, so that a format is as cheap to
/// pass on as a number.
const MAX_DESCRIPTIONS: usize = 1024;

/// A description and its text.
struct Description {
    text: String,
    format: PageTableFormat,
}

static DESCRIPTIONS: Mutex<Vec<&'static Description>> = Mutex::new(Vec::new());

/// A format of page tables that a description defines. A recording holds the text of the description.
#[derive(Clone, Copy)]
pub struct DescribedFormat(&'static Description);

impl DescribedFormat {
    /// Reads a description, a TOML text.
    ///
    /// # Errors
    /// If the text is too long, is no description, or the process has read too many different ones.
    pub fn parse(text: &str) -> Result<Self, FormatError> {
        let find = |all: &[&'static Description]| all.iter().copied().find(|d| d.text == text);
        let all = DESCRIPTIONS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = find(&all) {
            return Ok(Self(known));
        }
        drop(all);
        let format = PageTableFormat::parse(text)?;
        let mut all = DESCRIPTIONS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = find(&all) {
            return Ok(Self(known));
        }
        if all.len() >= MAX_DESCRIPTIONS {
            return Err(FormatError::TooMany {
                limit: MAX_DESCRIPTIONS,
            });
        }
        let text = text.to_owned();
        let kept: &'static Description = Box::leak(Box::new(Description { text, format }));
        all.push(kept);
        Ok(Self(kept))
    }

    /// Returns the same format for a dump of another memory.
    ///
    /// # Errors
    /// The same as [`DescribedFormat::parse`], or if the format has one memory only.
    pub fn with_memory(self, memory: MemoryName) -> Result<Self, FormatError> {
        if self.0.format.memory == Some(memory) {
            return Ok(self);
        }
        let error = |reason: String| FormatError::Content {
            line: 1,
            item: self.0.format.name.clone(),
            reason,
        };
        if self.0.format.memory.is_none() {
            return Err(error(
                "its entries name no memory, so a dump has no choice of one".to_owned(),
            ));
        }
        let mut raw: RawFormat = toml::from_str(&self.0.text).map_err(|e| error(e.message().to_owned()))?;
        raw.memory = Some(memory);
        Self::parse(&toml::to_string(&raw).map_err(|e| error(e.to_string()))?)
    }

    /// Returns the description.
    #[inline]
    #[must_use]
    pub fn description(self) -> &'static PageTableFormat {
        &self.0.format
    }

    /// Returns the text of the description.
    #[must_use]
    pub fn text(self) -> &'static str {
        &self.0.text
    }
}

impl fmt::Debug for DescribedFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DescribedFormat").field(&self.0.format.name).finish()
    }
}

impl PartialEq for DescribedFormat {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Eq for DescribedFormat {}

impl Hash for DescribedFormat {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.text.hash(state);
    }
}

impl Serialize for DescribedFormat {
    /// Writes the text of the description.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0.text)
    }
}

impl<'de> Deserialize<'de> for DescribedFormat {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(|e| D::Error::custom(format!("the description of a page-table format: {e}")))
    }
}
