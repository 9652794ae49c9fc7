//! The lanes of saved filters: matches are searched once, off the interface thread.

use crate::document::{Document, lanes};
use crate::panels::panel_context::UiActions;
use std::sync::Arc;
use trace_core::filter::Query;

/// Starts to search the matches of filter lanes, if they are not known.
pub fn find_matches(doc: &mut Document, asks: &mut UiActions) {
    if !doc.can_filter() {
        return;
    }
    for text in doc.lanes_to_find() {
        let query = match Query::parse(&text) {
            Ok(q) => q,
            Err(e) => {
                doc.lanes.set_error(text, &e);
                continue;
            }
        };
        let (recording, facts, of) = (Arc::clone(&doc.recording), Arc::clone(&doc.facts), text.clone());
        let progress = asks.start_work(format!("looking for {text}"), move |progress| {
            let found = lanes::search(&query, &recording, &facts, progress);
            Box::new(move |desk| desk.doc.lanes.set_result(&of, found))
        });
        doc.lanes.set_pending(text, progress);
    }
}
