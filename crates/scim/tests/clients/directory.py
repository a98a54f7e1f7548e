"""Drives a server with libraries that do not belong to it: the checks of scim2-tester, and a directory with scim2-client.

Arguments: the address, the host of the build, and the token. Prints a line for each failed check, and the results of the directory.
"""

import sys
from uuid import uuid4

from httpx2 import Client
from scim2_client.engines.httpx2 import SyncSCIMClient
from scim2_models import PatchOp, PatchOperation
from scim2_tester import Status, check_server

address, host, token = sys.argv[1:]
headers = {"Authorization": f"Bearer {token}", "Host": host}
scim = SyncSCIMClient(Client(base_url=f"{address}/api/scim/v2", headers=headers))
scim.discover()

User = scim.get_resource_model("User")
Group = scim.get_resource_model("Group")

# The checks do not invent addresses and time zones, and the type of a user is fixed.
User.model_fields["user_name"].examples = [f"{uuid4()}@example.com" for _ in range(10_000)]
User.model_fields["timezone"].examples = ["Europe/Berlin", "America/New_York"]
User.model_fields["user_type"].examples = ["internal"]
results = check_server(scim)
for result in results:
    if result.status not in (Status.SUCCESS, Status.SKIPPED):
        print("check:", result.title, result.reason.splitlines()[0])
print("checks:", sum(result.status == Status.SUCCESS for result in results) > 30)

anna = scim.create(User(user_name="anna.berg@example.com", title="Clerk", external_id="1"))
print("created:", anna.user_name, anna.active, anna.display_name)
found = scim.query(User, query_parameters={"filter": 'userName eq "ANNA.BERG@example.com"'})
print("found:", found.total_results, found.resources[0].id == anna.id)
anna.title = "Boss"
anna = scim.replace(anna)
print("replaced:", anna.title)
off = PatchOp[User](operations=[PatchOperation(op=PatchOperation.Op.replace_, path="active", value=False)])
print("deactivated:", scim.modify(User, anna.id, off).active)
team = scim.create(Group(display_name="Team", members=[Group.Members(value=anna.id)]))
print("members:", [member.value == anna.id for member in team.members])
refused = scim.create(User(user_name="anna.berg@example.com"), raise_scim_errors=False)
print("refused:", refused.status, refused.scim_type)
scim.delete(Group, team.id)
scim.delete(User, anna.id)
print("left:", scim.query(User).total_results, scim.query(Group).total_results)
