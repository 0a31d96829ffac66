//! OAuth accounts with servers: one per server, shared by all its connections.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::config::resolve::ResolvedOAuth;
use crate::config::secrets::Secrets;
use crate::oauth::{Account, Browse, OAuthError, TokenStore};
use crate::transport::endpoint::RemoteSite;

/// OAuth accounts by server id.
pub(super) struct Accounts {
    browse: Option<Arc<dyn Browse>>,
    tokens: TokenStore,
    known: Mutex<HashMap<String, Weak<Account>>>,
}

impl Accounts {
    pub(super) fn new(browse: Option<Arc<dyn Browse>>, tokens: TokenStore) -> Self {
        Accounts { browse, tokens, known: Mutex::default() }
    }

    /// Returns the account with this server, as it is configured now.
    pub(super) fn get(
        &self,
        server: &str,
        site: &RemoteSite,
        oauth: ResolvedOAuth,
        secrets: &Arc<Mutex<Secrets>>,
    ) -> Result<Arc<Account>, OAuthError> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let account = known.get(server).and_then(Weak::upgrade).filter(|account| account.is_of(site, &oauth));
        if let Some(account) = account {
            return Ok(account);
        }
        let account = Account::new(server, site, oauth, &self.tokens, self.browse.clone(), Arc::clone(secrets))?;
        let account = Arc::new(account);
        known.retain(|_, account| account.strong_count() > 0);
        known.insert(server.to_owned(), Arc::downgrade(&account));
        Ok(account)
    }
}
