"""Each rule finds what breaks it, and lets pass what only looks like it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.audit.history import (
    LOST,
    NEVER,
    Bind,
    By,
    Evidence,
    JobLife,
    Owner,
    PodLife,
    Run,
    Sign,
    Span,
    Stray,
    Touch,
    When,
    at,
)
from tests.audit.judge import Limits, judge
from tests.unit.audit.lives import NODE, cancelled, history, job, other, pod, run, us

BRAKED = Limits(brake_share=0.3, brake_minimum=2, brake_window=1, brake_pause=1)


def rules(*parts: JobLife | PodLife, limits: Limits | None = None, **more: object) -> list[str]:
    found = judge(history(*parts, **more), limits or Limits())
    return sorted({it.rule for it in found})


def served() -> tuple[JobLife, PodLife]:
    """A pod that ran to its end, after which its placeholder was cancelled."""
    return cancelled(job(1, run(10)), 60), pod()


def test_a_pod_that_was_served_is_no_case() -> None:
    assert rules(*served()) == []


# --- I1


def test_two_placeholders_that_ran_at_once() -> None:
    twin = cancelled(job(2, run(30)), 61)
    assert rules(*served(), twin) == ["I1"]


def test_a_placeholder_that_ran_after_the_other_is_no_twin() -> None:
    former = job(2, run(6, at(9.9)), ended=at(9.9), state="NODE_FAIL")
    assert rules(*served(), former) == []


def test_twins_need_a_moment_that_both_surely_had() -> None:
    """Slurm's times are whole seconds: the one may have ended before the other began."""
    ended = When(9, 11)
    former = job(2, run(6, ended), ended=ended, state="NODE_FAIL")
    assert rules(*served(), former) == []


def test_a_twin_of_another_cluster_is_not_ours() -> None:
    twin = job(2, run(30), owner=Owner("another", "slurm-scheduler"))
    assert rules(*served(), twin) == []


# --- I2


@pytest.mark.parametrize(
    "held",
    [
        pytest.param(run(30), id="later"),
        pytest.param(run(10, node="n2"), id="another node"),
        pytest.param(run(10, at(15)), id="no longer"),
        pytest.param(run(10, ready=25), id="configuring"),
    ],
)
def test_a_bind_to_what_the_placeholder_did_not_hold(held: object) -> None:
    placeholder = job(1, held, ended=at(60), state="COMPLETED")  # type: ignore[arg-type]
    assert rules(placeholder, pod()) == ["I2"]


def test_a_bind_without_any_placeholder() -> None:
    assert rules(pod()) == ["I2"]


@pytest.mark.parametrize(("node", "told"), [(NODE, []), ("n2", ["I2"])])
def test_a_bind_where_a_job_began_that_nobody_saw(node: str, told: list[str]) -> None:
    stray = Stray(at(15), frozenset({node}))
    assert rules(pod(), strays=(stray,)) == told
    assert rules(pod(), strays=(replace(stray, nodes=frozenset()),)) == []


@pytest.mark.parametrize(("ready", "told"), [(15, []), (25, ["I2"])])
def test_a_bind_while_its_placeholder_had_nodes_that_nobody_saw(
    ready: float, told: list[str]
) -> None:
    placeholder = cancelled(job(1, run(30, 60)), 60)
    assert rules(placeholder, pod()) == ["I2"]
    assert rules(replace(placeholder, unseen=(at(ready),)), pod()) == told


def test_a_bind_to_what_another_pods_placeholder_held() -> None:
    its = cancelled(job(1, run(10), uid="pod-2"), 60)
    assert rules(its, pod()) == ["I2"]


def test_a_job_may_end_while_the_bind_is_on_its_way() -> None:
    placeholder = job(1, run(10, at(18)), ended=at(18), state="NODE_FAIL")
    assert rules(placeholder, pod()) == []


def test_a_bind_by_others_is_theirs() -> None:
    placed = pod(binds=(Bind(at(20), By.OTHER, NODE, accepted=True),))
    assert rules(placed) == []


def test_a_node_may_have_another_name_in_slurm() -> None:
    placeholder = cancelled(job(1, run(10, node="slurm-7")), 60)
    assert rules(placeholder, pod()) == ["I2"]
    assert rules(placeholder, pod(), slurm_nodes={NODE: "slurm-7"}) == []


# --- I3


def bound_again(*, accepted: bool, by: By = By.US, when: float = 25) -> tuple[JobLife, PodLife]:
    placeholder, one = served()
    second = Bind(at(when), by, NODE, accepted=accepted)
    return placeholder, replace(one, binds=(*one.binds, second))


@pytest.mark.parametrize("accepted", [False, True])
def test_a_second_bind(accepted: bool) -> None:
    assert rules(*bound_again(accepted=accepted)) == ["I3"]


def test_a_refused_bind_before_the_accepted_one_is_no_second() -> None:
    assert rules(*bound_again(accepted=False, when=19)) == []


def test_a_refused_bind_after_the_pods_end_is_no_second() -> None:
    assert rules(*bound_again(accepted=False, when=52)) == []


def test_a_refused_second_bind_of_others_is_theirs() -> None:
    assert rules(*bound_again(accepted=False, by=By.OTHER)) == []


# --- I4


def test_a_placeholder_that_outlives_its_pod() -> None:
    assert rules(job(1, run(10)), pod()) == ["I4"]


def test_a_placeholder_that_waits_for_a_pod_that_never_was() -> None:
    assert rules(job(1)) == ["I4"]


def test_a_placeholder_of_before_the_record_is_nobodys_fault() -> None:
    assert rules(job(1), opened=6) == []


def test_a_placeholder_whose_pod_is_still_there_stays() -> None:
    assert rules(job(1, run(10)), pod(stopped=NEVER, over=NEVER)) == []


def test_two_live_placeholders_at_the_end() -> None:
    waiting = job(2)
    assert rules(job(1, run(10)), waiting, pod(stopped=NEVER, over=NEVER)) == ["I4"]


# --- I5


def test_a_placeholder_cancelled_while_containers_run() -> None:
    assert rules(cancelled(job(1, run(10)), 49), pod()) == ["I5"]


def test_a_placeholder_cancelled_by_a_user_is_the_users_deed() -> None:
    assert rules(cancelled(job(1, run(10)), 49, By.OTHER), pod()) == []


def test_nobody_is_blamed_where_nobody_knows_who_it_was() -> None:
    assert rules(cancelled(job(1, run(10)), 49, By.UNKNOWN), pod()) == []


def test_containers_that_may_have_stopped_before_are_no_case() -> None:
    assert rules(cancelled(job(1, run(10)), 49.5), pod(stopped=When(49, 51))) == []


def test_a_placeholder_that_holds_another_node_may_be_ended() -> None:
    elsewhere = cancelled(job(2, run(30, node="n2")), 31)
    former = job(1, run(10, at(28)), ended=at(28), state=LOST)
    assert rules(former, elsewhere, pod()) == []


def test_a_pending_placeholder_may_be_ended() -> None:
    waiting = replace(job(2), ended=at(30), state="CANCELLED", kills=(us(30),))
    assert rules(*served(), waiting) == []


# --- I6


def deleted(*, by: By = By.US, when: float = 45) -> PodLife:
    return pod(deletions=(Touch(at(when), by),))


def test_a_pod_deleted_while_its_placeholder_ran() -> None:
    assert rules(cancelled(job(1, run(10)), 60), deleted()) == ["I6"]


def test_a_pod_deleted_by_its_owner_is_the_owners_deed() -> None:
    assert rules(cancelled(job(1, run(10)), 60), deleted(by=By.OTHER)) == []


@pytest.mark.parametrize("state", ["COMPLETED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "CANCELLED"])
def test_a_pod_deleted_once_its_placeholder_has_ended(state: str) -> None:
    placeholder = job(1, run(10, at(44)), ended=at(44), state=state)
    assert rules(placeholder, deleted()) == []


def test_a_pod_deleted_before_its_placeholder_ended() -> None:
    placeholder = job(1, run(10, at(46)), ended=at(46), state="TIMEOUT")
    assert rules(placeholder, deleted()) == ["I6"]


def test_a_cancel_of_our_own_is_no_evidence_against_the_pod() -> None:
    assert rules(cancelled(job(1, run(10)), 44), deleted()) == ["I5", "I6"]


def test_a_job_that_slurm_has_forgotten_is_no_evidence() -> None:
    assert rules(job(1, run(10, at(44)), ended=at(44), state=LOST), deleted()) == ["I6"]


@pytest.mark.parametrize("sign", list(Sign))
def test_signs_that_slurm_takes_the_node_are_evidence(sign: Sign) -> None:
    placeholder = cancelled(job(1, run(10), evidence=(Evidence(at(44), sign),)), 60)
    assert rules(placeholder, deleted()) == []
    assert rules(placeholder, deleted(when=43)) == ["I6"]


def test_a_pod_deleted_once_its_job_went_on_without_its_node() -> None:
    both = frozenset({NODE, "n2"})
    there, without = replace(run(10, at(40)), nodes=both), replace(run(40), nodes=frozenset({"n2"}))
    shrunk = cancelled(replace(job(1, run(10)), runs=(there, without), slots=2), 60)
    assert rules(shrunk, deleted(when=45)) == []
    assert rules(shrunk, deleted(when=35)) == ["I6"]
    kept = replace(shrunk, runs=(there, replace(without, nodes=frozenset({NODE}))))
    assert rules(kept, deleted(when=45)) == ["I6"]


def test_what_was_before_the_bind_is_no_evidence() -> None:
    before = Evidence(at(12), Sign.REQUEUED)
    placeholder = cancelled(job(1, run(6, at(12)), run(14), evidence=(before,)), 60)
    assert rules(placeholder, deleted()) == ["I6"]


def test_the_end_of_a_placeholder_that_was_replaced_is_no_evidence() -> None:
    former = job(1, run(10, at(30)), ended=at(30), state="FAILED")
    later = cancelled(job(2, run(32)), 60)
    assert rules(former, later, deleted()) == ["I6"]
    assert rules(former, later, deleted(when=33)) == []


# --- I7


def many(
    count: int,
    gone: int,
    *,
    age: float = 0.5,
    apart: float = 0.001,
    state: str = "NODE_FAIL",
) -> list[JobLife | PodLife]:
    """Bound pods, of which so many are deleted from 45 on, on evidence of that age."""
    parts: list[JobLife | PodLife] = []
    for index in range(count):
        uid, deletion = f"pod-{index}", 45 + index * apart
        if index < gone:
            ended = at(deletion - age)
            parts.append(job(index, run(10, ended), uid=uid, ended=ended, state=state))
            parts.append(pod(uid, deletions=(us(deletion),), stopped=at(60), over=at(60)))
        else:
            parts.append(job(index, run(10), uid=uid))
            parts.append(pod(uid, stopped=NEVER, over=NEVER))
    return parts


def test_more_than_the_brakes_share_at_once() -> None:
    assert rules(*many(10, 4), limits=BRAKED) == ["I7"]


def test_pods_of_a_gang_count_as_one_for_the_brake() -> None:
    parts = many(10, 6)
    lives = [it for it in parts if isinstance(it, PodLife)]
    ended = at(44.5)
    one = job(
        99,
        run(10, ended),
        uids=frozenset(it.uid for it in lives[:6]),
        slots=6,
        per_node=6,
        ended=ended,
        state="NODE_FAIL",
    )
    others = [it for it in parts if isinstance(it, JobLife)][6:]
    assert rules(one, *others, *lives, limits=BRAKED) == []
    apart = [replace(one, job_id=90 + it, uids=frozenset({lives[it].uid})) for it in range(6)]
    assert rules(*apart, *others, *lives, limits=BRAKED) == ["I7"]


def test_what_slurm_has_taken_otherwise_is_not_braked() -> None:
    assert rules(*many(10, 10, state="PREEMPTED"), limits=BRAKED) == []


def test_the_brakes_share_at_once() -> None:
    assert rules(*many(10, 3), limits=BRAKED) == []


def test_the_brakes_share_in_each_window() -> None:
    assert rules(*many(10, 6, apart=0.6), limits=BRAKED) == []


def test_few_pods_are_below_the_brake() -> None:
    assert rules(*many(2, 2), limits=BRAKED) == []


def test_confirmed_evidence_lifts_the_brake() -> None:
    assert rules(*many(10, 10, age=5), limits=BRAKED) == []


def test_without_a_brake_nothing_is_asked() -> None:
    assert rules(*many(10, 10)) == []


# --- I8


@pytest.mark.parametrize("owner", [None, Owner("another", "slurm-scheduler")])
@pytest.mark.parametrize("how", ["kills", "updates"])
def test_a_foreign_job_touched(owner: Owner | None, how: str) -> None:
    foreign = job(9, run(10), owner=owner, uids=frozenset())
    assert rules(replace(foreign, **{how: (us(30),)})) == ["I8"]  # type: ignore[arg-type]
    assert rules(replace(foreign, **{how: (other(30),)})) == []  # type: ignore[arg-type]


@pytest.mark.parametrize("how", ["touches", "deletions"])
def test_a_foreign_pod_touched(how: str) -> None:
    foreign = pod(scheduler="somebody-else", binds=())
    mine = replace(foreign, **{how: (us(30),)})  # type: ignore[arg-type]
    assert "I8" in rules(mine)
    theirs = replace(foreign, **{how: (other(30),)})  # type: ignore[arg-type]
    assert rules(theirs) == []


# --- I14


@pytest.mark.parametrize("how", ["kills", "updates"])
def test_a_job_written_to_that_was_not_looked_at_then(how: str) -> None:
    """Whose it was some time ago says nothing of whose it is."""
    placeholder, life = job(1, run(10)), pod()

    def found(*looks: Touch, known: bool = True) -> list[str]:
        done = replace(placeholder, looks=looks, **{how: (us(60),)})  # type: ignore[arg-type]
        return [it for it in rules(done, life, looks=known) if it == "I14"]

    assert found() == ["I14"]
    assert found(us(30)) == ["I14"]
    assert found(other(59)) == ["I14"]
    assert found(us(61)) == ["I14"]
    assert found(us(30), us(59)) == []
    assert found(Touch(at(59), By.UNKNOWN)) == []
    assert found(known=False) == [], "looks are on no record there"


# --- moments


def test_moments_in_wide_intervals_are_sure_of_little() -> None:
    wide = When(0, 100)
    assert not at(10).surely_before(wide)
    assert at(10).maybe_before(wide)
    assert not Span(at(5), When(20, 30)).surely_covers(When(10, 25))
    assert When(0, 10).within(When(5, 20)) == When(5, 10)
    assert When(0, 1).within(When(5, 20)) == When(0, 1), "two clocks that contradict each other"


def test_an_interval_has_its_ends_in_order() -> None:
    with pytest.raises(ValueError, match="earliest"):
        When(2, 1)


# --- I12


def comes(moment: float = 40) -> tuple[JobLife, PodLife]:
    """Another pod that Slurm gives the node from 25 on, and that is bound then."""
    binds = (Bind(at(moment), By.US, NODE, accepted=True),)
    life = pod("pod-2", placed=at(moment), stopped=at(80), over=at(81), binds=binds)
    return cancelled(job(2, run(25), uid="pod-2"), 90), life


def test_a_bind_beside_a_pod_whose_job_has_ended() -> None:
    ended = job(1, run(10, at(30)), ended=at(30), state="TIMEOUT")
    assert rules(ended, pod(), *comes()) == ["I12"]


def test_a_bind_without_a_job_is_not_told_as_one_beside_itself() -> None:
    binds = (Bind(at(40), By.US, NODE, accepted=True),)
    assert rules(pod(placed=at(39), stopped=at(80), over=at(81), binds=binds)) == ["I2"]


def test_a_bind_beside_a_pod_whose_job_holds_the_node() -> None:
    assert rules(*served(), *comes()) == []


def test_a_bind_beside_a_pod_that_another_job_holds_the_node_for_by_now() -> None:
    lost = job(1, run(10, at(30)), ended=at(30), state=LOST)
    again = cancelled(job(3, run(35)), 60)
    assert rules(lost, again, pod(), *comes()) == []
    elsewhere = cancelled(job(3, run(35, node="n2")), 60)
    assert rules(lost, elsewhere, pod(), *comes()) == ["I12"]


@pytest.mark.parametrize(
    "life",
    [
        pytest.param(pod(stopped=at(39)), id="it has stopped"),
        pytest.param(pod(stopped=When(39, 41)), id="it may have stopped"),
        pytest.param(
            pod(node="n2", binds=(Bind(at(20), By.US, "n2", accepted=True),)), id="on another node"
        ),
        pytest.param(pod(binds=(Bind(at(20), By.OTHER, NODE, accepted=True),)), id="not ours"),
    ],
)
def test_a_bind_where_nobody_surely_was(life: PodLife) -> None:
    lost = job(1, run(10, at(30)), ended=at(30), state=LOST)
    assert "I12" not in rules(lost, life, *comes())


def test_the_others_job_may_end_while_the_bind_is_on_its_way() -> None:
    ended = job(1, run(10, at(38)), ended=at(38), state="TIMEOUT")
    assert rules(ended, pod(), *comes()) == []


def test_a_bind_beside_a_pod_that_a_job_which_nobody_saw_may_hold() -> None:
    lost = job(1, run(10, at(30)), ended=at(30), state=LOST)
    assert rules(lost, pod(), *comes(), strays=(Stray(at(32), frozenset({NODE})),)) == []


def test_two_pods_of_one_job_are_no_strangers() -> None:
    both = cancelled(job(1, run(10), uids=frozenset({"pod-1", "pod-2"})), 90)
    _, second = comes()
    assert rules(both, pod(), second) == []


# --- gangs


def gang(*runs: Run, **more: Any) -> JobLife:
    """The job of a gang of two pods."""
    return job(1, *runs, uids=frozenset({"pod-1", "pod-2"}), **({"slots": 2} | more))


def bound_on(node: str, moment: float, uid: str = "pod-2", **more: Any) -> PodLife:
    bind = Bind(at(moment), By.US, node, accepted=True)
    given: dict[str, Any] = {"made": at(6), "node": node, "placed": at(moment), "binds": (bind,)}
    return pod(uid, **(given | more))


def two_nodes() -> Run:
    return replace(run(10), nodes=frozenset({NODE, "n2"}))


def test_two_pods_of_a_gang_in_one_slot() -> None:
    one = cancelled(gang(two_nodes()), 60)
    assert rules(one, pod(made=at(6)), bound_on("n2", 21)) == []
    assert rules(one, pod(made=at(6)), bound_on(NODE, 21)) == ["gangs"]
    assert rules(replace(one, per_node=2), pod(made=at(6)), bound_on(NODE, 21)) == []


def test_slots_of_each_node_are_those_that_slurm_has_packed_there() -> None:
    one = replace(cancelled(gang(two_nodes()), 60), per_node=0, packed={NODE: 2, "n2": 1})
    assert rules(one, pod(made=at(6)), bound_on(NODE, 21)) == []
    other = replace(one, packed={NODE: 1, "n2": 2})
    assert rules(other, pod(made=at(6)), bound_on(NODE, 21)) == ["gangs"]


def test_a_pod_that_comes_again_after_the_one_before_it_has_stopped() -> None:
    one = cancelled(gang(two_nodes()), 90)
    again = bound_on(NODE, 55, stopped=at(80), over=at(81))
    assert rules(one, pod(made=at(6)), again) == []


def test_a_gang_of_which_one_pod_never_starts() -> None:
    one = cancelled(gang(two_nodes()), 200)
    long = pod(made=at(6), stopped=at(190), over=at(191))
    unbound = pod("pod-2", made=at(6), node="", placed=NEVER, stopped=NEVER, over=NEVER, binds=())
    assert rules(one, long, unbound) == ["gangs"]
    assert rules(one, long, replace(unbound, over=at(70))) == []
    assert rules(one, long, replace(unbound, made=at(30))) == []
    assert rules(one, long, bound_on("n2", 75, stopped=at(190), over=at(191))) == []
