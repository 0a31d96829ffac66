//! Files that other users of the machine can write, and patterns that match nothing.
