//! Which server has what beside its tools: what is known counts first, then all are asked, side by side and for a limited
//! time.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde_json::value::RawValue;
use tokio::time::Instant;
use tracing::warn;

use super::Front;
use super::era::Keep;
use super::lists::FIRST_LIST;
use super::resources::refused;
use crate::failure::RpcError;
use crate::json::Object;
use crate::registry::{Lease, Link};
use crate::session::{Kind, Listing};

/// A server that can be asked.
pub(super) struct Owner {
    pub(super) link: Arc<Link>,
    pub(super) lease: Lease,
}

/// What one server lists.
pub(super) struct Listed {
    pub(super) link: Arc<Link>,
    pub(super) lease: Lease,
    /// Its items, masked.
    pub(super) items: Vec<Object>,
}

/// What all servers list.
pub(super) struct Gathered {
    pub(super) listed: Vec<Listed>,
    /// How long it holds, and for whom.
    pub(super) keep: Keep,
}

/// Whose a resource is.
pub(super) enum Found {
    /// This one's.
    Owner(Owner),
    /// Nobody lists it. These have resources, and may have more than they list.
    Perhaps(Vec<Owner>),
}

/// Asks all servers for a list, side by side; those that cannot be asked, or take too long, are left out, and in the log.
pub(super) async fn gather(front: &Front, kind: Kind) -> Gathered {
    gather_from(front, front.gate.sources(), kind).await
}

/// The same for some servers.
pub(super) async fn gather_from(front: &Front, links: Vec<Arc<Link>>, kind: Kind) -> Gathered {
    let ask = links.into_iter().map(|link| async move {
        let (lease, listing) = list(front, &link, kind).await?;
        let mask = |item: &RawValue| Object::read(&front.gate.mask(link.id(), item.get()).ok()?);
        let items = listing.items.iter().filter_map(|item| mask(item)).collect();
        let offers = lease.session().peer().offers;
        let offered = if kind == Kind::Prompts { offers.prompts } else { offers.resources };
        // Who has nothing of the kind has no part in it.
        let keep = offered.then(|| Keep::of(&listing));
        Some((Listed { link, lease, items }, keep))
    });
    let answers = futures_util::future::join_all(ask).await;
    // Whoever is missing may be there the next moment.
    let missing = answers.iter().any(Option::is_none).then_some(Keep { ttl_ms: 0, private: false });
    let (listed, parts): (Vec<_>, Vec<_>) = answers.into_iter().flatten().unzip();
    Gathered { listed, keep: Keep::of_parts(parts.into_iter().chain([missing]).flatten()).shown_to(front) }
}

/// The server that a resource is of: the one that lists it, the one that named it, or the one whose template fits.
pub(super) async fn find(front: &Front, uri: &str) -> Result<Found, RpcError> {
    let sources = front.gate.sources();
    if let Some(link) = known(front, &sources, uri) {
        return Ok(Found::Owner(lease(front, link).await?));
    }
    let ask = sources.iter().enumerate().map(|(place, link)| async move {
        let (lease, listing) = list(front, link, Kind::Resources).await?;
        let owns = listing.lists(uri) || {
            let templates = list(front, link, Kind::Templates).await;
            templates.is_some_and(|(_, templates)| templates.has_fitting(uri))
        };
        Some((place, Owner { link: Arc::clone(link), lease }, owns))
    });
    let mut asked: FuturesUnordered<_> = ask.collect();
    let mut others = Vec::new();
    while let Some(answer) = asked.next().await {
        match answer {
            Some((_, owner, true)) => return Ok(Found::Owner(owner)),
            Some((place, owner, false)) if owner.lease.session().peer().offers.resources => others.push((place, owner)),
            _ => {}
        }
    }
    others.sort_by_key(|(place, _)| *place);
    Ok(Found::Perhaps(others.into_iter().map(|(_, owner)| owner).collect()))
}

/// The same where nothing can be tried: the one that lists it or whose template fits, or the only one there is.
pub(super) async fn owner(front: &Front, uri: &str) -> Result<Option<Owner>, RpcError> {
    Ok(match find(front, uri).await? {
        Found::Owner(owner) => Some(owner),
        Found::Perhaps(mut owners) if owners.len() == 1 => owners.pop(),
        Found::Perhaps(_) => None,
    })
}

/// The server that has this very template.
pub(super) async fn owner_of_template(front: &Front, template: &str) -> Result<Option<Owner>, RpcError> {
    let has = |listing: &Listing| listing.templates().any(|known| known == template);
    let known = |link: &&Arc<Link>| link.known_others(Kind::Templates).is_some_and(|listing| has(&listing));
    let sources = front.gate.sources();
    if let Some(link) = sources.iter().find(known) {
        return Ok(Some(lease(front, link).await?));
    }
    let listed = gather_from(front, sources, Kind::Templates).await.listed;
    let found = listed.into_iter().find(|listed| known(&&listed.link));
    Ok(found.map(|Listed { link, lease, .. }| Owner { link, lease }))
}

/// A server that is wanted by its name.
pub(super) async fn lease(front: &Front, link: &Arc<Link>) -> Result<Owner, RpcError> {
    match link.lease().await {
        Ok(lease) => Ok(Owner { link: Arc::clone(link), lease }),
        Err(why) => Err(refused(front, link.id(), why.to_failed())),
    }
}

/// Whose a resource is by what servers have said so far.
fn known<'a>(front: &Front, sources: &'a [Arc<Link>], uri: &str) -> Option<&'a Arc<Link>> {
    let usable = || sources.iter().filter(|link| !link.is_disabled());
    let by = |kind: Kind, has: fn(&Listing, &str) -> bool| {
        usable().find(|link| link.known_others(kind).is_some_and(|listing| has(&listing, uri)))
    };
    let by_name = || {
        let server = front.linked.server_of(uri)?;
        usable().find(|link| link.id() == &*server)
    };
    by(Kind::Resources, Listing::lists).or_else(by_name).or_else(|| by(Kind::Templates, Listing::has_fitting))
}

/// Asks one server for a list; none where it fails, takes too long, or did so a while ago.
async fn list(front: &Front, link: &Arc<Link>, kind: Kind) -> Option<(Lease, Arc<Listing>)> {
    let late = &front.inside.late;
    if late.has(link, kind) {
        return None;
    }
    let began = Instant::now();
    let ask = async {
        // Why it does not start is in the log, and all who listen hear when it has.
        let lease = link.lease_if_it_starts().await.ok()?;
        Some(link.others_of(&lease, kind).await.map(|listing| (lease, listing)))
    };
    match tokio::time::timeout(FIRST_LIST, ask).await {
        Ok(None) => None,
        Ok(Some(Ok(listed))) => Some(listed),
        Ok(Some(Err(why))) => {
            warn!(server = link.id(), "{why}");
            if began.elapsed() > SLOW {
                late.note(link, kind);
            }
            None
        }
        Err(_) => {
            warn!(server = link.id(), "no {} within {FIRST_LIST:?}; it is left out until it comes", kind.method());
            late.ask_aside(link, kind);
            None
        }
    }
}

/// A failure that took longer would be felt if it were waited for again.
const SLOW: Duration = Duration::from_secs(1);
