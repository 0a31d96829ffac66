//! Whatever happens to the configuration leaves the gate at least as closed as it was.

mod lists;
mod reload;
mod unread;
