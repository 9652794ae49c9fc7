//! What each panel shows of the open document: kept beside it, not in it.

use super::compare::view as compare;
use super::events::view as events;
use super::inputs::view as inputs;
use super::jobs::view as jobs;
use super::kernel::view as kernel;
use super::launches::view as launches;
use super::memory::view as memory;
use super::notebook;
use super::page_tables::view as page_tables;
use super::plots::view as plots;
use super::register::view as register;
use super::screen::view as screen;
use super::shader::view as shader;
use super::timeline::view as timeline;
use super::tune::view as tune;

/// What each panel shows.
#[derive(Default)]
pub struct Views {
    /// Of the timeline.
    pub timeline: timeline::View,
    /// Of the Events panel.
    pub events: events::View,
    /// Of the Register panel.
    pub registers: register::View,
    /// Of the Memory panel.
    pub memory: memory::View,
    /// Of the Notebook panel.
    pub notebook: notebook::View,
    /// Of the Plots panel.
    pub plots: plots::View,
    /// Of the Page tables panel.
    pub tables: page_tables::View,
    /// Of the Compare panel.
    pub compare: compare::View,
    /// Of the Jobs panel.
    pub jobs: jobs::View,
    /// Of the Launches panel.
    pub launches: launches::View,
    /// Of the Kernel panel.
    pub kernel: kernel::View,
    /// Of the Shader panel.
    pub shader: shader::View,
    /// Of the Inputs panel.
    pub inputs: inputs::View,
    /// Of the Screen panel.
    pub screen: screen::View,
    /// Of the Tune panel.
    pub tune: tune::View,
}
