"""Which codec a parameter travels through: one for all, or by patterns on names."""

from __future__ import annotations

import fnmatch
from typing import Iterable

from sluice.torch import _native
from sluice.torch._settings import Given

class Choices:
    """Patterns with their codecs; the first that matches wins."""

    def __init__(self, given: Given, said: str) -> None:
        self._said = said
        self._is_for_all = isinstance(given, str)  # of whom there may be none
        self._whole = self._is_for_all  # and nothing else was chosen since
        specs = {"*": given} if isinstance(given, str) else given
        self._rules = [(pattern, self._codec(spec)) for pattern, spec in specs.items()]

    def _codec(self, spec: str) -> _native.Codec:
        try:
            return _native.Codec(spec)
        except ValueError as error:
            raise ValueError(f"{self._said}: {error}") from None

    def __str__(self) -> str:
        if self._whole:
            return self._rules[0][1].given
        return ";".join(f"{pattern}={codec.given}" for pattern, codec in self._rules)

    @property
    def has_patterns(self) -> bool:
        return not self._whole

    def codecs(self) -> list[_native.Codec]:
        return [codec for _, codec in self._rules]

    def facts(self) -> list[list[str]]:
        """What ranks compare, however it was spelled."""
        return [[pattern, codec.spec] for pattern, codec in self._rules]

    def of(self, names: Iterable[str]) -> dict[str, _native.Codec]:
        """The codec of every name. Raises for a name that has none, and for a pattern that is the
        first to match none."""
        chosen, used = {}, set()
        names = list(names)
        for name in names:
            for number, (pattern, codec) in enumerate(self._rules):
                if name == pattern or fnmatch.fnmatchcase(name, pattern):
                    chosen[name] = codec
                    used.add(number)
                    break
        if self._is_for_all:
            return chosen
        idle = [pattern for number, (pattern, _) in enumerate(self._rules) if number not in used]
        if idle:
            raise ValueError(f"{self._said} {idle}: the first match of no parameter that is"
                             f" compressed; accepted: names or patterns of {names[:20]}")
        lacking = [name for name in names if name not in chosen]
        if lacking:
            raise ValueError(f"{self._said}: no pattern matches {lacking[:20]}; accepted: patterns"
                             " for all parameters that are compressed, such as '*' as the last")
        return chosen

    def matched(self, pattern: str, names: Iterable[str]) -> list[str]:
        """Those that a new pattern is for; raises if there are none."""
        names = list(names)
        found = [name for name in names if name == pattern or fnmatch.fnmatchcase(name, pattern)]
        if not found:
            raise ValueError(f"{pattern!r} matches no parameter that is compressed; accepted: names"
                             f" or patterns of {names[:20]}")
        return found

    def prefer(self, pattern: str, codec: _native.Codec) -> None:
        """Before all others from here on."""
        self._whole = False
        self._rules = [(pattern, codec)] + [rule for rule in self._rules if rule[0] != pattern]
