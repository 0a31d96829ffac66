//! One page of a list, and the limits of a list.

use std::fmt;
use std::time::Duration;

use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::session::ListKind;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ListPage<'a> {
    #[serde(borrow)]
    tools: Option<Items<'a>>,
    #[serde(borrow)]
    resources: Option<Items<'a>>,
    #[serde(borrow)]
    resource_templates: Option<Items<'a>>,
    #[serde(borrow)]
    prompts: Option<Items<'a>>,
    #[serde(borrow)]
    pub(super) next_cursor: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) result_type: Option<&'a RawValue>,
    #[serde(borrow)]
    ttl_ms: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) cache_scope: Option<&'a RawValue>,
}

impl<'a> ListPage<'a> {
    /// Returns the items of a kind.
    pub(super) fn items(&self, kind: ListKind) -> &[&'a RawValue] {
        let items = match kind {
            ListKind::Tools => &self.tools,
            ListKind::Resources => &self.resources,
            ListKind::Templates => &self.resource_templates,
            ListKind::Prompts => &self.prompts,
        };
        items.as_ref().map_or(&[], |items| &items.0)
    }

    /// Returns how long the list is valid; a value that is not a number is ignored.
    pub(super) fn ttl(&self) -> Option<Duration> {
        let millis: f64 = self.ttl_ms?.get().parse().ok().filter(|millis: &f64| millis.is_finite())?;
        Some(Duration::from_millis(millis.clamp(0.0, MAX_TTL) as u64))
    }
}

/// The items of a page, up to one more than a list may have: a page may hold millions of empty ones.
struct Items<'a>(Vec<&'a RawValue>);

impl<'de: 'a, 'a> Deserialize<'de> for Items<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ItemsVisitor;

        impl<'de> Visitor<'de> for ItemsVisitor {
            type Value = Vec<&'de RawValue>;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut items = Vec::new();
                while items.len() <= MAX_ITEMS {
                    match list.next_element()? {
                        Some(item) => items.push(item),
                        None => return Ok(items),
                    }
                }
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(items)
            }
        }
        deserializer.deserialize_seq(ItemsVisitor).map(Items)
    }
}

/// The rest of a list's limits.
pub(super) struct ListBudget {
    /// The limit in bytes.
    max: usize,
    /// How many bytes are left for items.
    bytes: usize,
    /// How many bytes are left for pages, which may contain other data and never end.
    pages: usize,
    items: usize,
    exceeded: Option<Bound>,
}

/// The limit that a list exceeds.
enum Bound {
    Bytes,
    Items,
}

impl ListBudget {
    /// Creates a budget of this many bytes.
    pub(super) fn new(max: usize) -> Self {
        ListBudget { max, bytes: max, pages: max, items: MAX_ITEMS, exceeded: None }
    }

    /// Counts a page of this length.
    pub(super) fn take_page(&mut self, bytes: usize) {
        if bytes > self.pages {
            self.exceeded.get_or_insert(Bound::Bytes);
        }
        self.pages = self.pages.saturating_sub(bytes);
    }

    /// Counts an item of this length, and returns whether there was room for it.
    pub(super) fn take_item(&mut self, bytes: usize) -> bool {
        let bound = match (self.items.checked_sub(1), self.bytes.checked_sub(bytes)) {
            (Some(items), Some(bytes)) => {
                (self.items, self.bytes) = (items, bytes);
                return true;
            }
            (None, _) => Bound::Items,
            (_, None) => Bound::Bytes,
        };
        self.exceeded.get_or_insert(bound);
        false
    }

    /// Describes the limit that the list exceeds, if any.
    pub(super) fn exceeded_bound(&self) -> Option<String> {
        Some(match self.exceeded.as_ref()? {
            Bound::Bytes => format!("{} bytes; raise max_list_bytes to get all of it", self.max),
            Bound::Items => format!("{MAX_ITEMS} items"),
        })
    }
}

pub(super) const MAX_ITEMS: usize = 100_000;
/// One day.
const MAX_TTL: f64 = 86_400_000.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_is_no_number_costs_no_tool() {
        let rows = [
            ("60000", Some(60_000)),
            ("1.5e3", Some(1500)),
            ("-1", Some(0)),
            (r#""60000""#, None),
            ("null", None),
            ("[1]", None),
            ("1e999", None),
        ];
        for (ttl, millis) in rows {
            let text = format!(r#"{{"tools":[{{"name":"a"}}],"ttlMs":{ttl}}}"#);
            let page: ListPage = serde_json::from_str(&text).unwrap();
            assert_eq!(
                (page.items(ListKind::Tools).len(), page.ttl()),
                (1, millis.map(Duration::from_millis)),
                "{ttl}"
            );
        }
    }

    #[test]
    fn of_a_page_with_too_many_items_the_first_ones_are_read() {
        let text = format!(r#"{{"tools":[{}1],"nextCursor":"a"}}"#, "0,".repeat(2 * MAX_ITEMS));
        let page: ListPage = serde_json::from_str(&text).unwrap();
        assert_eq!(page.items(ListKind::Tools).len(), MAX_ITEMS + 1);
        assert_eq!(page.next_cursor.map(RawValue::get), Some("\"a\""));
        assert!(serde_json::from_str::<ListPage>(r#"{"tools":{}}"#).is_err());
        assert!(page.items(ListKind::Prompts).is_empty());
    }

    #[test]
    fn there_is_room_for_so_many_bytes_and_items() {
        let mut room = ListBudget::new(10);
        room.take_page(9);
        assert!(room.take_item(6) && room.exceeded_bound().is_none());
        assert!(!room.take_item(5) && room.take_item(4), "what fits is taken");
        assert!(room.exceeded_bound().unwrap().starts_with("10 bytes"));

        let mut room = ListBudget::new(10);
        room.take_page(11);
        assert!(room.exceeded_bound().is_some() && room.take_item(10));

        let mut room = ListBudget::new(usize::MAX);
        assert!((0..MAX_ITEMS).all(|_| room.take_item(1)) && room.exceeded_bound().is_none());
        assert!(!room.take_item(1));
        assert_eq!(room.exceeded_bound().as_deref(), Some("100000 items"));
    }
}
