"""Which changes come again together: a connector that begins again sends its last messages in their order.

Images of columns that a partial update names do not show whether it starts from the row as it is. So a change
that comes again may seem to continue, where others that come again with it certainly do not. Then none of
them counts:

    insert 2 (A, Y); update 2 from A to B; update key 2, B to key 3; insert 2 (A, X)
    update 2 from A to B; update key 2, B to key 3, which exists; insert 2 (A, X), which exists

The second line is the first one again: its update of row 2 would also be possible for the row (A, X).

A change may have happened several times, so a run can stand for several places among the changes that count.
Where one of these places is the last one, the run may have ended, and what follows is not decided by it.
"""

from __future__ import annotations

from collections import defaultdict, deque

Said = tuple[str, int]
"""What a change says, and the ordinal of its row in the message."""
Place = tuple[str, int, int, int]
"""Topic, partition, offset and ordinal of a row."""
_MOST_PLACES = 16
"""Of so many equal changes, the last ones, it is looked up what followed them."""


class Redeliveries:
    """The runs of changes that come again, among the changes of a group, in their order.

    Args:
        repeats: The rows of which it is known that they come again with others.
        is_partial: Whether there are partial images; without them, each change shows by itself what it is.
    """

    def __init__(self, repeats: frozenset[Place], *, is_partial: bool) -> None:
        self._repeats, self._is_partial = repeats, is_partial
        self._order: list[Said] = []
        self._places: defaultdict[Said, deque[int]] = defaultdict(lambda: deque(maxlen=_MOST_PLACES))
        self._at: list[int] = []
        """The places at which the run may be, below `_end`."""
        self._end = 0
        self._counted: list[Place] = []
        """The rows of the run that count."""
        self._is_certain = self._is_open = False
        """Whether the run is one of repeats; whether rows of earlier runs count: then nothing is certain."""
        self.found: frozenset[Place] = frozenset()
        """More rows of which a certain repeat has shown that they come again: all are to be decided anew."""

    def note(self, said: Said) -> None:
        """Take a change that counts into account."""
        if self._is_partial:
            self._places[said].append(len(self._order))
            self._order.append(said)

    def end(self) -> None:
        """Take a change into account that has not been there before: no run goes on behind it."""
        self._at, self._counted = [], []
        self._is_certain = self._is_open = False

    def is_repeat(self, said: Said, place: Place, *, is_certain: bool, is_taken: bool) -> bool:
        """Whether a change that says what an earlier one said is a repeat.

        Args:
            said: What it says.
            place: Its row.
            is_certain: Whether it does not continue from the state before it.
            is_taken: Whether it gives a row the key of another one, which a repeat before it may excuse.
        """
        if not self._is_partial:
            return is_certain
        self._follow(said)
        if not self._is_open and (is_certain or (is_taken and self._counted)):
            self.found = frozenset(self._counted)
            self._is_certain = is_certain = True
        if is_certain or self._is_certain or place in self._repeats:
            return True
        self._counted.append(place)
        return False

    def _follow(self, said: Said) -> None:
        ahead = [place + 1 for place in self._at if place + 1 < self._end]
        self._is_certain = self._is_certain and len(ahead) == len(self._at)
        self._at = [place for place in ahead if self._order[place] == said]
        if not self._at:
            self._is_open = self._is_open or bool(self._counted)
            self._counted, self._is_certain = [], False
            self._at, self._end = list(self._places[said]), len(self._order)
