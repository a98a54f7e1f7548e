"""An agent on the official Python SDK, with the commands of agent.mjs."""

import asyncio
import json
import sys
import time
from urllib.parse import parse_qs, urlsplit

from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata
from mcp_types import Implementation

settings = json.loads(sys.argv[1])


def say(line):
    print(json.dumps(line), flush=True)


async def hear():
    line = await asyncio.to_thread(sys.stdin.readline)
    return json.loads(line) if line else None


class Storage:
    """The storage of the SDK for a program with an id and a secret."""

    tokens = None
    client = OAuthClientInformationFull(
        client_id=settings["clientId"],
        client_secret=settings["clientSecret"],
        redirect_uris=[settings["redirectUri"]],
        token_endpoint_auth_method=settings["authMethod"],
    )

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client):
        self.client = client


returned = None


async def open_browser(address):
    global returned
    say({"open": address})
    returned = parse_qs(urlsplit((await hear())["returned"]).query)


async def callback():
    if "error" in returned:
        raise RuntimeError(f"{returned['error'][0]}: {returned['error_description'][0]}")
    names = ("code", "state", "iss")
    return AuthorizationCodeResult(**{name: returned[name][0] for name in names})


class Clock:
    """The clock of the agent's computer. This SDK computes the expiry of its token with it."""

    later = 0
    time = time.time

    def now(self):
        return Clock.time() + self.later


def told(error):
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return {"error": {"name": type(error).__name__, "code": getattr(error, "code", None), "message": str(error)}}


async def main():
    clock = Clock()
    time.time = clock.now
    metadata = OAuthClientMetadata(client_name="Scribe", redirect_uris=[settings["redirectUri"]])
    auth = OAuthClientProvider(settings["serverUrl"], metadata, Storage(), open_browser, callback)

    async def run(client, command):
        if command["do"] == "list":
            tools = (await client.list_tools()).tools
            return [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools]
        if command["do"] == "call":
            result = await client.call_tool(command["tool"], command["arguments"])
            return result.model_dump(mode="json", by_alias=True, exclude_none=True)
        clock.later += command["seconds"]

    await hear()  # connect
    try:
        async with create_mcp_http_client(auth=auth) as http:
            transport = streamable_http_client(settings["serverUrl"], http_client=http)
            info = Implementation(name="Scribe", version="1.2")
            async with Client(transport, client_info=info, mode=settings["mode"]) as client:
                server = client.server_info.model_dump(mode="json", exclude_none=True) if client.server_info else None
                say({"result": {"server": server, "revision": client.protocol_version}})
                while command := await hear():
                    try:
                        say({"result": await run(client, command)})
                    except Exception as error:
                        say(told(error))
    except Exception as error:
        say(told(error))


asyncio.run(main())
