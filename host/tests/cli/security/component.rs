//! A component of somebody else's cannot make the host do more than its gate allows.
