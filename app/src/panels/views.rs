//! State of each panel, stored next to the open document and not in it.

use super::api_trace::{kernel, launches};
use super::common::actions::{PanelStates, UiActions};
use super::compare;
use super::contents::{memory, screen};
use super::driver_trace::{address_space, objects, push_buffer};
use super::gpu::{jobs, page_tables, register, shader};
use super::recording::{events, notebook, plots, timeline};
use super::runs::{campaign, inputs, pipeline, tune};
use super::wasm;
use kinescope_session::Document;
use std::any::{Any, TypeId};

/// The open document and everything around it that the table of panels needs.
pub struct PanelContext<'a> {
    /// The document.
    pub doc: &'a mut Document,
    /// The state of each panel.
    pub views: &'a mut Views,
    /// The actions that panels request.
    pub actions: &'a mut UiActions,
}

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
    /// State of the Objects panel.
    pub objects: objects::View,
    /// State of the Address space panel.
    pub address_space: address_space::View,
    /// State of the Push buffer panel.
    pub push_buffer: push_buffer::View,
    /// State of the Shader panel.
    pub shader: shader::View,
    /// State of the Inputs panel.
    pub inputs: inputs::View,
    /// State of the Screen panel.
    pub screen: screen::View,
    /// State of the Tune panel.
    pub tune: tune::View,
    /// State of the Pipeline panel.
    pub pipeline: pipeline::View,
    /// State of the Campaign panel.
    pub campaign: campaign::View,
    /// State of the WebAssembly panel.
    pub wasm: wasm::View,
}

impl Views {
    /// Returns the views for another document: pipelines and campaigns belong to none.
    #[must_use]
    pub fn for_another_document(self) -> Self {
        Self {
            pipeline: self.pipeline,
            campaign: self.campaign,
            ..Self::default()
        }
    }

    /// Drops what was computed from a shorter reading of the recording. Places, filters and choices stay.
    pub fn forget_results(&mut self, doc: &Document) {
        self.timeline.forget_results();
        self.events.forget_results();
        self.launches.forget_results();
        self.kernel.keep_code(doc);
        self.registers.forget_results();
        self.memory.forget_results();
        self.plots.forget_results();
        self.objects.forget_results();
        self.address_space.forget_results();
        self.inputs.forget_results();
        self.compare.reset();
        self.screen = screen::View::default();
    }
}

impl PanelStates for Views {
    fn state_mut(&mut self, of: TypeId) -> Option<&mut dyn Any> {
        // Every field is named, so that no state is forgotten.
        let Self {
            timeline,
            events,
            registers,
            memory,
            notebook,
            plots,
            tables,
            compare,
            jobs,
            launches,
            kernel,
            objects,
            address_space,
            push_buffer,
            shader,
            inputs,
            screen,
            tune,
            pipeline,
            campaign,
            wasm,
        } = self;
        let states: [&mut dyn Any; 21] = [
            timeline,
            events,
            registers,
            memory,
            notebook,
            plots,
            tables,
            compare,
            jobs,
            launches,
            kernel,
            objects,
            address_space,
            push_buffer,
            shader,
            inputs,
            screen,
            tune,
            pipeline,
            campaign,
            wasm,
        ];
        states.into_iter().find(|state| (**state).type_id() == of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completions_find_the_state_of_their_panel_by_its_type() {
        let mut views = Views::default();
        views.events.filter = "submit".to_owned();
        let found = views.state_mut(TypeId::of::<events::View>());
        let found = found.and_then(|state| state.downcast_mut::<events::View>());
        assert_eq!(found.map(|view| view.filter.as_str()), Some("submit"));
        assert!(views.state_mut(TypeId::of::<Views>()).is_none());
    }
}
