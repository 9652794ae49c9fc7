//! State of a stream's capture.

use super::graph::MAX_DEPENDENCIES;
use crate::{Decoder, Encoder, HandleNumber, MessageError};

/// State of a stream's capture: the answer to a [`crate::CallId::capture_info`] request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CaptureInfo {
    /// `CUstreamCaptureStatus`. The other fields are empty for a stream without a capture.
    pub status: u32,
    /// Number of the capture.
    pub id: u64,
    /// Graph that is captured into.
    pub graph: HandleNumber,
    /// Nodes that the stream's next work comes after.
    pub nodes: Vec<HandleNumber>,
    /// Data of the edges from these nodes; empty if no edge has data.
    pub edges: Vec<u64>,
}

impl CaptureInfo {
    /// Appends the state to an answer.
    pub fn write(&self, encoder: &mut Encoder) {
        encoder.write(self.status);
        encoder.write(self.id);
        encoder.write(self.graph);
        encoder.write_list(&self.nodes);
        encoder.write_list(&self.edges);
    }

    /// Reads a state.
    ///
    /// # Errors
    /// If the answer is not one, a list exceeds [`MAX_DEPENDENCIES`], or the lists differ in length.
    pub fn read(decoder: &mut Decoder<'_>) -> Result<Self, MessageError> {
        let (status, id, graph) = (decoder.read()?, decoder.read()?, decoder.read()?);
        let nodes: Vec<HandleNumber> = decoder.read_list("the list of dependencies", MAX_DEPENDENCIES)?;
        let at = decoder.offset();
        let edges: Vec<u64> = decoder.read_list("the list of edge data", MAX_DEPENDENCIES)?;
        if !edges.is_empty() && edges.len() != nodes.len() {
            return Err(MessageError::Unknown {
                what: "the length of the list of edge data",
                value: edges.len() as u64,
                at,
            });
        }
        Ok(Self {
            status,
            id,
            graph,
            nodes,
            edges,
        })
    }
}
