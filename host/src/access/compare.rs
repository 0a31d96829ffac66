//! Compares the access that two configurations grant.

use std::collections::HashMap;

use super::{ANYONE, AccessMatrix, AccessRight, AccessTool, AccessVerdict};
use crate::config::model::Config;
use crate::logic::types::ToolRef;

/// A right that differs between two configurations.
#[derive(Debug, Clone, PartialEq)]
pub struct AccessChange {
    /// The principal.
    pub principal: String,
    /// The tool.
    pub tool: AccessTool,
    /// The right before.
    pub before: AccessRight,
    /// The right after.
    pub after: AccessRight,
}

/// The direction in which a right changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeDirection {
    /// The principal may do more than before.
    Granted,
    /// The principal may do less than before.
    Taken,
}

impl AccessChange {
    /// Returns the direction of the change; a call that now needs approval counts as taken.
    pub fn direction(&self) -> ChangeDirection {
        let AccessChange { before, after, .. } = self;
        // Of the same verdict under other conditions, it counts as granted if a condition is gone.
        let keeps = before.conditions.iter().all(|condition| after.conditions.contains(condition));
        match after.verdict > before.verdict || after.verdict == before.verdict && !keeps {
            true => ChangeDirection::Granted,
            false => ChangeDirection::Taken,
        }
    }
}

impl ChangeDirection {
    /// Returns the name of the direction.
    pub fn name(self) -> &'static str {
        match self {
            ChangeDirection::Granted => "granted",
            ChangeDirection::Taken => "taken",
        }
    }
}

/// Returns the rights that changed; a principal or tool that one side does not know has no rights there.
pub fn changes(before: &AccessMatrix, after: &AccessMatrix) -> Vec<AccessChange> {
    let (old, new) = (RightsIndex::new(before), RightsIndex::new(after));
    let mut found = Vec::new();
    for (principal, tool, now) in after.rows() {
        let then = old.find(principal, tool);
        if (then.verdict, &then.conditions) != (now.verdict, &now.conditions) {
            found.push(change(principal, tool, then, now.clone()));
        }
    }
    for (principal, tool, then) in before.rows() {
        if !new.contains(principal, tool) && then.verdict != AccessVerdict::Deny {
            found.push(change(principal, tool, then.clone(), new.find(principal, tool)));
        }
    }
    found
}

/// Returns who becomes an admin or stops being one, as rights to a tool named `(admin)` of no server.
pub fn admin_changes(before: &Config, after: &Config) -> Vec<AccessChange> {
    let (old, new) = (admins(before), admins(after));
    let named = old.iter().chain(new.iter().filter(|(name, _)| !old.iter().any(|(known, _)| known == name)));
    let is = |admins: &[(&str, bool)], principal: &str| admins.iter().any(|(name, admin)| *name == principal && *admin);
    let right = |is_admin| match is_admin {
        true => AccessRight { verdict: AccessVerdict::Allow, ..AccessRight::denied("admin") },
        false => AccessRight::denied("not an admin"),
    };
    let pairs = named.map(|(name, _)| (*name, is(&old, name), is(&new, name)));
    let changed = pairs.filter(|(_, then, now)| then != now);
    changed.map(|(name, then, now)| change(name, &admin_tool(), right(then), right(now))).collect()
}

/// Returns every principal with a token, and whether it is an admin; HTTP requests without a token never are.
fn admins(config: &Config) -> Vec<(&str, bool)> {
    config.settings.gateway.tokens.iter().map(|token| (token.principal.as_str(), token.admin)).collect()
}

fn admin_tool() -> AccessTool {
    let tool = ToolRef { server: String::new(), tool: String::new() };
    AccessTool { tool, name: "(admin)".to_owned(), destructive: true, read_only: false, needs: Vec::new() }
}

fn change(principal: &str, tool: &AccessTool, before: AccessRight, after: AccessRight) -> AccessChange {
    AccessChange { principal: principal.to_owned(), tool: tool.clone(), before, after }
}

/// The rights of a matrix, by principal and tool.
struct RightsIndex<'a> {
    access: &'a AccessMatrix,
    rights: HashMap<(&'a str, &'a str, &'a str), &'a AccessRight>,
}

impl<'a> RightsIndex<'a> {
    fn new(access: &'a AccessMatrix) -> Self {
        let key = |(name, item, right): (&'a str, &'a AccessTool, &'a AccessRight)| {
            ((name, &*item.tool.server, &*item.tool.tool), right)
        };
        RightsIndex { access, rights: access.rows().map(key).collect() }
    }

    fn contains(&self, principal: &str, item: &AccessTool) -> bool {
        self.rights.contains_key(&(principal, &*item.tool.server, &*item.tool.tool))
    }

    fn find(&self, principal: &str, item: &AccessTool) -> AccessRight {
        match self.rights.get(&(principal, &*item.tool.server, &*item.tool.tool)) {
            Some(right) => (*right).clone(),
            None if principal == ANYONE => AccessRight::denied("a token is needed"),
            None if !self.access.principals.iter().any(|name| name == principal) => {
                AccessRight::denied("no such principal")
            }
            None => AccessRight::denied("no such tool"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::parse;

    fn access(principals: &[&str], tools: &[(&str, &[AccessVerdict])]) -> AccessMatrix {
        let item = |name: &str| AccessTool {
            tool: ToolRef { server: "s".to_owned(), tool: name.to_owned() },
            name: format!("s__{name}"),
            destructive: false,
            read_only: false,
            needs: Vec::new(),
        };
        let right = |verdict| AccessRight { verdict, ..AccessRight::denied("r") };
        AccessMatrix {
            principals: principals.iter().map(|name| (*name).to_owned()).collect(),
            tools: tools.iter().map(|(name, _)| item(name)).collect(),
            rights: (0..principals.len())
                .map(|at| tools.iter().map(|(_, verdicts)| right(verdicts[at])).collect())
                .collect(),
        }
    }

    #[test]
    fn what_is_granted_and_what_is_taken_is_found_and_nothing_else() {
        use AccessVerdict::{Allow, Ask, Deny};
        let before = access(&["ann", "bob"], &[("a", &[Allow, Deny]), ("b", &[Ask, Allow]), ("gone", &[Deny, Allow])]);
        let after = access(&["bob", "cat"], &[("a", &[Ask, Deny]), ("b", &[Ask, Allow]), ("new", &[Deny, Allow])]);
        let found = changes(&before, &after);
        let found: Vec<_> = found
            .iter()
            .map(|change| (&*change.principal, &*change.tool.tool.tool, change.direction().name(), &*change.after.rule))
            .collect();
        let expected = [
            ("bob", "a", "granted", "r"),
            ("bob", "b", "taken", "r"),
            ("cat", "b", "granted", "r"),
            ("cat", "new", "granted", "r"),
            ("ann", "a", "taken", "no such principal"),
            ("ann", "b", "taken", "no such principal"),
            ("bob", "gone", "taken", "no such tool"),
        ];
        assert_eq!(found, expected);
        assert_eq!(changes(&before, &before), []);
    }

    #[test]
    fn who_becomes_an_admin_is_told_and_without_a_token_nobody_does() {
        let config = |tokens: &str| {
            let text = format!("gateway: {{tokens: [{tokens}]}}\nservers: {{}}");
            parse(&text, Path::new("toolgate.yaml")).unwrap_or_else(|error| panic!("{text}: {error}"))
        };
        let token =
            |name: &str, admin: bool| format!("{{principal: {name}, token: {name}-0123456789abcdef, admin: {admin}}},");
        let (plain, none) = (config(&(token("ann", false) + &token("bob", true))), config(""));
        let other = config(&(token("ann", true) + &token("cat", true) + &token("dan", false)));
        let told = |before: &Config, after: &Config| {
            let told = admin_changes(before, after).into_iter();
            told.map(|change| (change.principal.clone(), change.direction().name())).collect::<Vec<_>>()
        };
        let expected = [("ann", "granted"), ("bob", "taken"), ("cat", "granted")];
        assert_eq!(told(&plain, &other), expected.map(|(name, way)| (name.to_owned(), way)));
        assert_eq!(told(&plain, &none), [("bob".to_owned(), "taken")]);
        assert_eq!(told(&none, &plain), [("bob".to_owned(), "granted")]);
        assert_eq!(told(&plain, &plain), []);
    }
}
