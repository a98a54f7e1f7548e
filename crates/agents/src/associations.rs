//! Associates connectors with the classes of their integrations: its `object_class` and its `object_classes`. Record permission sets
//! of these classes can give rights to the connector. The end of an association deletes these rights.

use crate::connectors;
use identity::agent_sessions;
use kit::ids::{ClassId, ConnectorId, IntegrationId};
use kit::reactions::{Reaction, ReactionTime};
use kit::refusal::Refusal;
use kit::rights;
use std::collections::BTreeSet;
use store::{Conn, Sql, StoreError};

/// A changed integration changes the associations of its connectors, and whether agents may use them.
pub const ON_INTEGRATION_CHANGED: Reaction = Reaction {
    resource: "integrations",
    when: ReactionTime::Changed,
    run: |request, conn, integration| {
        let integration = IntegrationId::new(integration);
        let connectors = load_connectors(conn, integration)?;
        if connectors.is_empty() {
            return Ok(());
        }
        for connector in connectors {
            renew(conn, connector, integration)?;
        }
        Ok(rights::mark_rights_changed(request, conn)?)
    },
};

/// Refuses the deletion of an integration with connectors.
pub const ON_INTEGRATION_LEAVING: Reaction = Reaction {
    resource: "integrations",
    when: ReactionTime::Leaving,
    run: |_, conn, integration| match load_connectors(conn, IntegrationId::new(integration))?.is_empty() {
        true => Ok(()),
        false => Err(Refusal::bad_request("Integration is used by MCP connectors and cannot be deleted.")),
    },
};

/// Deletes the associations, the rights and the grants of a connector that is deleted.
pub const ON_CONNECTOR_LEAVING: Reaction = Reaction {
    resource: connectors::NAME_OF_RESOURCE,
    when: ReactionTime::Leaving,
    run: |request, conn, connector| {
        agent_sessions::end_of_connector(request, conn, ConnectorId::new(connector))?;
        for text in [
            "DELETE FROM mcp_connector_classes WHERE connector = $1",
            "DELETE FROM record_set_connectors WHERE connector = $1",
        ] {
            conn.exec(&Sql::new(text).arg(connector))?;
        }
        Ok(())
    },
};

/// The ids of the connectors of an integration.
fn load_connectors(conn: &mut Conn, integration: IntegrationId) -> Result<Vec<ConnectorId>, StoreError> {
    let sql = Sql::new("SELECT id FROM mcp_connectors WHERE integration = $1 ORDER BY id");
    conn.query_all(&sql.arg(integration), |row| row.id(0))
}

/// Associates a connector with exactly the classes of its integration. The caller has locked the row of the integration.
pub fn renew(conn: &mut Conn, connector: ConnectorId, integration: IntegrationId) -> Result<(), StoreError> {
    // The classes are locked until the end of the transaction, so that none is deleted.
    let sql = Sql::new(
        "SELECT o.id FROM object_classes o WHERE o.id IN (SELECT i.class_id FROM integrations i WHERE i.id = $1) \
         OR o.id IN (SELECT c.class_id FROM integration_classes c WHERE c.integration = $1) ORDER BY o.id FOR SHARE",
    );
    let declared: BTreeSet<ClassId> = conn.query_all(&sql.arg(integration), |row| row.id(0))?.into_iter().collect();
    let sql = Sql::new("SELECT object_class FROM mcp_connector_classes WHERE connector = $1").arg(connector);
    let associated: BTreeSet<ClassId> = conn.query_all(&sql, |row| row.id(0))?.into_iter().collect();
    for class in declared.difference(&associated) {
        let sql = Sql::new("INSERT INTO mcp_connector_classes(connector, object_class) VALUES ($1, $2)");
        conn.exec(&sql.arg(connector).arg(*class))?;
    }
    for class in associated.difference(&declared) {
        // The association is deleted first: a change of a set of the class locks it.
        let sql = Sql::new("DELETE FROM mcp_connector_classes WHERE connector = $1 AND object_class = $2");
        conn.exec(&sql.arg(connector).arg(*class))?;
        let sql = Sql::new(
            "DELETE FROM record_set_connectors WHERE connector = $1 AND permission_set IN \
             (SELECT s.id FROM record_permission_sets s WHERE s.class_id = $2)",
        );
        conn.exec(&sql.arg(connector).arg(*class))?;
    }
    Ok(())
}
