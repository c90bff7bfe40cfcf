"""Makes the Python code of the service's messages from `batch.proto`: python -m tests.contract.protoc."""

import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src"
PROTO = "playmill/serving/proto/batch.proto"
MADE = ("batch_pb2.py", "batch_pb2.pyi")


def generate(out):
    from grpc_tools import protoc

    flags = [f"--{kind}={out}" for kind in ("python_out", "pyi_out")]
    if protoc.main(["protoc", f"-I{SOURCE}", *flags, PROTO]) != 0:
        sys.exit(1)


if __name__ == "__main__":
    generate(SOURCE)
