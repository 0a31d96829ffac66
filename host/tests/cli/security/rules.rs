//! Tests that a damaged or changed configuration never opens the gate further than before.

mod lists;
mod reload;
mod unread;
