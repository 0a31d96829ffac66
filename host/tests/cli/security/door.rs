//! Clients and pages that come to the gateway's door.
