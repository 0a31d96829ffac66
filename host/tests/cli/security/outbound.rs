//! Servers and authorization servers that want what is not theirs, or more than there is.
