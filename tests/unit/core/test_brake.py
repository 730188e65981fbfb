"""The rule of the brake: few go at once, many wait for a later look, and none waits for ever."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.brake import ASK_SECONDS, Brake, BrakeLimits, Go, Hold, LookAgain, Scene

LIMITS = BrakeLimits(share=0.25, minimum=3, window_seconds=60.0, pause_seconds=30.0)
TWENTY = frozenset(f"pod-{number:02}" for number in range(20))
CALM = Scene(all=TWENTY, doomed=frozenset())
SCENES = st.builds(
    Scene,
    all=st.frozensets(st.sampled_from(sorted(TWENTY))),
    doomed=st.frozensets(st.sampled_from(sorted(TWENTY))),
    boot=st.sampled_from([None, 1, 2]),
)


def doomed(number: int, *, boot: int | None = 1) -> Scene:
    return Scene(all=TWENTY, doomed=frozenset(sorted(TWENTY)[:number]), boot=boot)


def let_go(brake: Brake, scene: Scene, *, now: float, seen_at: float) -> set[str]:
    """The pods that may go, of all that are doomed."""
    return {
        uid
        for uid in scene.doomed
        if isinstance(brake.ask(uid, scene, seen_at=seen_at, now=now), Go)
    }


def test_a_few_pods_go_at_once():
    scene = doomed(3)
    assert let_go(Brake(LIMITS), scene, now=0.0, seen_at=0.0) == scene.doomed


def test_of_many_pods_none_goes():
    assert let_go(Brake(LIMITS), doomed(6), now=0.0, seen_at=0.0) == set()


def test_many_that_are_a_small_share_of_all_go():
    crowd = replace(doomed(6), all=frozenset(map(str, range(1000))))
    assert len(let_go(Brake(LIMITS), crowd, now=0.0, seen_at=0.0)) == 6


def test_many_that_come_one_by_one_are_seen_within_the_window():
    brake = Brake(LIMITS)
    gone = [
        uid
        for second, uid in enumerate(sorted(TWENTY))
        if isinstance(brake.ask(uid, CALM, seen_at=second, now=second), Go)
    ]
    assert len(gone) == 5  # a quarter of twenty


def test_many_that_come_one_by_one_over_hours_all_go():
    brake = Brake(LIMITS)
    for hour, uid in enumerate(sorted(TWENTY)):
        assert brake.ask(uid, CALM, seen_at=hour * 3600, now=hour * 3600) == Go()


def test_share_of_one_never_brakes():
    brake = Brake(replace(LIMITS, share=1.0))
    assert len(let_go(brake, doomed(20), now=0.0, seen_at=0.0)) == 20


def test_held_pod_goes_only_by_a_look_after_the_pause():
    brake, scene = Brake(LIMITS), doomed(20)
    ask = sorted(scene.doomed)[0]
    assert brake.ask(ask, scene, seen_at=0.0, now=0.0) == Hold(ASK_SECONDS)
    assert brake.ask(ask, scene, seen_at=29.0, now=29.0) == Hold(1.0)
    assert brake.ask(ask, scene, seen_at=29.0, now=31.0) == LookAgain()
    assert brake.ask(ask, scene, seen_at=31.0, now=31.0) == Go()


def test_other_start_of_the_controller_begins_the_pause_anew():
    brake = Brake(LIMITS)
    brake.ask("pod-00", doomed(20, boot=1), seen_at=0.0, now=0.0)
    assert brake.ask("pod-00", doomed(20, boot=2), seen_at=29.0, now=29.0) == Hold(ASK_SECONDS)
    assert brake.ask("pod-00", doomed(20, boot=2), seen_at=31.0, now=50.0) == Hold(ASK_SECONDS)
    assert brake.ask("pod-00", doomed(20, boot=2), seen_at=60.0, now=60.0) == Go()


def test_confirmed_endings_do_not_hold_a_single_one_after_them():
    brake, scene = Brake(LIMITS), doomed(19)
    for now in (0.0, 10.0, 20.0):
        assert let_go(brake, scene, now=now, seen_at=now) == set()
    assert let_go(brake, scene, now=30.0, seen_at=30.0) == scene.doomed
    assert brake.held(35.0) == 0
    assert brake.ask("pod-19", scene, seen_at=36.0, now=36.0) == Go()


def test_pods_that_are_not_asked_for_again_are_held_no_longer():
    brake = Brake(LIMITS)
    let_go(brake, doomed(20), now=0.0, seen_at=0.0)
    assert brake.held(10.0) == 20
    assert brake.held(120.0) == 0


def test_those_that_stay_after_all_begin_a_new_pause_if_they_come_again():
    brake, scene = Brake(LIMITS), doomed(20)
    let_go(brake, scene, now=0.0, seen_at=0.0)
    assert let_go(brake, scene, now=120.0, seen_at=120.0) == set()


@given(st.lists(st.tuples(st.sampled_from(sorted(TWENTY)), SCENES, st.floats(0.0, 20.0))))
def test_no_more_than_the_limit_goes_without_a_pause(asked):
    """Whatever is asked in whatever order: within a window at most the larger of the two limits."""
    brake, now = Brake(LIMITS), 0.0
    first_asked: dict[str, float] = {}
    at_once: dict[str, float] = {}
    for uid, scene, pause in asked:
        now += pause
        began = first_asked.setdefault(uid, now)
        answer = brake.ask(uid, scene, seen_at=now, now=now)
        if isinstance(answer, Go):
            if now - began < LIMITS.pause_seconds:
                at_once[uid] = now
            first_asked.pop(uid, None)
        recent = [at for at in at_once.values() if now - at < LIMITS.window_seconds]
        assert len(recent) <= max(LIMITS.minimum, LIMITS.share * len(TWENTY))


@given(st.lists(SCENES, min_size=1, max_size=20), st.floats(0.5, ASK_SECONDS), st.booleans())
def test_evidence_that_stands_lets_every_pod_go_in_bounded_time(scenes, pause, tells):
    """As long as the controller stays the same, whatever else the scenes show."""
    brake, now, left = Brake(LIMITS), 0.0, sorted(TWENTY)[:8]
    while left:
        scene = replace(scenes[int(now) % len(scenes)], boot=1 if tells else None)
        left = [it for it in left if brake.ask(it, scene, seen_at=now, now=now) != Go()]
        assert not left or now < LIMITS.pause_seconds
        now += pause
