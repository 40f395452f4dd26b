"""Pages are read as the scripts that they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.architecture.page_script import Block, Command, blocks, commands, missing_lines

PAGE = """\
Write this:

```yaml title="mainstem.yml"
pipeline: shop
```

1. Then run it:

    ```sh
    mainstem run
    ```
"""


def test_a_page_has_files_and_commands(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE, encoding="utf-8")
    assert blocks(page) == [
        Block("yaml", "mainstem.yml", "pipeline: shop\n", 3),
        Block("sh", "", "mainstem run\n", 9),
    ]


def test_a_block_has_one_command_a_line() -> None:
    text = "mkdir -p a  # a folder\nmainstem sql \\\n  'SELECT 1'\nmainstem formats > a/b\n"
    assert list(commands(text)) == [
        Command(("mkdir", "-p", "a")),
        Command(("mainstem", "sql", "SELECT 1")),
        Command(("mainstem", "formats"), "a/b"),
    ]


@pytest.mark.parametrize(
    ("expected", "output", "missing"),
    [
        ("id  name", "┃ id ┃ name ┃", []),
        ("1  Ann\n2  Bob", "1  Ann\n\n2  Bob", []),
        ("done in … s", "done in 9.8 s", []),
        ("1  Ann", "1  Anne", ["1 Ann"]),
        ("2  Bob\n1  Ann", "1  Ann\n2  Bob", ["1 Ann"]),
    ],
)
def test_the_output_has_the_shown_lines_in_order(expected: str, output: str, missing: list[str]) -> None:
    assert missing_lines(expected, output) == missing
