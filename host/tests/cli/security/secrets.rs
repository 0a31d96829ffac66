//! Credentials and secrets do not leave the gate with a server's words.
