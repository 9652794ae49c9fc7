//! The picture that the recorded device showed at the end of the recording, which a replay should show too.

use super::{Picture, PictureError};
use crate::recording::Recording;

/// Name of the extra with the picture, a binary PPM file.
pub const SCREEN_AT_END: &str = "screen-at-end";

impl Recording {
    /// Returns the picture that the device showed at the end, if the recording has one.
    ///
    /// # Errors
    ///
    /// When the extra is no picture.
    pub fn expected_screen(&self) -> Result<Option<Picture>, PictureError> {
        self.extras
            .get(SCREEN_AT_END)
            .map(|ppm| Picture::from_ppm(ppm))
            .transpose()
    }

    /// Sets the picture that the device should show at the end.
    pub fn set_expected_screen(&mut self, picture: &Picture) {
        self.extras.insert(SCREEN_AT_END.to_owned(), picture.to_ppm());
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
        r.extras.insert(SCREEN_AT_END.into(), b"P5".to_vec());
        assert_eq!(r.expected_screen(), Err(PictureError::NotPpm));
    }
}
