//! The picture that the recorded device showed at the end of the recording, which a replay should show too.

use super::{Picture, PictureError};
use crate::recording::Recording;

impl Recording {
    /// Returns the picture that the device showed at the end, if the recording has one.
    ///
    /// # Errors
    ///
    /// When [`RegisterTraceMetadata::screen_at_end`] is no picture.
    ///
    /// [`RegisterTraceMetadata::screen_at_end`]: crate::recording::RegisterTraceMetadata::screen_at_end
    pub fn expected_screen(&self) -> Result<Option<Picture>, PictureError> {
        let ppm = self.register_trace().and_then(|trace| trace.screen_at_end.as_ref());
        ppm.map(|ppm| Picture::from_ppm(ppm)).transpose()
    }

    /// Sets the picture that the device should show at the end. An API trace has none and stays unchanged.
    pub fn set_expected_screen(&mut self, picture: &Picture) {
        if let Some(trace) = self.register_trace_mut() {
            trace.screen_at_end = Some(picture.to_ppm());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expected_screen_round_trips() {
        let mut r = Recording::default();
        assert_eq!(r.expected_screen(), Ok(None));
        let picture = Picture::new(2, 1, vec![1, 2, 3, 4, 5, 6]).unwrap();
        r.set_expected_screen(&picture);
        assert_eq!(r.expected_screen(), Ok(Some(picture)));
        r.register_trace_mut().unwrap().screen_at_end = Some(b"P5".to_vec());
        assert_eq!(r.expected_screen(), Err(PictureError::NotPpm));
    }
}
