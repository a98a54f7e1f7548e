"""Measures the export and the import of a large build; see reliability/moving."""

import http.client
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BINARY = os.environ["CHANCERY_TEST_BINARY"]
RECORDS = int(os.environ.get("RECORDS", "200000"))
FILES = int(os.environ.get("FILES", "25"))
FILE_BYTES = 40_000_000
PASSWORD = "correct horse battery"
SERVER = os.environ.get("MOVING_DATABASE_URL")


class Deployment:
    """A data directory with its settings, and a server on it while it is filled."""

    def __init__(self, home, database=None):
        self.home = Path(home)
        self.home.mkdir()
        self.database = database
        self.environment = dict(os.environ, CHANCERY_ADMIN_PASSWORD=PASSWORD, CHANCERY_FALLBACK_BUILD="localhost")
        self.environment.update(CHANCERY_LISTEN="127.0.0.1:0", CHANCERY_HISTORY_LISTEN="127.0.0.1:0")
        if database:
            self.environment.update(CHANCERY_DATABASE_URL=database, CHANCERY_SECRET_KEY="k" * 40)

    def run(self, *arguments):
        """Runs a command. Returns its seconds and its peak memory in MiB."""
        started = time.monotonic()
        command = ["/usr/bin/env", "python3", "-c", WRAPPER, BINARY, *map(str, arguments)]
        done = subprocess.run(command, cwd=self.home, env=self.environment, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{arguments}: {done.stderr}")
        seconds = time.monotonic() - started
        return seconds, int(done.stderr.splitlines()[-1]) / 1024

    def serve(self):
        log = open(self.home / "serve.out", "w")
        self.server = subprocess.Popen([BINARY, "serve"], cwd=self.home, env=self.environment, stdout=log, stderr=log)
        for _ in range(600):
            text = (self.home / "serve.out").read_text()
            if "The main API listens on http://" in text:
                self.address = text.split("The main API listens on http://")[1].split()[0]
                return
            time.sleep(0.1)
        sys.exit("the server does not start")

    def stop(self):
        self.server.terminate()
        self.server.wait()


# Prints the peak memory of a command, in KiB, as the last line of standard error.
WRAPPER = """
import resource, subprocess, sys
done = subprocess.run(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
sys.exit(done.returncode)
"""


class Client:
    def __init__(self, address, domain):
        self.connection = http.client.HTTPConnection(address, timeout=120)
        self.headers = {"Host": domain, "Content-Type": "application/json"}
        body = {"username": "admin@example.com", "password": PASSWORD}
        self.headers["Authorization"] = "JWT " + self.post("/api/auth/login/", body)["access_token"]

    def send(self, path, body, headers):
        self.connection.request("POST", path, body, headers)
        answer = self.connection.getresponse()
        text = answer.read()
        if answer.status not in (200, 201):
            sys.exit(f"{path}: {answer.status} {text[:500]}")
        return json.loads(text)

    def post(self, path, body):
        return self.send(path, json.dumps(body), self.headers)

    def upload(self, name, content):
        headers = dict(self.headers, **{"Content-Type": "application/octet-stream"})
        headers["Content-Disposition"] = f"attachment; filename*=UTF-8''{name}"
        return self.send("/api/files/upload/", content, headers)["token"]


def fill(deployment):
    deployment.run("build", "create", "big.example", "--admin-password", PASSWORD)
    deployment.serve()
    client = Client(deployment.address, "big.example")
    kind = client.post("/api/object-classes/", {"name": "Orders", "alias": "orders"})["id"]
    fields = f"/api/object-classes/{kind}/fields/"
    for n in range(12):
        client.post(fields, {"alias": f"text_{n}", "label": f"Text {n}", "type": "string", "is_indexed": n == 0})
    for n in range(6):
        client.post(fields, {"alias": f"number_{n}", "label": f"Number {n}", "type": "integer"})
    client.post(fields, {"alias": "copies", "label": "Copies", "type": "document", "max_num_of_files": 1})
    words = "amber basil cedar delta ember fjord gravel harbor indigo juniper kestrel lagoon meadow nectar".split()
    batch = f"/api/object-classes/{kind}/object-records/batch/"
    for start in range(0, RECORDS, 1000):
        items = []
        for n in range(start, min(start + 1000, RECORDS)):
            values = {f"text_{k}": f"{words[(n + k) % 14]} {words[(n * 7 + k) % 14]} {n}" for k in range(12)}
            values.update({f"number_{k}": n * k for k in range(6)})
            items.append({"fields": values})
        client.post(batch, {"items": items})
    for n in range(FILES):
        token = client.upload(f"copy-{n}.pdf", os.urandom(FILE_BYTES))
        client.post(f"/api/object-classes/{kind}/object-records/", {"fields": {"text_0": f"file {n}", "copies": [token]}})
    deployment.stop()


def timed(work):
    started = time.monotonic()
    work()
    return time.monotonic() - started


def copied_files(source, target):
    shutil.copytree(source, target)
    subprocess.run(["sync", "-f", target], check=True)


def floor(deployment, work):
    """Times the engine's own dump and restore, and a copy of the files with a sync. Returns seconds for writing and for reading."""
    files = timed(lambda: copied_files(deployment.home / "chancery-data" / "files", work / "files"))
    dump = work / "dump.sql"
    if deployment.database:
        schema = subprocess.run(["psql", "-Atc", "SELECT max(nspname) FROM pg_namespace WHERE nspname LIKE 'build_%'", deployment.database], capture_output=True, text=True, check=True).stdout.strip()
        out = timed(lambda: subprocess.run(["pg_dump", "-n", schema, "-f", dump, deployment.database], check=True))
        drop = f'ALTER SCHEMA "{schema}" RENAME TO moved_away'
        subprocess.run(["psql", "-qc", drop, deployment.database], check=True, stdout=subprocess.DEVNULL)
        back = timed(lambda: subprocess.run(["psql", "-q", "-f", dump, deployment.database], check=True, stdout=subprocess.DEVNULL))
        subprocess.run(["psql", "-qc", "DROP SCHEMA moved_away CASCADE", deployment.database], check=True, stderr=subprocess.DEVNULL)
    else:
        database = max((deployment.home / "chancery-data" / "builds").glob("build_*.db"), key=lambda path: path.stat().st_size)
        with open(dump, "w") as to:
            out = timed(lambda: subprocess.run(["sqlite3", database, ".dump"], check=True, stdout=to))
        with open(dump) as read:
            back = timed(lambda: subprocess.run(["sqlite3", work / "restored.db"], stdin=read, check=False, stderr=subprocess.DEVNULL))
    return files, out, back


def measure(name, database, other):
    with tempfile.TemporaryDirectory() as directory:
        work = Path(directory)
        source = Deployment(work / "from", database)
        if not database:
            source.serve()
            source.stop()
        else:
            source.run("build", "create", "localhost", "--admin-password", PASSWORD)
        fill(source)
        target = Deployment(work / "to", other)
        if not other:
            target.serve()
            target.stop()
        idle = source.run("build", "list")[1]
        archive = work / "big.tar"
        export, export_memory = source.run("build", "export", "big.example", archive)
        imported, import_memory = target.run("build", "import", archive, "--domain", "moved.example")
        files, out, back = floor(source, work)
        size = archive.stat().st_size / 1e6
        print(f"{name}: archive {size:.0f} MB")
        print(f"  export {export:.1f} s ({size / export:.0f} MB/s), {export_memory - idle:.0f} MiB above {idle:.0f} MiB idle;"
              f" dump {out:.1f} s + files {files:.1f} s: factor {export / (out + files):.2f}")
        print(f"  import {imported:.1f} s, {import_memory - idle:.0f} MiB above idle;"
              f" restore {back:.1f} s + files {files:.1f} s: factor {imported / (back + files):.2f}")


measure("SQLite", None, None)
if SERVER:
    def database(name):
        subprocess.run(["psql", "-qc", f"CREATE DATABASE {name}", SERVER], check=True)
        return SERVER.rsplit("/", 1)[0] + "/" + name
    measure("PostgreSQL", database("moving_from"), database("moving_to"))
