"""The types that an annotation's value can have: how each is read, and what the docs call it."""

import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import get_args

from annotations import value_patterns
from annotations.model import LostSlot, Sharing, Switches
from annotations.moments import MOMENT, TIME_PATTERN, read_time
from annotations.node_list import (
    MOST_NAMES,
    MOST_NAMES_BYTES,
    NODE_LIST_PATTERN,
    NodeListError,
    NodeNames,
)
from annotations.problems import NotAcceptableError
from annotations.quantity import divide_up
from annotations.value_patterns import LONGEST_BYTES, ValuePattern, comma_list

# Control characters, surrogates, line and paragraph separators.
_UNPRINTABLE = frozenset({"Cc", "Cs", "Zl", "Zp"})
_INTEGER = re.compile(value_patterns.INTEGER)
_SHORT_NUMBER = re.compile(value_patterns.SHORT_NUMBER)
_OBJECT_NAME = re.compile(value_patterns.OBJECT_NAME)
# Kubernetes' own limit for users and groups. Slurm 24.11.5 reads larger ids as negative.
_LARGEST_ID = 2**31 - 1
# The two largest 32-bit numbers have special meanings in Slurm (slurm.h). A priority of these, or
# below 0, is silently ignored (measured on 26.05.5 and 24.11.5).
_LARGEST_32_BIT = 2**32 - 3
_LARGEST_16_BIT = 2**16 - 3
# "Nice value not within +/- 2147483645" (26.05.5 and 24.11.5).
_LARGEST_NICE = 2**31 - 3

# The scheduler tells the pods of a gang apart by 16 bits.
MOST_IN_GANG = 2**16

_LICENSE = re.compile(r"[A-Za-z][\w.-]*(@[\w.-]+)?(:[1-9][0-9]{0,8})?", re.ASCII)
_DEPENDENCY = re.compile(
    r"(?:after(?::[1-9][0-9]{0,9}(?:\+[0-9]{1,9})?)+|after(?:any|ok|notok)(?::[1-9][0-9]{0,9})+)"
)
_SWITCHES = re.compile(r"([1-9][0-9]{0,8})(?:@([1-9][0-9]{0,5}))?")
_GRES = re.compile(
    r"(?:gres[/:])?(?P<name>[A-Za-z]\w*)(?::(?P<type>[\w.-]*[A-Za-z][\w.-]*))?"
    r"(?::(?P<count>[1-9][0-9]{0,8}))?",
    re.ASCII,
)

_PATH = "an absolute path without .., such as /home/alice"
_WITHOUT_BLANKS = "a value without blanks"
_SECONDS = "a whole number of seconds above 0, such as 3600"
_TRUE_OR_FALSE = "true or false"
_NAME_OF_GANG = "a name of at most 63 lower-case letters, digits, - and ., such as trainer; or none"
_WHO_ELSE = (
    "none (or whole-node: no other job on the node), user (or same-user: only jobs of the "
    "same user), mcs, topo, or ok (or shared: CPUs may be shared where the partition "
    "oversubscribes)"
)
_WAIT_OR_RELEASE = "wait or release"
_NODE_NAMES = "Slurm node names joined by commas, or a hostlist such as gpu[01-04]"
_LICENSE_NAMES = "NAME or NAME:COUNT joined by commas, such as matlab:2"
_JOBS = (
    "after:JOB, after:JOB+MINUTES, afterany:JOB, afterok:JOB or afternotok:JOB, joined by "
    "commas (all must hold), such as afterok:4711:4712"
)
_COUNT = "COUNT or COUNT@MINUTES, such as 1@30"
_RESOURCES = "NAME:COUNT or NAME:TYPE:COUNT joined by commas, such as gpu:h100:2,nic:1"
_FEATURE = "names of node features joined by commas, such as h100,nvlink"

_BOOLEANS = {"true": True, "false": False}
_LOST_SLOT: tuple[str, ...] = get_args(LostSlot)
_SHARING: Mapping[str, Sharing | None] = {
    **{sharing.value: sharing for sharing in Sharing},
    "whole-node": Sharing.NONE,
    "same-user": Sharing.USER,
    "shared": Sharing.OK,
    "true": Sharing.NONE,
    "false": None,
}


@dataclass(frozen=True, slots=True)
class Kind:
    """A type of value: its name in the docs, its reader (raises NotAcceptableError) and pattern."""

    name: str
    read: Callable[[str], object]
    pattern: ValuePattern


def read_text(value: str) -> str:
    """The value itself, if Slurm can store it unchanged."""
    if not value:
        raise NotAcceptableError("a value of at least one character, or no such annotation")
    if any(unicodedata.category(character) in _UNPRINTABLE for character in value):
        raise NotAcceptableError("one line of text without control characters")
    if value != value.strip():
        raise NotAcceptableError(f"no blanks around the value: {value.strip()[:80]!r}")
    if len(value.encode()) > LONGEST_BYTES:
        raise NotAcceptableError(f"at most {LONGEST_BYTES} characters (bytes of UTF-8)")
    return value


def read_word(value: str) -> str:
    """Text without blanks, because Slurm ignores everything after the first blank."""
    text = read_text(value)
    if any(character.isspace() for character in text):
        raise NotAcceptableError(_WITHOUT_BLANKS)
    return text


def read_path(value: str) -> str:
    """An absolute path; empty parts and "." are removed. On a node, Slurm fails a script with a
    relative path (24.11.5). ".." is refused, because a policy's /home/* must not match
    /home/../etc.
    """
    text = read_text(value)
    parts = text.split("/")
    if not text.startswith("/") or ".." in parts:
        raise NotAcceptableError(_PATH)
    return "/" + "/".join(part for part in parts if part not in {"", "."})


def read_minutes(value: str) -> int:
    """Whole seconds, converted to Slurm's minutes and rounded up."""
    if not _INTEGER.fullmatch(value) or int(value) <= 0:
        raise NotAcceptableError(_SECONDS)
    minutes = divide_up(int(value), 60)
    if minutes > _LARGEST_32_BIT:
        raise NotAcceptableError(
            f"at most {60 * _LARGEST_32_BIT} seconds, the longest Slurm can count"
        )
    return minutes


def read_switch(value: str) -> bool:
    """ "true" or "false", in upper or lower case."""
    found = _BOOLEANS.get(value.lower())
    if found is None:
        raise NotAcceptableError(_TRUE_OR_FALSE)
    return found


def read_lost_slot(value: str) -> str:
    """One of the words of LostSlot."""
    if value not in _LOST_SLOT:
        raise NotAcceptableError(_WAIT_OR_RELEASE)
    return value


def read_sharing(value: str) -> Sharing | None:
    """SUNK's words, its former booleans, or the readable words; None means the partition's
    default.
    """
    if value.lower() not in _SHARING:
        raise NotAcceptableError(_WHO_ELSE)
    return _SHARING[value.lower()]


def read_nodes(value: str) -> NodeNames:
    """Slurm node names: joined by commas, or a hostlist such as `a[01-04,07]`."""
    text = read_text(value)
    try:
        return NodeNames(text)
    except NodeListError as error:
        raise NotAcceptableError(f"{_NODE_NAMES}: {error}") from None


def read_licenses(value: str) -> str:
    """`NAME[@SERVER][:COUNT]`, joined by commas."""
    if not all(_LICENSE.fullmatch(entry) for entry in read_text(value).split(",")):
        raise NotAcceptableError(_LICENSE_NAMES)
    return value


def read_dependency(value: str) -> str:
    """Terms that must all hold. With a "?" between terms one of them would be enough. Our own
    `singleton` is one of the terms, so a second placeholder of the same pod could run (measured).
    """
    if not all(_DEPENDENCY.fullmatch(term) for term in read_text(value).split(",")):
        raise NotAcceptableError(_JOBS)
    return value


def read_switches(value: str) -> Switches:
    """`COUNT`, or `COUNT@MINUTES`, as in sbatch."""
    match = _SWITCHES.fullmatch(value)
    if match is None:
        raise NotAcceptableError(_COUNT)
    return Switches(int(match[1]), None if match[2] is None else int(match[2]))


def read_gres(value: str) -> str:
    """`NAME[:TYPE][:COUNT]` joined by commas, in the form of `tres_per_node`.

    Slurm reads some malformed values as "nothing requested" ("gpu;;1" gave no GPU; measured on
    26.05.5).
    """
    return ",".join(_read_gres(entry) for entry in read_text(value).split(","))


def _read_gres(entry: str) -> str:
    match = _GRES.fullmatch(entry)
    if match is None:
        raise NotAcceptableError(_RESOURCES)
    kind = f"{match['name']}:{match['type']}" if match["type"] else match["name"]
    return f"gres/{kind}:{match['count'] or 1}"


def read_constraints(value: str) -> str:
    """A constraint in Slurm's own syntax, which Slurm checks. Blanks are refused here, because
    Slurm would refuse them without a reason.
    """
    return read_word(value)


def read_features(value: str) -> str:
    """The constraint that a node has all features of a list joined by commas."""
    names = read_word(value).split(",")
    if not all(re.fullmatch(r"[\w.:=/-]+", name) for name in names):
        raise NotAcceptableError(_FEATURE)
    return "&".join(names)


def read_gang(value: str) -> str:
    """The name of a gang, in the form of a Kubernetes name, so that the name of its job is one."""
    if not _OBJECT_NAME.fullmatch(value):
        raise NotAcceptableError(_NAME_OF_GANG)
    return value


def _short_number_kind(low: int, high: int, example: int) -> Kind:
    """A number that no controller would write with a sign."""
    expected = f"a whole number from {low} to {high}, such as {example}"

    def read(value: str) -> int:
        if not _SHORT_NUMBER.fullmatch(value) or not low <= int(value) <= high:
            raise NotAcceptableError(expected)
        return int(value)

    pattern = ValuePattern(
        pattern=value_patterns.SHORT_NUMBER, low=low, high=high, expected=expected
    )
    return Kind("integer", read, pattern)


def _integer_kind(low: int, high: int, example: int) -> Kind:
    expected = f"a whole number from {low} to {high}, such as {example}"

    def read(value: str) -> int:
        if not _INTEGER.fullmatch(value) or not low <= int(value) <= high:
            raise NotAcceptableError(expected)
        return int(value)

    pattern = ValuePattern(pattern=value_patterns.INTEGER, low=low, high=high, expected=expected)
    return Kind("integer", read, pattern)


def _any_case(words: Mapping[str, object]) -> str:
    return f"(?i:{'|'.join(words)})"


_LINE_PATTERN = ValuePattern(
    pattern=value_patterns.LINE,
    expected=f"one line of 1 to {LONGEST_BYTES} bytes, without control characters and without "
    "blanks around it",
)
_WORD_PATTERN = ValuePattern(pattern=value_patterns.WORD, expected=_WITHOUT_BLANKS)

TEXT = Kind("string", read_text, _LINE_PATTERN)
WORD = Kind("string", read_word, _WORD_PATTERN)
PATH = Kind(
    "string, absolute path",
    read_path,
    ValuePattern(pattern=value_patterns.PATH, expected=_PATH, beyond="paths with `..`"),
)
SECONDS = Kind(
    "integer, seconds",
    read_minutes,
    ValuePattern(
        pattern=value_patterns.INTEGER, low=1, high=60 * _LARGEST_32_BIT, expected=_SECONDS
    ),
)
PRIORITY = _integer_kind(0, _LARGEST_32_BIT, 1000)
NICE = _integer_kind(-_LARGEST_NICE, _LARGEST_NICE, 100)
ID = _integer_kind(0, _LARGEST_ID, 1001)
THREADS = _integer_kind(1, _LARGEST_16_BIT, 1)
PER_NODE = _integer_kind(1, _LARGEST_16_BIT, 4)
SEGMENT = _integer_kind(1, _LARGEST_16_BIT, 8)
PODS_OF_GANG = _short_number_kind(1, MOST_IN_GANG, 8)
RANK_IN_GANG = _short_number_kind(0, MOST_IN_GANG - 1, 3)
GANG_NAME = Kind(
    "name, or `none`",
    read_gang,
    ValuePattern(pattern=value_patterns.OBJECT_NAME, expected=_NAME_OF_GANG),
)
BOOLEAN = Kind(
    _TRUE_OR_FALSE, read_switch, ValuePattern(pattern=_any_case(_BOOLEANS), expected=_TRUE_OR_FALSE)
)
LOST_SLOT = Kind(
    "`wait`, `release`",
    read_lost_slot,
    ValuePattern(pattern="|".join(_LOST_SLOT), expected=_WAIT_OR_RELEASE),
)
SHARING = Kind(
    "`none`, `ok`, `user`, `mcs`, `topo`",
    read_sharing,
    ValuePattern(pattern=_any_case(_SHARING), expected=_WHO_ELSE),
)
NODE_LIST = Kind(
    "node names, comma list or hostlist",
    read_nodes,
    ValuePattern(
        pattern=NODE_LIST_PATTERN,
        expected=_NODE_NAMES,
        beyond=f"ranges that run backwards, lists of more than {MOST_NAMES} names or whose names "
        f"exceed {MOST_NAMES_BYTES} bytes",
    ),
)
LICENSES = Kind(
    "comma list",
    read_licenses,
    ValuePattern(pattern=comma_list(_LICENSE.pattern), expected=_LICENSE_NAMES),
)
DEPENDENCY = Kind(
    "comma list",
    read_dependency,
    ValuePattern(pattern=comma_list(_DEPENDENCY.pattern), expected=_JOBS),
)
SWITCHES = Kind(
    "COUNT[@MINUTES]", read_switches, ValuePattern(pattern=_SWITCHES.pattern, expected=_COUNT)
)
GRES = Kind(
    "comma list", read_gres, ValuePattern(pattern=comma_list(_GRES.pattern), expected=_RESOURCES)
)
CONSTRAINTS = Kind("string, sbatch syntax", read_constraints, _WORD_PATTERN)
FEATURES = Kind(
    "comma list",
    read_features,
    ValuePattern(
        pattern=comma_list(r"(?:[\w.:=/-]|[^\x00-\x7f])+"),
        expected=_FEATURE,
        beyond="characters outside ASCII that are no letters or digits",
    ),
)
TIME = Kind(
    "time",
    read_time,
    ValuePattern(
        pattern=TIME_PATTERN, expected=MOMENT, beyond="days and hours that no calendar has"
    ),
)
