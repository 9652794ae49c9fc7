//! State of each panel, stored next to the open document and not in it.

use super::compare::view as compare;
use super::events::view as events;
use super::inputs::view as inputs;
use super::jobs;
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

/// State of each panel.
#[derive(Default)]
pub struct Views {
    /// State of the timeline.
    pub timeline: timeline::View,
    /// State of the Events panel.
    pub events: events::View,
    /// State of the Register panel.
    pub registers: register::View,
    /// State of the Memory panel.
    pub memory: memory::View,
    /// State of the Notebook panel.
    pub notebook: notebook::View,
    /// State of the Plots panel.
    pub plots: plots::View,
    /// State of the Page tables panel.
    pub tables: page_tables::View,
    /// State of the Compare panel.
    pub compare: compare::View,
    /// State of the Jobs panel.
    pub jobs: jobs::View,
    /// State of the Launches panel.
    pub launches: launches::View,
    /// State of the Kernel panel.
    pub kernel: kernel::View,
    /// State of the Shader panel.
    pub shader: shader::View,
    /// State of the Inputs panel.
    pub inputs: inputs::View,
    /// State of the Screen panel.
    pub screen: screen::View,
    /// State of the Tune panel.
    pub tune: tune::View,
}
