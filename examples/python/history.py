"""Makes a tenant of the history service, stores an event, lists it, and reads what is refused:

    python history.py http://localhost:8001 KEY
"""

import datetime
import sys
import uuid

from chancery_history_client import AuthenticatedClient
from chancery_history_client.api.events import system_events_batch, system_events_list
from chancery_history_client.api.tenants import initialize_tenant
from chancery_history_client.models import (
    Inserted,
    SystemEventCreate,
    TenantCreate,
    Problems,
    SystemEventBatch,
    SystemEventPage,
    Tenant,
)


def main(url: str, key: str) -> None:
    client = AuthenticatedClient(base_url=url, token=key, prefix="", auth_header_name="X-API-Key")
    tenant = initialize_tenant.sync(client=client, body=TenantCreate(database_name="python", client_label="Python"))
    assert isinstance(tenant, Tenant), tenant
    client = client.with_headers({"X-Client-Id": tenant.client_id})

    event = SystemEventCreate(
        id=uuid.uuid4(),
        event_timestamp=datetime.datetime(2026, 1, 31, 9, 30, tzinfo=datetime.timezone.utc),
        category=1,
        event_type=1,
        source_info="Anna Berg",
    )
    stored = system_events_batch.sync(client=client, body=SystemEventBatch(events=[event]))
    assert isinstance(stored, Inserted), stored
    print("stored:", stored.inserted)

    page = system_events_list.sync(client=client, limit=10)
    assert isinstance(page, SystemEventPage), page
    for listed in page.results:
        print("listed:", listed.event_type.value, listed.source_info)

    refused = system_events_list.sync(client=client, limit=0)
    assert isinstance(refused, Problems), refused
    for problem in refused.detail:
        print("refused:", problem.loc, problem.msg)


if __name__ == "__main__":
    main(*sys.argv[1:])
