"""Where changes from a position on are, by what each batch has reached."""

from __future__ import annotations

from random import Random

from silver.batches.source_tops import SourceTops


def test_no_batch_before_the_first_one_has_a_change_from_a_position_on() -> None:
    for seed in range(40):
        draw, tops, noted = Random(seed), SourceTops(f"{seed % 3:04d}"), dict[int, str]()
        is_near = 0
        for batch in range(draw.randint(1, 400)):
            for _ in range(draw.randint(0, 3)):  # a row of the counts each
                top = f"{max(batch + draw.randint(-30, 5), 0):04d}"
                tops.note(batch, top)
                noted[batch] = max(top, noted.get(batch, ""))
            wanted = f"{max(batch - draw.choice((0, 1, 10, 100)), 0):04d}"
            of_batch = [at for at, top in noted.items() if top >= wanted]
            first = tops.first_from(wanted)
            if wanted <= tops.before or not of_batch:
                assert first is None
            else:
                assert first is not None
                assert first <= min(of_batch)
                is_near += batch - first <= 2 * (batch - min(of_batch)) + 2
        assert len(tops.batches) <= 32
        assert is_near > 0


def test_what_was_read_long_ago_is_known_more_roughly() -> None:
    tops = SourceTops()
    for batch in range(1_000):
        tops.note(batch, f"{batch:04d}")
    found = [tops.first_from(f"{batch:04d}") for batch in (999, 997, 900, 0)]
    assert found[:2] == [999, 997]
    assert found[2] is not None
    assert 800 < found[2] <= 900
    assert found[3] == 0
