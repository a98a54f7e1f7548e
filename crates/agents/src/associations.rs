//! Which classes a connector is associated with: the `object_class` and the `object_classes` of its integration. Record
//! permission sets of these classes may give something to the connector; it goes when the association ends.

use crate::connectors;
use identity::agent_sessions;
use kit::reactions::{Reaction, ReactionTime};
use kit::refusal::Refusal;
use kit::rights;
use std::collections::BTreeSet;
use store::{Conn, Sql, StoreError};

/// A changed integration changes what its connectors are associated with, and whether they may be used.
pub const ON_INTEGRATION_CHANGED: Reaction = Reaction {
    resource: "integrations",
    when: ReactionTime::Changed,
    run: |request, conn, integration| {
        let connectors = load_integration_classes(conn, integration)?;
        if connectors.is_empty() {
            return Ok(());
        }
        for connector in connectors {
            renew(conn, connector, integration)?;
        }
        Ok(rights::mark_rights_changed(request, conn)?)
    },
};

/// An integration with connectors stays.
pub const ON_INTEGRATION_LEAVING: Reaction = Reaction {
    resource: "integrations",
    when: ReactionTime::Leaving,
    run: |_, conn, integration| match load_integration_classes(conn, integration)?.is_empty() {
        true => Ok(()),
        false => Err(Refusal::bad_request("Integration is used by MCP connectors and cannot be deleted.")),
    },
};

/// A connector that is deleted loses its associations, what sets gave to it, and its grants.
pub const ON_CONNECTOR_LEAVING: Reaction = Reaction {
    resource: connectors::NAME_OF_RESOURCE,
    when: ReactionTime::Leaving,
    run: |request, conn, connector| {
        agent_sessions::end_of_connector(request, conn, connector)?;
        for text in [
            "DELETE FROM mcp_connector_classes WHERE connector = $1",
            "DELETE FROM record_set_connectors WHERE connector = $1",
        ] {
            conn.exec(&Sql::new(text).arg(connector))?;
        }
        Ok(())
    },
};

fn load_integration_classes(conn: &mut Conn, integration: i64) -> Result<Vec<i64>, StoreError> {
    let sql = Sql::new("SELECT id FROM mcp_connectors WHERE integration = $1 ORDER BY id");
    conn.query_all(&sql.arg(integration), |row| row.int(0))
}

/// Associates a connector with the classes of its integration, whose row is locked, and with no others.
pub fn renew(conn: &mut Conn, connector: i64, integration: i64) -> Result<(), StoreError> {
    // Classes are locked, so that none is deleted meanwhile.
    let sql = Sql::new(
        "SELECT o.id FROM object_classes o WHERE o.id IN (SELECT i.class_id FROM integrations i WHERE i.id = $1) \
         OR o.id IN (SELECT c.class_id FROM integration_classes c WHERE c.integration = $1) ORDER BY o.id FOR SHARE",
    );
    let wanted: BTreeSet<i64> = conn.query_all(&sql.arg(integration), |row| row.int(0))?.into_iter().collect();
    let sql = Sql::new("SELECT object_class FROM mcp_connector_classes WHERE connector = $1").arg(connector);
    let held: BTreeSet<i64> = conn.query_all(&sql, |row| row.int(0))?.into_iter().collect();
    for class in wanted.difference(&held) {
        let sql = Sql::new("INSERT INTO mcp_connector_classes(connector, object_class) VALUES ($1, $2)");
        conn.exec(&sql.arg(connector).arg(*class))?;
    }
    for class in held.difference(&wanted) {
        // The association first: who changes a set of the class holds it.
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
