from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bronze.files.listing import ListedFile
from bronze.files.local_files import SkippedEntry, list_local, open_file, protects_hard_links
from framework.errors import MainstemError


def files(folder: Path, *, follow_links: bool = False) -> list[ListedFile]:
    return [
        entry for entry in list_local(str(folder), follow_links=follow_links) if isinstance(entry, ListedFile)
    ]


def skipped(folder: Path) -> dict[str, str]:
    return {entry.file: entry.reason for entry in list_local(str(folder)) if isinstance(entry, SkippedEntry)}


def test_hidden_and_unfinished_names_are_not_listed(tmp_path: Path) -> None:
    for name in (
        ".a",
        "_b",
        "c.tmp",
        "d.part",
        "e.partial",
        "f.crdownload",
        "g.inprogress",
        "h._COPYING_",
        "i.txt",
        "j.tmp.txt",
    ):
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / "_temporary").mkdir()
    (tmp_path / "_temporary" / "k.txt").write_bytes(b"x")
    assert sorted(each.file for each in files(tmp_path)) == ["i.txt", "j.tmp.txt"]


def test_subfolders_are_listed_by_their_path_below_the_folder(tmp_path: Path) -> None:
    (tmp_path / "2024" / "数 量").mkdir(parents=True)
    path = tmp_path / "2024" / "数 量" / "[a].txt"
    path.write_bytes(b"abc")
    os.utime(path, ns=(1_234_567_891_234, 1_234_567_891_234))
    assert files(tmp_path) == [ListedFile("2024/数 量/[a].txt", str(path), 3, 1_234_567_891)]


def test_names_that_are_not_utf_8_are_skipped_with_what_to_do(tmp_path: Path) -> None:
    """No table can store them, so they can never land: they are not files that are still being written."""
    landing = tmp_path / "landing"
    landing.mkdir()
    for name in (b"a.json", b"z\xfcrich.json"):
        (landing / os.fsdecode(name)).write_bytes(b"{}")
    (landing / os.fsdecode(b"\xff")).mkdir()
    (landing / os.fsdecode(b"\xff") / "b.json").write_bytes(b"{}")
    (tmp_path / os.fsdecode(b"\xfe")).write_bytes(b"{}")
    (landing / "link.json").symlink_to(tmp_path / os.fsdecode(b"\xfe"))
    found = {
        entry.file: entry.reason
        for entry in list_local(str(landing), follow_links=True)
        if isinstance(entry, SkippedEntry)
    }
    assert sorted(map(os.fsencode, found)) == [b"link.json", b"z\xfcrich.json", b"\xff/b.json"]
    assert all("not UTF-8" in reason and "rename it" in reason for reason in found.values())
    assert [each.file for each in files(landing, follow_links=True)] == ["a.json"]


def test_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MainstemError) as raised:
        files(tmp_path / "nothing")
    assert raised.value.condition == "LANDING_FOLDER_MISSING"


def test_a_link_out_of_the_folder_is_read_only_where_the_source_says_so(tmp_path: Path) -> None:
    landing, secrets = tmp_path / "landing", tmp_path / "secrets"
    landing.mkdir()
    secrets.mkdir()
    (secrets / "password").write_bytes(b"x")
    (landing / "file.json").symlink_to(secrets / "password")
    (landing / "folder").symlink_to(secrets)
    (landing / "a.json").write_bytes(b"{}")
    assert [each.file for each in files(landing)] == ["a.json"]
    assert sorted(skipped(landing)) == ["file.json", "folder"]
    assert "follow_links: true" in skipped(landing)["folder"]
    assert sorted(each.file for each in files(landing, follow_links=True)) == [
        "a.json",
        "file.json",
        "folder/password",
    ]


def test_a_link_inside_the_folder_lands_what_has_no_place_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a.txt").write_bytes(b"x")
    (tmp_path / "again").symlink_to(tmp_path / "real")
    (tmp_path / "b.txt").symlink_to(tmp_path / "real" / "a.txt")
    (tmp_path / "..2024").mkdir()
    (tmp_path / "..2024" / "c.txt").write_bytes(b"x")
    (tmp_path / "..data").symlink_to("..2024")
    (tmp_path / "c.txt").symlink_to("..data/c.txt")
    assert sorted(each.file for each in files(tmp_path)) == ["c.txt", "real/a.txt"]
    for found in files(tmp_path):
        with open_file(found.path, str(tmp_path)) as stream:
            assert stream.read() == b"x"


def test_what_cannot_be_read_is_named_and_the_others_are_listed(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"x")
    (tmp_path / "itself").symlink_to(tmp_path / "itself")
    (tmp_path / "gone").symlink_to(tmp_path / "nothing")
    (tmp_path / "up").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    assert [each.file for each in files(tmp_path)] == ["a.txt"]
    assert sorted(skipped(tmp_path)) == ["itself", "pipe"]


def test_folders_of_links_to_each_other_are_listed_once(tmp_path: Path) -> None:
    for name in "abcdefgh":
        (tmp_path / name).mkdir()
        for other in "abcdefgh":
            (tmp_path / name / f"to-{other}").symlink_to(tmp_path / other)
    (tmp_path / "a" / "x.txt").write_bytes(b"x")
    begun = time.perf_counter()
    assert [each.file for each in files(tmp_path, follow_links=True)] == ["a/x.txt"]
    assert time.perf_counter() - begun < 5


def test_very_deep_folders_do_not_stop_the_others(tmp_path: Path) -> None:
    (tmp_path / "z.txt").write_bytes(b"x")
    make = "for _ in range(2_100): os.mkdir('d'); os.chdir('d')"
    subprocess.run([sys.executable, "-c", f"import os\n{make}"], cwd=tmp_path, check=True)
    assert [each.file for each in files(tmp_path)] == ["z.txt"]
    assert list(skipped(tmp_path).values()) == ["file name too long"]
    subprocess.run(["rm", "-r", str(tmp_path / "d")], check=True)  # deeper than Python itself can remove


def test_a_file_that_has_become_something_else_is_not_opened(tmp_path: Path) -> None:
    landing, secret = tmp_path / "landing", tmp_path / "secret"
    (landing / "folder").mkdir(parents=True)
    secret.write_bytes(b"canary")
    for name in ("link", "pipe", "folder/a"):
        (landing / name).write_bytes(b"x")
    found = {each.file: each.path for each in files(landing)}
    for name in found:
        (landing / name).unlink()
    (landing / "link").symlink_to(secret)
    os.mkfifo(landing / "pipe")
    (landing / "folder").rmdir()
    (tmp_path / "a").write_bytes(b"canary")
    (landing / "folder").symlink_to(tmp_path)
    for path in found.values():
        with pytest.raises(OSError, match=r"symbolic|[Nn]ot a directory|neither a file"):
            open_file(path, str(landing))
    with open_file(found["link"], str(landing), follow_links=True) as stream:
        assert stream.read() == b"canary"


def test_a_hard_link_is_read_where_the_system_protects_files_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Linux lets a user link only to what he may read and write;
    without that, a link could be to any file.
    """
    landing, secret, setting = tmp_path / "landing", tmp_path / "secret", tmp_path / "protected_hardlinks"
    landing.mkdir()
    secret.write_bytes(b"x")
    (landing / "linked.json").hardlink_to(secret)
    (landing / "own.json").write_bytes(b"{}")
    monkeypatch.setattr(
        "bronze.files.local_files.protects_hard_links", lambda: protects_hard_links(str(setting))
    )
    setting.write_text("1\n")
    assert [each.file for each in files(landing)] == ["linked.json", "own.json"]
    open_file(str(landing / "linked.json"), str(landing)).close()
    for text in ("0\n", "", "\u00e9"):
        setting.write_text(text)
        assert [each.file for each in files(landing)] == ["own.json"]
        assert "other hard links" in skipped(landing)["linked.json"]
        with pytest.raises(OSError, match="other hard links"):
            open_file(str(landing / "linked.json"), str(landing))
    setting.unlink()
    assert [each.file for each in files(landing)] == ["own.json"]
    assert [each.file for each in files(landing, follow_links=True)] == ["linked.json", "own.json"]
