"""A paper's claim and what we found: published figure, ours, a verdict, and how our constants came about."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

__all__ = [
    "ABOUT_SLACK",
    "Claim",
    "Constants",
    "Published",
    "Source",
    "Status",
    "ClaimVerdict",
    "counts",
    "faster_than",
    "judge",
    "judge_share",
    "judge_together",
]

ABOUT_SLACK = (
    "Slack is a share of the published figure; of a speed-up, of what it has above 1; of a share of the ideal, of what "
    "it lacks."
)


class Status(StrEnum):
    """The badge of a claim."""

    REPRODUCED = "reproduced"  # within the slack stated, and in the published order of systems
    BEATEN = "beaten"  # ours, doing the same job, takes less
    FITTED = "fitted"  # within the slack, but constants were chosen for this very figure
    NOT_REACHED = "not reached"
    NOT_COMPARABLE = "not comparable"  # nothing of ours does the job that the published figure is of


class Source(StrEnum):
    """Where the figure beside ours comes from."""

    PAPER = "paper"
    LOGS = "authors' logs"
    MEASURED = "measured by us"  # public code of the paper, run by us


class Constants(StrEnum):
    """How the constants behind our figure came about."""

    PROBLEM = "of the problem"  # rates and costs that the published figure is of too
    OTHER = "fitted elsewhere"  # to figures of the same source, not to this one
    THIS = "fitted to this"
    MODEL = "of the model"  # `origins` says which of them were published, fitted, measured and assumed
    COUNTED = "counted"
    TIMED = "timed here"


@dataclass(frozen=True, slots=True)
class Published:
    """A figure or a band; an end is infinite where only the other is given."""

    low: float
    high: float
    source: Source = Source.PAPER

    @classmethod
    def figure(cls, value: float, source: Source = Source.PAPER) -> Published:
        """A single figure.

        >>> Published.figure(58.0).text
        '58'
        """
        return cls(value, value, source)

    @property
    def text(self) -> str:
        """As a table prints it.

        >>> Published(1.2, 1.3).text, Published(3.0, math.inf).text, Published(-math.inf, 1.0).text
        ('1.2-1.3', '>3', 'at most 1')
        """
        if math.isinf(self.high):
            return f">{self.low:g}"
        if math.isinf(self.low):
            return f"at most {self.high:g}"
        return f"{self.low:g}" if self.low == self.high else f"{self.low:g}-{self.high:g}"


@dataclass(frozen=True, slots=True)
class ClaimVerdict:
    """A badge and, where it is not good, why."""

    status: Status
    why: str = ""


@dataclass(frozen=True, slots=True)
class Claim:
    """One line of `interlock reproduce`; field names are those of `--json`."""

    paper: str
    claim: str
    published: str
    ours: float
    unit: str
    status: Status
    slack: float | None = None  # a share of what the published figure claims, as ABOUT_SLACK says; None: no figure
    constants: Constants = Constants.PROBLEM
    source: Source = Source.PAPER
    note: str = ""  # how ours was made, and why it differs where it does
    origins: dict[str, list[str]] = field(default_factory=dict)  # constants of a model by where they come from

    @classmethod
    def judged(
        cls,
        paper: str,
        claim: str,
        published: Published,
        ours: float,
        unit: str,
        verdict: ClaimVerdict,
        slack: float,
        *notes: str,
        constants: Constants = Constants.PROBLEM,
        origins: dict[str, list[str]] | None = None,
    ) -> Claim:
        """A figure, ours and the verdict on them; notes are joined, without empty ones."""
        note = "; ".join(filter(None, notes))
        status, source = verdict.status, published.source
        return cls(paper, claim, published.text, ours, unit, status, slack, constants, source, note, origins or {})

    @property
    def constants_text(self) -> str:
        """How our constants came about; those of a model by kind, with how many there are of each.

        >>> of_model = {"published": ["a", "b"], "assumed": ["c"]}
        >>> Claim("dysharp", "gain", "2", 2.0, "x", Status.REPRODUCED, origins=of_model).constants_text
        '2 published, 1 assumed'
        """
        if not self.origins:
            return self.constants
        return ", ".join(f"{len(names)} {origin}" for origin, names in self.origins.items())

    @property
    def text(self) -> str:
        """Our figure, rounded for reading.

        >>> Claim("tacos", "time", "10016", 10016.25, "us", Status.REPRODUCED).text
        '10016 us'
        """
        return f"{self.ours:.0f} {self.unit}" if abs(self.ours) >= 1000 else f"{self.ours:.4g} {self.unit}"

    @property
    def published_text(self) -> str:
        """The figure beside ours, with its source where that is not the paper."""
        origin = "" if self.source is Source.PAPER else f" ({self.source})"
        return f"{self.published} {self.unit}{origin}"

    @property
    def slack_text(self) -> str:
        """The slack as a table prints it."""
        return "-" if self.slack is None else f"{100 * self.slack:.0f} %"


def judge(
    ours: float, published: Published, slack: float, *, fitted: bool = False, is_lead: bool = False
) -> ClaimVerdict:
    """Reproduced (or fitted) inside the published band widened by `slack`, else not reached; on either side.

    A lead is a speed-up, which claims no more than what it has above 1: the slack is a share of that.

    >>> judge(1.25, Published(1.2, 1.3), 0.1).status, judge(2.0, Published(1.2, 1.3), 0.1).why
    (<Status.REPRODUCED: 'reproduced'>, 'ours is 54 % above')
    >>> judge(1.4, Published(1.2, 1.3), 0.1, is_lead=True).why
    'what ours has above 1 is 33 % more'
    """
    none = 1.0 if is_lead else 0.0
    low, high = published.low - none, published.high - none
    if low * (1 - slack) <= ours - none <= high * (1 + slack):
        return ClaimVerdict(Status.FITTED if fitted else Status.REPRODUCED)
    is_below = ours - none < low
    away = 100 * abs((ours - none) / (low if is_below else high) - 1)
    if is_lead:
        return ClaimVerdict(
            Status.NOT_REACHED, f"what ours has above 1 is {away:.0f} % {'less' if is_below else 'more'}"
        )
    return ClaimVerdict(Status.NOT_REACHED, f"ours is {away:.0f} % {'below' if is_below else 'above'}")


def judge_share(ours: float, published: Published, slack: float) -> ClaimVerdict:
    """Likewise for a percentage of an ideal, which claims how little it lacks of 100: the slack is a share of that.

    >>> judge_share(96.8, Published.figure(97.0), 0.1).status, judge_share(94.0, Published.figure(97.0), 0.1).why
    (<Status.REPRODUCED: 'reproduced'>, 'what ours lacks of 100 % is 100 % more')
    """
    verdict = judge(100.0 - ours, Published(100.0 - published.high, 100.0 - published.low), slack)
    told = verdict.why.removeprefix("ours is ").replace("above", "more").replace("below", "less")
    return ClaimVerdict(verdict.status, told and f"what ours lacks of 100 % is {told}")


def judge_together(
    names: Sequence[str],
    ours: Sequence[float],
    published: Sequence[Published],
    slack: float,
    fitted: Sequence[bool],
    *,
    are_leads: bool = False,
) -> list[ClaimVerdict]:
    """Verdicts on systems that were run against each other: none is reproduced whose place among them is reversed.

    Systems whose published bands overlap have no order. Leads are those of one system over each of these.

    >>> low, high = Published.figure(58.0), Published.figure(60.0)
    >>> [v.why for v in judge_together(["A", "B"], [66.0, 65.0], [low, high], 0.15, [False, False])]
    ['order reversed: ours puts A above B', 'order reversed: ours puts A above B']
    """
    made = []
    for i, value in enumerate(ours):
        verdict = judge(value, published[i], slack, fitted=fitted[i], is_lead=are_leads)
        for j in range(len(ours)):
            below, above = (i, j) if published[i].high < published[j].low else (j, i)
            if published[below].high < published[above].low and ours[below] > ours[above]:
                why = f"order reversed: ours puts {names[below]} above {names[above]}"
                verdict = ClaimVerdict(Status.NOT_REACHED, f"{verdict.why}; {why}" if verdict.why else why)
                break
        made.append(verdict)
    return made


def faster_than(ours: float, theirs: Published, slack: float = 0.0) -> ClaimVerdict:
    """The verdict on a time for the same job: beaten below theirs, reproduced within `slack`, else not reached.

    >>> faster_than(5.0, Published.figure(10.0)).status, faster_than(20.0, Published.figure(10.0)).why
    (<Status.BEATEN: 'beaten'>, 'ours is 100 % above')
    """
    if ours < theirs.low * (1 - slack):
        return ClaimVerdict(Status.BEATEN)
    return judge(ours, theirs, slack)


def counts(claims: Sequence[Claim]) -> dict[Status, int]:
    """How many claims have each badge, in the order of badges."""
    found = Counter(claim.status for claim in claims)
    return {status: found[status] for status in Status}
