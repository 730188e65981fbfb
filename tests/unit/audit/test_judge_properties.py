"""Any legal history passes, however vague its times; with one evil deed in it none does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.audit.history import (
    LOST,
    NEVER,
    Bind,
    By,
    Evidence,
    History,
    JobLife,
    Owner,
    PodLife,
    Run,
    Sign,
    Span,
    When,
    at,
)
from tests.audit.judge import Limits, judge
from tests.unit.audit.lives import cancelled, history, job, other, pod, us

BRAKED = Limits(brake_share=0.3, brake_minimum=0, brake_window=1, brake_pause=1)
_LAST_ID = 10_000
Unit = tuple[PodLife | None, tuple[JobLife, ...]]
Draw = Callable[[st.SearchStrategy[Any]], Any]
gaps = st.floats(0.01, 30)


def hold(start: float, end: float, *, node: str) -> Run:
    return Run(Span(at(start), at(end)), frozenset({node}), at(start))


def bound(uid: str, moment: float, node: str, **more: Any) -> PodLife:
    bind = Bind(at(moment), By.US, node, accepted=True)
    return pod(uid, node=node, placed=at(moment), binds=(bind,), **more)


@st.composite
def served(draw: Draw, number: int) -> Unit:
    """To its end; perhaps its owner deletes it."""
    uid, node = f"pod-{number}", f"n{number}"
    start = 10 + draw(gaps)
    binding = start + draw(gaps)
    stopped = binding + draw(gaps)
    over = stopped + draw(gaps)
    killed = over + draw(gaps)
    deletions = (other(stopped - 0.001),) if draw(st.booleans()) else ()
    placeholder = job(number, hold(start, killed, node=node), uid=uid)
    life = bound(uid, binding, node, stopped=at(stopped), over=at(over), deletions=deletions)
    return life, (cancelled(placeholder, killed),)


@st.composite
def taken(draw: Draw, number: int) -> Unit:
    """Slurm, or a user of it, ends the job: the pod follows."""
    uid, node = f"pod-{number}", f"n{number}"
    start = 10 + draw(gaps)
    binding = start + draw(gaps)
    ended = binding + draw(gaps)
    deleted = ended + 1 + draw(gaps)
    stopped = deleted + draw(gaps)
    state = draw(st.sampled_from(["TIMEOUT", "PREEMPTED", "NODE_FAIL", "CANCELLED", "COMPLETED"]))
    placeholder = job(
        number,
        hold(start, ended, node=node),
        uid=uid,
        ended=at(ended),
        state=state,
        kills=(other(ended),) if state == "CANCELLED" else (),
    )
    life = bound(
        uid, binding, node, stopped=at(stopped), over=at(stopped), deletions=(us(deleted),)
    )
    return life, (placeholder,)


@st.composite
def requeued(draw: Draw, number: int) -> Unit:
    """A sign: the pod goes, and its job once that is gone."""
    uid, node = f"pod-{number}", f"n{number}"
    start = 10 + draw(gaps)
    binding = start + draw(gaps)
    taken_at = binding + draw(gaps)
    deleted = taken_at + 1 + draw(gaps)
    stopped = deleted + draw(gaps)
    sign = Evidence(at(taken_at), draw(st.sampled_from(list(Sign))))
    placeholder = job(number, hold(start, taken_at, node=node), uid=uid, evidence=(sign,))
    life = bound(
        uid, binding, node, stopped=at(stopped), over=at(stopped), deletions=(us(deleted),)
    )
    return life, (cancelled(placeholder, stopped + draw(gaps)),)


@st.composite
def asked_anew(draw: Draw, number: int) -> Unit:
    """Slurm forgets the job: another one holds the node for the pod that runs on."""
    uid, node = f"pod-{number}", f"n{number}"
    start = 10 + draw(gaps)
    binding = start + draw(gaps)
    lost = binding + draw(gaps)
    again = lost + draw(gaps)
    stopped = again + draw(gaps)
    former = job(number, hold(start, lost, node=node), uid=uid, ended=at(lost), state=LOST)
    later = job(_LAST_ID + number, hold(again, stopped + 1, node=node), uid=uid)
    life = bound(uid, binding, node, stopped=at(stopped), over=at(stopped))
    return life, (former, cancelled(later, stopped + 1))


@st.composite
def waiting(draw: Draw, number: int) -> Unit:
    """It waits to the end of the record, or runs then; perhaps a twin was found and ended."""
    uid = f"pod-{number}"
    life = pod(uid, node="", placed=NEVER, stopped=NEVER, over=NEVER, binds=())
    twins = (cancelled(job(_LAST_ID + number, uid=uid), 10 + draw(gaps)),)
    return life, (job(number, uid=uid), *(twins if draw(st.booleans()) else ()))


@st.composite
def foreign(draw: Draw, number: int) -> Unit:
    """Somebody else's job, ended by them."""
    start = 10 + draw(gaps)
    owner = draw(st.sampled_from([None, Owner("another", "slurm-scheduler")]))
    native = job(number, owner=owner, uids=frozenset(), runs=())
    native = replace(native, runs=(hold(start, start + 5, node="n1"),), updates=(other(start),))
    return None, (cancelled(native, start + 5, By.OTHER),)


def _units(number: int) -> st.SearchStrategy[Unit]:
    kinds = (served, taken, requeued, asked_anew, waiting, foreign)
    return st.one_of([kind(number) for kind in kinds])


def _history(units: list[Unit]) -> History:
    jobs = [one for _, jobs in units for one in jobs]
    return history(*jobs, *(life for life, _ in units if life is not None))


legal = (
    st.integers(0, 8)
    .flatmap(lambda n: st.tuples(*map(_units, range(n))))
    .map(lambda units: _history(list(units)))
)


@st.composite
def vague(draw: Draw, exact: History) -> History:
    """The same, with intervals around all moments."""

    def blurred(value: Any) -> Any:
        match value:
            case When():
                if value == NEVER:
                    return value
                early, late = draw(st.floats(0, 3)), draw(st.floats(0, 3))
                return When(value.earliest - early, value.latest + late)
            case JobLife() | PodLife() | Run() | Span() | Bind() | Evidence():
                fields = {name: blurred(getattr(value, name)) for name in value.__slots__}
                return replace(value, **fields)
            case tuple():
                return tuple(map(blurred, value))
            case _ if hasattr(value, "by"):
                return replace(value, when=blurred(value.when))
            case _:
                return value

    return replace(exact, jobs=blurred(exact.jobs), pods=blurred(exact.pods))


@given(legal)
def test_legal_histories_pass(found: History) -> None:
    assert judge(found, replace(BRAKED, brake_share=0.0)) == []


@given(legal.flatmap(vague))
def test_legal_histories_pass_however_vague_their_times(found: History) -> None:
    assert judge(found) == []


# --- one evil deed

Deed = Callable[[PodLife, JobLife], tuple[PodLife, list[JobLife]]]


def _twin(life: PodLife, placeholder: JobLife) -> tuple[PodLife, list[JobLife]]:
    span = placeholder.runs[0].span
    middle = (span.start.latest + span.end.earliest) / 2
    twin = job(_LAST_ID * 2, hold(middle, middle + 99, node="n9"), uid=life.uid)
    return life, [placeholder, cancelled(twin, middle + 99)]


def _bound_elsewhere(life: PodLife, placeholder: JobLife) -> tuple[PodLife, list[JobLife]]:
    wrong = replace(life.binds[0], node="n9")
    return replace(life, binds=(wrong,), node="n9"), [placeholder]


def _bound_again(life: PodLife, placeholder: JobLife) -> tuple[PodLife, list[JobLife]]:
    again = replace(life.binds[0], when=at(life.stopped.latest), accepted=False)
    return replace(life, binds=(*life.binds, again)), [placeholder]


def _left(life: PodLife, placeholder: JobLife) -> tuple[PodLife, list[JobLife]]:
    return life, [replace(placeholder, ended=NEVER, state="RUNNING", kills=())]


def _cancelled_too_soon(life: PodLife, placeholder: JobLife) -> tuple[PodLife, list[JobLife]]:
    run, *_ = placeholder.runs
    middle = (life.placed.latest + life.stopped.earliest) / 2
    still = replace(placeholder, runs=(replace(run, span=Span(run.span.start)),))
    return life, [cancelled(replace(still, kills=()), middle)]


def _deleted_for_nothing(life: PodLife, placeholder: JobLife) -> tuple[PodLife, list[JobLife]]:
    middle = (life.placed.latest + life.stopped.earliest) / 2
    return replace(life, deletions=(us(middle),)), [placeholder]


def _another_schedulers(life: PodLife, placeholder: JobLife) -> tuple[PodLife, list[JobLife]]:
    return replace(life, scheduler="somebody-else", touches=(us(30),)), [placeholder]


def _another_clusters(life: PodLife, placeholder: JobLife) -> tuple[PodLife, list[JobLife]]:
    stranger = job(_LAST_ID * 3, owner=Owner("another", "s"), updates=(us(30),), uid="stranger")
    return life, [placeholder, stranger]


DEEDS: dict[str, list[Deed]] = {
    "I1": [_twin],
    "I2": [_bound_elsewhere],
    "I3": [_bound_again],
    "I4": [_left],
    "I5": [_cancelled_too_soon],
    "I6": [_deleted_for_nothing],
    "I8": [_another_schedulers, _another_clusters],
}


@given(legal, served(5_000), st.sampled_from(sorted(DEEDS)), st.data())
def test_one_evil_deed_is_found_among_any_good_ones(
    found: History, victim: Unit, rule: str, data: st.DataObject
) -> None:
    life, placeholders = victim
    assert life is not None
    deed = data.draw(st.sampled_from(DEEDS[rule]))
    done, jobs = deed(replace(life, deletions=()), placeholders[0])
    evil = replace(found, pods=(*found.pods, done), jobs=(*found.jobs, *jobs))
    assert rule in {it.rule for it in judge(evil)}


@given(legal, served(5_000), st.floats(3, 100))
def test_pod_bound_beside_an_uncovered_one_is_found_among_any_good_ones(
    found: History, victim: Unit, later: float
) -> None:
    life, (placeholder,) = victim
    assert life is not None
    moment = placeholder.ended.latest + later
    stays = replace(life, stopped=at(moment + 1), over=at(moment + 1))
    comes = bound("comes", moment, life.node, stopped=at(moment + 9), over=at(moment + 9))
    its = cancelled(job(1, hold(moment - 1, moment + 10, node=life.node), uid="comes"), moment + 10)
    evil = replace(found, pods=(*found.pods, stays, comes), jobs=(*found.jobs, placeholder, its))
    assert [it.rule for it in judge(evil) if it.subject.startswith("pod space/comes")] == ["I12"]


@given(st.lists(taken(1), min_size=1, max_size=1), st.integers(2, 20))
def test_many_at_once_on_fresh_evidence_are_found(one: list[Unit], count: int) -> None:
    life, (placeholder,) = one[0]
    assert life is not None
    hasty = replace(life, deletions=(us(placeholder.ended.latest + 0.1),))
    lost = replace(placeholder, state="NODE_FAIL", kills=())
    units: list[Unit] = [
        (
            replace(hasty, uid=f"pod-{n}"),
            (replace(lost, uids=frozenset({f"pod-{n}"})),),
        )
        for n in range(count)
    ]
    assert {it.rule for it in judge(_history(units), BRAKED)} == {"I7"}
