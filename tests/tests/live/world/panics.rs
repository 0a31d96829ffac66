//! Detects panics on this thread, also in tasks, where they would go unnoticed.

use std::cell::RefCell;
use std::sync::Once;

/// Hears every panic on this thread from now on, for as long as it lives.
pub struct Panics;

impl Panics {
    pub fn listen() -> Self {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let usual = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                HEARD.with_borrow_mut(|heard| match heard {
                    Some(heard) => heard.push(panic.to_string()),
                    None => usual(panic),
                });
            }));
        });
        HEARD.set(Some(Vec::new()));
        Panics
    }

    /// The panics so far.
    pub fn heard(&self) -> Vec<String> {
        HEARD.with_borrow(|heard| heard.clone().unwrap_or_default())
    }
}

impl Drop for Panics {
    fn drop(&mut self) {
        HEARD.set(None);
    }
}

thread_local! {
    static HEARD: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}
