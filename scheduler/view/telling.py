"""A story as text for people, and as an object for programs."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from scheduler.view.asked import AskedFor
from scheduler.view.gang_telling import gang_lines, gang_object
from scheduler.view.history import Moment
from scheduler.view.printing import as_object, moment_text
from scheduler.view.safe_text import cut, shown, width
from scheduler.view.story import Story
from scheduler.view.surroundings import room_lines, room_object
from scheduler.view.table import UNKNOWN, duration

_WIDEST: Final = 100
_INDENT: Final = "  "
_EXPLAINED: Final = ". That is: "
_STAMP: Final = 20
_WIDEST_CELL: Final = 44


def object_of(story: Story) -> dict[str, Any]:
    """The story with the names of its fields in Kubernetes' manner; null is not known."""
    meaning, seen = story.meaning, story.seen
    return {
        "namespace": seen.namespace,
        "name": seen.name,
        "exists": seen.pod is not None,
        "pod": None if story.row is None else as_object(story.row),
        "owner": story.owner or None,
        "asked": [
            {"what": it.what, "value": it.value or None, "source": it.source}
            | {"problem": it.problem or None}
            for it in story.asked
        ],
        "slurmNodes": story.nodes or None,
        "gang": None if story.company is None else gang_object(story.company),
        "room": None if story.surroundings is None else room_object(story.surroundings),
        "reason": _reason(story)[0] or None,
        "message": _reason(story)[1] or None,
        "meaning": None if meaning is None else meaning.meaning,
        "toDo": None if meaning is None else meaning.remedy,
        "ruledOut": [
            {"time": moment_text(it.at) or None, "said": it.said} for it in story.ruled_out
        ],
        "history": [_moment_object(it) for it in story.history],
        "next": story.prospect.what,
        "commands": [{"what": it.what, "command": it.command} for it in story.prospect.steps],
        "knownElsewhere": list(story.elsewhere),
        "unread": [*seen.unread, *story.unread, *(["more Events"] if seen.more_events else [])],
    }


def _moment_object(moment: Moment) -> dict[str, Any]:
    return {
        "time": moment_text(moment.at) or None,
        "what": moment.what,
        "message": moment.message,
        "writer": moment.writer or None,
        "last": moment_text(moment.last) or None,
        "times": moment.times,
    }


def text_of(story: Story, now: datetime) -> str:
    """The story for people: sections with headings, as wide as the terminal at most."""
    sections = (
        ("", _head(story, now)),
        ("What it asks for", _asked_section(story)),
        ("Its Slurm job", _job_section(story, now)),
        ("Its gang", _gang_section(story)),
        ("Why", _why_section(story)),
        ("What there is now", _room_section(story)),
        ("Nodes ruled out", _ruled_out_section(story)),
        ("What happened (UTC)", [line for it in story.history for line in _moment_lines(it)]),
        ("What is next", _wrapped(story.prospect.what)),
        ("Commands", list(_commands_section(story))),
        ("Not on the pod", [line for it in story.elsewhere for line in _item(it)]),
        ("Not read", [line for it in _unread(story) for line in _item(it)]),
    )
    parts = ["\n".join([title, *lines] if title else lines) for title, lines in sections if lines]
    return "\n\n".join(parts) + "\n"


def _head(story: Story, now: datetime) -> list[str]:
    seen, row = story.seen, story.row
    name = shown(f"{seen.namespace}/{seen.name}")
    if row is None:
        return [f"Pod {name} does not exist any more. Its Events tell:"]
    age = "" if row.created is None else f", {duration((now - row.created).total_seconds())} old"
    by = f", of {story.owner}" if story.owner else ", without a controller"
    return _wrapped(f"Pod {name}: {row.state}{age}{by}", indent="")


def _asked_section(story: Story) -> list[str]:
    return _columns([_asked_row(it) for it in story.asked])


def _asked_row(asked: AskedFor) -> tuple[str, str, str]:
    what, value = (cut(shown(it), _WIDEST_CELL) for it in (asked.what, asked.value or UNKNOWN))
    return what, value, shown(_source(asked.source, asked.problem))


def _source(source: str, problem: str) -> str:
    return f"{source}: {problem}" if problem else source


def _columns(rows: Sequence[tuple[str, str, str]]) -> list[str]:
    """Three columns, of which the last may be long."""
    sizes = [max((width(row[at]) for row in rows), default=0) for at in (0, 1)]
    lines = []
    for row in rows:
        cells = [row[at] + " " * (sizes[at] - width(row[at])) for at in (0, 1)]
        lines += _wrapped(row[2], first=_INDENT + _INDENT.join(cells) + _INDENT)
    return lines


def _job_section(story: Story, now: datetime) -> list[str]:
    row = story.row
    if row is None or row.job is None:
        return []
    facts = [f"job {row.job}"]
    facts += [f"on {shown(story.nodes)}"] if story.nodes and row.node else []
    facts += [f"priority {row.priority}"] if row.priority is not None else []
    facts += [f"partition {shown(row.partition)}"] if row.partition else []
    facts += [f"expected to start {_stamp(row.expected_start)}"] if row.expected_start else []
    if row.ends_at is not None:
        left = duration((row.ends_at - now).total_seconds())
        facts.append(f"ends at {_stamp(row.ends_at)} at the latest, in {left}")
    return _wrapped(", ".join(facts))


def _gang_section(story: Story) -> list[str]:
    rows = () if story.company is None else gang_lines(story.company)
    return _labelled(rows)


def _room_section(story: Story) -> list[str]:
    rows = () if story.surroundings is None else room_lines(story.surroundings)
    return _labelled(rows)


def _labelled(rows: Iterable[tuple[str, str]]) -> list[str]:
    """Lines of text, each text with a word in front of it."""
    return [line for what, it in rows for line in _wrapped(it, first=f"{_INDENT}{what:<16}")]


def _why_section(story: Story) -> list[str]:
    meaning = story.meaning
    reason, message = _reason(story)
    if not (reason or message):
        return []
    lines = _wrapped(f"{reason or UNKNOWN}: {message or 'no message'}")
    # Slurm's reasons are explained in the message itself.
    if meaning is not None and _EXPLAINED not in message:
        lines += [*_wrapped(f"That is: {meaning.meaning}"), *_wrapped(f"To do: {meaning.remedy}")]
    return lines


def _ruled_out_section(story: Story) -> list[str]:
    """What is said about Nodes, without what the section above says already."""
    _, why = _reason(story)
    return [line for it in story.ruled_out if it.said != why for line in _wrapped(it.said)]


def _reason(story: Story) -> tuple[str, str]:
    """Why the pod is as it is, or why it was ended: the reason and the message."""
    if story.row is not None:
        return story.row.reason, story.row.message
    return ("", "") if story.end is None else (story.end.what, story.end.message)


def _moment_lines(moment: Moment) -> list[str]:
    again = f" ({moment.times} times, last {_stamp(moment.last)})" if moment.times > 1 else ""
    by = f" [{shown(moment.writer)}]" if moment.writer else ""
    message = moment.message.partition(_EXPLAINED)[0]
    what = f"{moment.what}: {message}" if message else moment.what
    first = f"{_INDENT}{_stamp(moment.at):<{_STAMP}}{_INDENT}"
    return _wrapped(f"{what}{again}{by}", first=first)


def _commands_section(story: Story) -> Iterator[str]:
    """Commands are not cut and not wrapped, so that they can be copied."""
    for it in story.prospect.steps:
        yield f"{_INDENT}{it.what}:"
        yield f"{_INDENT}{_INDENT}{shown(it.command)}"


def _unread(story: Story) -> tuple[str, ...]:
    more = ("The pod has more Events than were read.",) if story.seen.more_events else ()
    return (*story.seen.unread, *story.unread, *more)


def _item(text: str) -> list[str]:
    return _wrapped(text, first=f"{_INDENT}- ")


def _wrapped(text: str, *, first: str = "", indent: str = _INDENT) -> list[str]:
    """The text as lines; all but the first are indented as far as the first one's beginning."""
    first = first or indent
    most = min(_WIDEST, shutil.get_terminal_size().columns) if sys.stdout.isatty() else _WIDEST
    room = max(_STAMP, most - width(first))
    lines = textwrap.wrap(shown(text), room, break_on_hyphens=False) or [""]
    rest = [" " * width(first) + it for it in lines[1:]]
    return [(first + lines[0]).rstrip(), *rest]


def _stamp(moment: datetime | None) -> str:
    return "?" if moment is None else f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S}"
