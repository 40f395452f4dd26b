"""Finds Spark's artifacts of Delta and Kafka while the image is built, so that containers need no network.

`python collect_jars.py FOLDER` copies them into a folder that every user can read, and records their paths in
MAINSTEM_CACHE.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from framework.spark.jars import cache_folder, remember_jars, resolutions
from framework.spark.resolution import verified_jars


def collect(folder: Path) -> None:
    """Copy the artifacts into a folder and record them for sessions with and without Kafka.

    Raises:
        MainstemError: An artifact cannot be found, or is not the published one.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for kafka in (False, True):
        jars = [Path(jar) for jar in verified_jars(kafka=kafka)]
        copies = [Path(shutil.copyfile(jar, folder / jar.name)) for jar in jars]
        for copy in copies:
            copy.chmod(0o644)
        for way in resolutions(kafka=kafka):
            remember_jars(way.coordinates, [str(copy) for copy in copies])
    cache_folder().chmod(0o755)  # it was made for this user alone, and another one runs the container


if __name__ == "__main__":
    collect(Path(sys.argv[1]))
