"""A mail server for tests, with a token endpoint beside it. Options come as JSON in the first argument; the ports are
the first line that is printed, as JSON. What is received is appended to files of the directory, a JSON line each."""

import asyncio
import base64
import http.server
import json
import ssl
import sys
import threading
import urllib.parse

from aiosmtpd.smtp import SMTP, AuthResult

OPTIONS = json.loads(sys.argv[1])


def note(file, entry):
    with open(f"{OPTIONS['directory']}/{file}", "a", encoding="utf-8") as lines:
        lines.write(json.dumps(entry) + "\n")


def tls_context():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(OPTIONS["certificate"], OPTIONS["key"])
    return context


class Handler:
    async def auth_XOAUTH2(self, server, args):
        if "XOAUTH2" not in OPTIONS["mechanisms"]:
            return AuthResult(success=False, handled=False)
        response = base64.b64decode(args[1]).decode()
        expected = f"user={OPTIONS['username']}\x01auth=Bearer {OPTIONS['token']}\x01\x01"
        note("sign_ins", {"mechanism": "XOAUTH2", "accepted": response == expected})
        return AuthResult(success=response == expected, handled=False)

    async def handle_RCPT(self, server, session, envelope, address, options):
        local = address.split("@")[0]
        if local.startswith("refused"):
            return "550 5.1.1 There is no such mailbox"
        if local.startswith("later"):
            return "451 4.3.0 Come back later"
        envelope.rcpt_tos.append(address)
        return "250 2.1.5 OK"

    async def handle_DATA(self, server, session, envelope):
        note("messages", {
            "from": envelope.mail_from,
            "to": envelope.rcpt_tos,
            "data": envelope.content.decode("utf-8", "replace"),
            "hello": session.host_name,
            "signed_in": session.authenticated,
            "secured": server.transport.get_extra_info("sslcontext") is not None,
        })
        return "250 2.0.0 OK"


def authenticate(server, session, envelope, mechanism, data):
    given = [data.login.decode(), data.password.decode()]
    accepted = given == [OPTIONS["username"], OPTIONS["password"]]
    note("sign_ins", {"mechanism": mechanism, "accepted": accepted})
    return AuthResult(success=accepted, handled=False)


def session():
    mode = OPTIONS["mode"]
    starttls = tls_context() if mode == "starttls" else None
    known = ["PLAIN", "LOGIN", "XOAUTH2"]
    return SMTP(
        Handler(),
        hostname="mail.test",
        tls_context=starttls,
        require_starttls=starttls is not None,
        auth_required=True,
        auth_require_tls=starttls is not None,
        auth_exclude_mechanism=[name for name in known if name not in OPTIONS["mechanisms"]],
        authenticator=authenticate,
        loop=asyncio.get_running_loop(),
    )


class Tokens(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        length = int(self.headers.get("content-length", 0))
        form = dict(urllib.parse.parse_qsl(self.rfile.read(length).decode()))
        note("token_requests", {"path": self.path, "form": form})
        if self.path == "/redirect":
            self.answer(307, {}, [("location", "/token")])
        elif self.path == "/large":
            self.answer(200, {"access_token": OPTIONS["token"], "padding": "x" * 1_000_000})
        elif [form.get("client_id"), form.get("client_secret")] != ["client", OPTIONS["password"]]:
            self.answer(401, {"error": "invalid_client"})
        else:
            self.answer(200, {"access_token": OPTIONS["token"], "token_type": "Bearer", "expires_in": 3600})

    def answer(self, status, body, headers=()):
        content = json.dumps(body).encode()
        self.send_response(status)
        for name, value in [("content-type", "application/json"), ("content-length", str(len(content))), *headers]:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args):
        pass


def serve_tokens():
    server = http.server.ThreadingHTTPServer((OPTIONS["address"], 0), Tokens)
    if OPTIONS["mode"] != "plain":
        server.socket = tls_context().wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_address[1]


async def main():
    implicit = tls_context() if OPTIONS["mode"] == "implicit" else None
    loop = asyncio.get_running_loop()
    server = await loop.create_server(session, OPTIONS["address"], OPTIONS["port"], ssl=implicit)
    port = server.sockets[0].getsockname()[1]
    print(json.dumps({"port": port, "token_port": serve_tokens()}), flush=True)
    await server.serve_forever()


asyncio.run(main())
