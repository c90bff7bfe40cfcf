"""Notice that a machine will be taken away: files, commands, the services of clouds (a local stand-in)."""

import contextlib
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from playmill.launch.cluster import Notice
from playmill.launch.notice import given, watch


@contextlib.contextmanager
def service(answers):
    """Answers (method, path) with (status, body), if the header is as it must be."""

    class Handler(BaseHTTPRequestHandler):
        def _answer(self):
            path = self.path.partition("?")[0]
            status, body, header = answers.get((self.command, path), (404, b"", None))
            if header is not None and self.headers.get(header[0]) != header[1]:
                status, body = 401, b""
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_PUT = _answer

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def test_aws_is_asked_with_a_token():
    action = "/latest/meta-data/spot/instance-action"
    answers = {("PUT", "/latest/api/token"): (200, b"t0k", ("X-aws-ec2-metadata-token-ttl-seconds", "60"))}
    with service(answers) as root:
        settings = Notice(by="aws", url=root + action)
        assert not given(settings)
        answers["GET", action] = (200, b'{"action": "terminate"}', ("X-aws-ec2-metadata-token", "t0k"))
        assert given(settings)


def test_gcp_says_true_when_preempted():
    answers = {("GET", "/p"): (200, b"FALSE", ("Metadata-Flavor", "Google"))}
    with service(answers) as root:
        assert not given(Notice(by="gcp", url=f"{root}/p"))
        answers["GET", "/p"] = (200, b"TRUE\n", ("Metadata-Flavor", "Google"))
        assert given(Notice(by="gcp", url=f"{root}/p"))


@pytest.mark.parametrize(("event", "expected"), [("Preempt", True), ("Terminate", True), ("Freeze", False)])
def test_azure_lists_events(event, expected):
    body = json.dumps({"Events": [{"EventType": event}]}).encode()
    with service({("GET", "/e"): (200, body, ("Metadata", "true"))}) as root:
        assert given(Notice(by="azure", url=f"{root}/e?api-version=2020-07-01")) == expected


@pytest.mark.parametrize("body", [b"no json", b"[]", b'{"Events": 3}', b'{"Events": ["x"]}', b""])
def test_nonsense_and_silence_are_no_notice(body):
    with service({("GET", "/e"): (200, body, None)}) as root:
        assert not given(Notice(by="azure", url=f"{root}/e"))
    for by in ("aws", "gcp", "azure", "url"):
        assert not given(Notice(by=by, url=f"{root}/e"))  # nobody answers any more


def test_commands_and_files_and_one_call_alone(tmp_path):
    assert given(Notice(by="command", command=("true",)))
    assert not given(Notice(by="command", command=("false",)))
    assert not given(Notice(by="command", command=("/no/such/program",)))
    told = []
    thread = watch(Notice(by="file", file=str(tmp_path / "notice"), every_s=0.1), lambda: told.append(1))
    time.sleep(0.3)
    assert told == []
    (tmp_path / "notice").touch()
    thread.join(5)
    assert told == [1]
    assert watch(Notice(), lambda: None) is None
