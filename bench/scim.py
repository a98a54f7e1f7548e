"""Creates users by SCIM and by the API in turns, then finds users by name. Prints one line for a table: the database, users a
second by SCIM and by the API, their ratio, and the median and the 99th percentile of a search in milliseconds."""

import http.client
import json
import sys
import time

BLOCK = 500
SEARCHES = 1000


class Connection:
    """A connection to the server, with the authorization of one caller."""

    def __init__(self, address, authorization):
        self.http = http.client.HTTPConnection(address)
        self.headers = {"Authorization": authorization, "Content-Type": "application/json", "Host": "localhost"}

    def send(self, method, path, body=None):
        """Returns the JSON of an answer. Ends the program if it is a refusal."""
        text = None if body is None else json.dumps(body)
        self.http.request(method, path, text, self.headers)
        answer = self.http.getresponse()
        content = answer.read()
        if answer.status >= 300:
            sys.exit(f"{method} {path}: {answer.status} {content.decode()}")
        return json.loads(content)


def scim_user(number):
    return {
        "schemas": ["urn:ietf:params:scim:schemas:core:2.0:User"],
        "userName": f"directory{number}@example.com",
        "name": {"givenName": "Grace", "familyName": f"Hopper {number}"},
        "externalId": f"external-{number}",
        "active": True,
    }


def api_user(number):
    return {
        "username": f"person{number}@example.com",
        "account_type": "internal",
        "first_name": "Grace",
        "last_name": f"Hopper {number}",
    }


def seconds_of(send, path, bodies):
    begin = time.perf_counter()
    for body in bodies:
        send("POST", path, body)
    return time.perf_counter() - begin


def main():
    database, address, directory, count = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
    with open(f"{directory}/token", encoding="utf-8") as file:
        api = Connection(address, f"JWT {file.read().strip()}")
    provider = {
        "name": "Directory",
        "provider": "provider_a",
        "tenant_id": "bench",
        "client_id": "bench",
        "client_secret": "bench",
        "is_enabled": True,
    }
    configuration = api.send("POST", "/api/single-sign-on/", provider)
    token = api.send("POST", "/api/scim/tokens/", {"name": "Bench", "single_sign_on": configuration["id"]})["token"]
    scim = Connection(address, f"Bearer {token}")
    scim_seconds = api_seconds = 0.0
    for begin in range(0, count, BLOCK):
        numbers = range(begin, min(begin + BLOCK, count))
        scim_seconds += seconds_of(scim.send, "/api/scim/v2/Users", map(scim_user, numbers))
        api_seconds += seconds_of(api.send, "/api/users/", map(api_user, numbers))
    times = []
    for number in range(SEARCHES):
        name = f"directory{number * 7919 % count}@example.com"
        begin = time.perf_counter()
        found = scim.send("GET", f"/api/scim/v2/Users?filter=userName%20eq%20%22{name}%22")
        times.append(time.perf_counter() - begin)
        if found["totalResults"] != 1:
            sys.exit(f"{name}: {found}")
    times.sort()
    scim_rate, api_rate = count / scim_seconds, count / api_seconds
    median, tail = times[SEARCHES // 2] * 1000, times[SEARCHES * 99 // 100] * 1000
    print(f"| {database} | {scim_rate:.0f} | {api_rate:.0f} | {scim_rate / api_rate:.2f} | {median:.2f}, {tail:.2f} |")


main()
