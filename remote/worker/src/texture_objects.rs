//! Texture and surface objects of a session. Their numbers are the driver's own, since kernels get them by value: the
//! worker passes only those to the driver that the session created.

use crate::call_error::{CallError, CallResult};
use crate::lock;
use cuda_driver::{CuObject, INVALID_VALUE, OUT_OF_MEMORY};
use remote_calls::HandleNumber;
use remote_calls::message::ObjectKind;
use std::collections::HashMap;
use std::sync::Mutex;

/// Maximum number of objects of a session: a device has about a million.
const MAX_OBJECTS: usize = 2 << 20;

/// Objects of a session, with the contexts that they end with.
#[derive(Default)]
pub struct TextureObjects {
    objects: Mutex<HashMap<(ObjectKind, CuObject), HandleNumber>>,
}

impl TextureObjects {
    /// Returns an error if no further object can be noted.
    ///
    /// # Errors
    /// `OUT_OF_MEMORY` then.
    pub fn check_room(&self) -> CallResult {
        match lock(&self.objects).len() < MAX_OBJECTS {
            true => Ok(()),
            false => Err(CallError::Result(OUT_OF_MEMORY)),
        }
    }

    /// Notes an object that was created.
    pub fn add(&self, kind: ObjectKind, object: CuObject, context: HandleNumber) {
        lock(&self.objects).insert((kind, object), context);
    }

    /// Checks that an object exists.
    ///
    /// # Errors
    /// `INVALID_VALUE` if the session has none of this number.
    pub fn check(&self, kind: ObjectKind, object: CuObject) -> CallResult {
        match lock(&self.objects).contains_key(&(kind, object)) {
            true => Ok(()),
            false => Err(CallError::Result(INVALID_VALUE)),
        }
    }

    /// Forgets an object that was destroyed.
    pub fn remove(&self, kind: ObjectKind, object: CuObject) {
        lock(&self.objects).remove(&(kind, object));
    }

    /// Forgets the objects of a context that is gone.
    pub fn forget(&self, context: HandleNumber) {
        lock(&self.objects).retain(|_, owner| *owner != context);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use remote_calls::HandleKind;

    #[test]
    fn objects_end_with_their_context() {
        let context = |index| HandleNumber::from_worker(HandleKind::Context, index).unwrap();
        let objects = TextureObjects::default();
        objects.add(ObjectKind::Texture, 1, context(1));
        objects.add(ObjectKind::Surface, 2, context(1));
        objects.add(ObjectKind::Texture, 3, context(2));
        assert!(objects.check(ObjectKind::Texture, 1).is_ok());
        assert!(objects.check(ObjectKind::Surface, 1).is_err());
        objects.forget(context(1));
        assert!(objects.check(ObjectKind::Texture, 1).is_err());
        assert!(objects.check(ObjectKind::Surface, 2).is_err());
        assert!(objects.check(ObjectKind::Texture, 3).is_ok());
        objects.remove(ObjectKind::Texture, 3);
        assert!(objects.check(ObjectKind::Texture, 3).is_err());
    }
}
