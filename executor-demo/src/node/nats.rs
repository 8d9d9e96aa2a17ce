//! The connection to the other nodes, over NATS.

use asyncsteps::fabric::NodeId;
pub(crate) use asyncsteps::fabric::nats::NatsFabric;
use asyncsteps::fabric::nats::{Config, Trust};
use asyncsteps::security::{Secret, SecurityLevel};

use super::options::NatsOptions;

/// Joins the nodes, if there is a server.
pub(super) async fn join(
    nats: &NatsOptions,
    node: Option<&NodeId>,
) -> anyhow::Result<Option<NatsFabric>> {
    let Some(servers) = &nats.nats else { return Ok(None) };
    let mut config = Config::new(servers);
    if let Some((user, password)) = nats.nats_user.as_ref().zip(nats.nats_password.as_ref()) {
        config = config.user(user, Secret::new(password));
    }
    if let Some(file) = &nats.nats_creds {
        config = config.credentials_file(file);
    }
    if let Some(file) = &nats.nats_token_file {
        config = config.token_file(file);
    }
    if let Some(node) = node {
        config = config.node(node.clone());
    }
    if let Some(secret) = &nats.node_secret {
        // the bank takes orders to pay from the shop itself only
        config = config.trust(Trust::secret(&Secret::new(secret)).up_to(SecurityLevel::System));
    }
    Ok(Some(NatsFabric::connect(config).await?))
}
