//! What a person is asked to approve is what runs, once.
