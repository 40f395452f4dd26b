from __future__ import annotations

import pickle

from framework.contracts.events import Half, Op


def test_members_are_what_they_are_in_any_enumeration() -> None:
    assert list(Half) == [Half.BEFORE, Half.AFTER]
    assert Half("after") is Half["AFTER"] is Half.AFTER
    assert pickle.loads(pickle.dumps(Op.READ)) is Op.READ


def test_members_are_plain_attributes_of_the_class() -> None:
    assert vars(Op)["READ"] is Op.READ
