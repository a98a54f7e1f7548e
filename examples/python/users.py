"""Signs in, lists, creates and changes users, and reads what is refused:

    python users.py http://localhost:8000 admin@example.com PASSWORD
"""

import sys

from chancery_client import AuthenticatedClient, Client
from chancery_client.api.auth import auth_login
from chancery_client.api.users import users_create, users_list, users_update
from chancery_client.models import (
    Errors,
    Login,
    Refusal,
    Tokens,
    User,
    UserCreate,
    UserCreateAccountType,
    UserPage,
    UserPatch,
)


def main(url: str, username: str, password: str) -> None:
    tokens = auth_login.sync(client=Client(base_url=url), body=Login(username=username, password=password))
    assert isinstance(tokens, Tokens), tokens
    client = AuthenticatedClient(base_url=url, token=tokens.access_token)

    anna = UserCreate(
        username="anna.berg@example.com",
        account_type=UserCreateAccountType.INTERNAL,
        first_name="Anna",
        last_name="Berg",
    )
    created = users_create.sync_detailed(client=client, body=anna)
    assert isinstance(created.parsed, User), created
    print("created:", created.parsed.username, created.parsed.status.value)

    # A change of the state that was read, and then one of a state that is over.
    etag = created.headers["ETag"]
    for job_title in ["Clerk", "Manager"]:
        user_id = created.parsed.id
        changed = users_update.sync(user_id, client=client, body=UserPatch(job_title=job_title), if_match=etag)
        match changed:
            case User():
                print("changed:", changed.job_title, changed.field_meta.permissions.edit)
            case Refusal():
                print("refused:", changed.detail)

    page = users_list.sync(client=client, full_name_icontains="berg", ordering="-id")
    assert isinstance(page, UserPage), page
    for user in page.results:
        print("listed:", user.full_name, user.created_by and user.created_by.username)

    refused = users_create.sync(client=client, body=anna)
    assert isinstance(refused, Errors), refused
    for field, messages in refused.additional_properties.items():
        print("refused:", field, messages)


if __name__ == "__main__":
    main(*sys.argv[1:])
