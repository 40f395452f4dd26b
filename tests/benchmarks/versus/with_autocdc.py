"""AUTO CDC with a server that stays: a run of the pipeline for each line of the standard input.

Runs in an environment of its own; `export` writes the rows of the table to Parquet instead.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

_BIN = Path(sys.executable).parent


def main(folder: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [_BIN / "spark-submit", "--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    command += ["--conf", f"spark.connect.grpc.binding.port={port}", "spark-internal"]
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sys.stderr)
    try:
        _wait_for(port, server)
        run = [_BIN / "spark-pipelines", "--remote", f"sc://127.0.0.1:{port}", "run"]
        for _ in sys.stdin:
            subprocess.run(run, cwd=folder, stdin=subprocess.DEVNULL, stdout=sys.stderr, check=True)
            print("round done", flush=True)
    finally:
        server.terminate()
        server.wait()


def _wait_for(port: int, server: subprocess.Popen[bytes]) -> None:
    while server.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise SystemExit("the server of Spark Connect ended")


def export(table: str, target: Path) -> None:
    SparkSession.builder.getOrCreate().table(table).write.parquet(str(target))


if __name__ == "__main__":
    if sys.argv[1] == "export":
        export(sys.argv[2], Path(sys.argv[3]))
    else:
        main(Path(sys.argv[1]))
