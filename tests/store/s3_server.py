"""moto's S3 server, in a process of its own, so that it is neither slowed nor warned by the tests."""

from __future__ import annotations

import subprocess
import sys
import urllib.request

from penstock.store.location import Location

# It ends when its standard input does: also when the tests are killed.
_PROGRAM = """
import logging, sys
from moto.server import ThreadedMotoServer
logging.getLogger("werkzeug").setLevel(logging.ERROR)
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""


class S3Server:
    """An S3 server on a free port, empty at first."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())
        self.endpoint = f"http://127.0.0.1:{self.port}"

    def make_bucket(self, name: str) -> None:
        request = urllib.request.Request(f"{self.endpoint}/{name}", method="PUT")
        with urllib.request.urlopen(request) as answer:
            assert answer.status == 200

    def location(self, bucket: str, prefix: str = "", *, endpoint: str | None = None) -> Location:
        options = {
            "endpoint": endpoint or self.endpoint,
            "region": "us-east-1",
            "access_key_id": "key",
            "secret_access_key": "secret",
            "allow_http": "true",
        }
        return Location.parse(f"s3://{bucket}/{prefix}", options)

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=10)
        self._process.stdout.close()
