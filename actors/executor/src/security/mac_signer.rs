//! The signer of answers to signed requests.

use std::sync::Arc;

use asyncsteps_futoin::message::SignedFields;

use super::{MacAlgorithm, MacKey, Signer};

/// Signs with the key and the algorithm of the request (FTN8 §2.11.3).
#[derive(Debug)]
pub(super) struct MacSigner {
    key: Arc<MacKey>,
    algorithm: MacAlgorithm,
}

impl MacSigner {
    pub(super) fn new(key: Arc<MacKey>, algorithm: MacAlgorithm) -> Self {
        Self { key, algorithm }
    }
}

impl Signer for MacSigner {
    fn sign(&self, answer: &SignedFields<'_>) -> String {
        self.key.sign(self.algorithm, &answer.base())
    }
}
