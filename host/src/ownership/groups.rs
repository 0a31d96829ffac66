//! Decides whether a group is the user's private one, so that a file which it can write still belongs to the user
//! alone.
//!
//! Many systems give each user such a group and let it write (`umask 002`). A group is private if `/etc/passwd` lists
//! it as the user's own group and as nobody else's, and `/etc/group` lists no other member. If these files do not know
//! the user or the group, as with a directory service, the group does not count as private.

use super::user;

/// Reports whether the user is the only member of this group.
pub(super) fn is_private(group: u32) -> bool {
    let read = |path| std::fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let (Ok(users), Ok(groups)) = (read("/etc/passwd"), read("/etc/group")) else { return false };
    has_one_member(group, user(), &users, &groups)
}

fn has_one_member(group: u32, user: u32, users: &str, groups: &str) -> bool {
    // name:password:user:group:…
    let users = users.lines().filter_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        let (id, group) = (fields.nth(1)?.parse::<u32>().ok()?, fields.next()?.parse::<u32>().ok()?);
        Some((name, id, group))
    });
    let in_group: Vec<_> = users.filter(|(_, _, of_user)| *of_user == group).collect();
    let Some((name, ..)) = in_group.iter().find(|(_, id, _)| *id == user) else { return false };
    // name:password:group:members
    let mut listed = groups.lines().filter_map(|line| {
        let mut fields = line.split(':').skip(2);
        (fields.next()?.parse() == Ok(group)).then(|| fields.next().unwrap_or_default())
    });
    let alone = |members: &str| members.split(',').map(str::trim).all(|member| member.is_empty() || member == *name);
    // Two lines may describe one group.
    let first = listed.next();
    in_group.iter().all(|(_, id, _)| *id == user) && first.is_some_and(alone) && listed.all(alone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_private_only_if_nobody_else_is_known_to_be_in_it() {
        let users =
            "root:x:0:0:root:/root:/bin/sh\nme:x:1000:1000::/home/me:/bin/sh\nyou:x:1001:100::/home/you:/bin/sh\n";
        let check = |group: u32, user: u32, groups: &str, expected: bool| {
            assert_eq!(has_one_member(group, user, users, groups), expected, "{group} of {user} in {groups:?}");
        };
        check(1000, 1000, "root:x:0:\nme:x:1000:\n", true);
        check(1000, 1000, "me:x:1000:me\n", true);
        check(0, 0, "root:x:0:\n", true);
        check(1000, 1000, "me:x:1000:you\n", false);
        check(1000, 1000, "me:x:1000:me,you\n", false);
        check(1000, 1000, "me:x:1000:\nalias:x:1000:you\n", false);
        // In neither file, or another user's.
        check(1000, 1000, "root:x:0:\n", false);
        check(5000, 5000, "x:x:5000:\n", false);
        check(100, 1000, "users:x:100:\n", false);
        check(100, 1001, "users:x:100:\n", true);
        let shared = format!("{users}other:x:1002:1000::/:/bin/sh\n");
        assert!(!has_one_member(1000, 1000, &shared, "me:x:1000:\n"));
    }
}
