import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from framework.errors import MainstemError
from framework.spark.jars import (
    cache_folder,
    check_jars,
    known_jars,
    one_at_a_time,
    packages,
    remember_jars,
    resolutions,
    write_ivy_settings,
)

DELTA = ("io.delta:delta:4",)


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAINSTEM_CACHE", str(tmp_path / "cache"))


def test_jars_are_found_again_until_one_vanishes(tmp_path: Path) -> None:
    jar = tmp_path / "delta.jar"
    jar.write_bytes(b"")
    remember_jars(DELTA, [str(jar)])
    remember_jars(("other:x:1",), [str(jar)])

    assert known_jars(DELTA) == (str(jar),)
    assert known_jars(("io.delta:delta:5",)) is None
    jar.unlink()
    assert known_jars(DELTA) is None


def test_broken_index_is_as_good_as_none(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "jars.json").write_text("[")

    assert known_jars(DELTA) is None
    remember_jars(DELTA, [__file__])
    assert known_jars(DELTA) == (__file__,)


def test_second_process_waits_for_the_first(tmp_path: Path) -> None:
    code = "from framework.spark.jars import one_at_a_time\nwith one_at_a_time(): print('in')"
    with one_at_a_time():
        second = subprocess.Popen(
            [sys.executable, "-c", code], cwd=Path(__file__).parents[3], stdout=subprocess.PIPE, text=True
        )
        with pytest.raises(subprocess.TimeoutExpired):
            second.wait(timeout=2)
    assert second.communicate(timeout=60)[0] == "in\n"


def test_cache_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("")

    with one_at_a_time():
        pass
    remember_jars(DELTA, [__file__])

    assert known_jars(DELTA) is None


def test_kafka_needs_one_artifact_more() -> None:
    assert set(packages(kafka=True)) - set(packages(kafka=False)) == {
        name
        for name in packages(kafka=True)
        if name.startswith("org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.")
    }


def test_kafka_is_found_in_a_second_way_where_a_mirror_lacks_a_release() -> None:
    first, second = resolutions(kafka=True)
    assert first.coordinates == packages(kafka=True)
    assert not first.settings
    assert set(packages(kafka=False)) < set(second.coordinates)
    write_ivy_settings(second.settings)
    assert "spark-token-provider-kafka" in Path(second.settings["spark.jars.ivySettings"]).read_text()


def test_delta_alone_has_one_way() -> None:
    assert [way.coordinates for way in resolutions(kafka=False)] == [packages(kafka=False)]


def test_jars_that_anybody_may_replace_are_not_used(tmp_path: Path) -> None:
    jar = tmp_path / "delta.jar"
    jar.write_bytes(b"")
    remember_jars(DELTA, [str(jar)])
    assert known_jars(DELTA) == (str(jar),)
    jar.chmod(0o666)
    assert known_jars(DELTA) is None
    jar.chmod(0o644)
    (tmp_path / "cache").chmod(0o777)
    assert known_jars(DELTA) is None


def test_a_user_without_a_home_has_a_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MAINSTEM_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", _no_home)
    assert cache_folder().name.startswith("mainstem-cache-")


def _no_home() -> Path:
    raise RuntimeError("Could not determine home directory.")


def test_an_artifact_that_is_not_the_published_one_is_refused(tmp_path: Path) -> None:
    other, delta = (
        tmp_path / "other.jar",
        tmp_path / f"io.delta_delta-spark_4.1_2.13-{version('delta-spark')}.jar",
    )
    other.write_bytes(b"x")
    delta.write_bytes(b"not Delta")
    check_jars([str(other)])
    with pytest.raises(MainstemError) as raised:
        check_jars([str(other), str(delta)])
    assert raised.value.condition == "JARS_CHANGED"
