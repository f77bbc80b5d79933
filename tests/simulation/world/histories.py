"""Random histories: hypothesis strategies for plans. What shrinks well is drawn, everything else follows from it."""

from __future__ import annotations

from hypothesis import strategies as st

from chainwatch.config.models import HandOver
from chainwatch.simulation import Fault, FaultKind, OnTerm, TrainingFault, Trouble
from tests.simulation.world.mortal import POINTS
from tests.simulation.world.plan import ChainPlan, Event, Happening, Plan

HOURS = 8.0

_LASTS = {
    Happening.OCCUPY: (300, 7200),
    Happening.NODE_DIES: (30, 7200),
    Happening.ACCOUNTING_LATE: (5, 900),
    Happening.CONTROLLER_FROZEN: (5, 1800),
}
"""Seconds that a happening lasts, at least and at most; for all others one minute to an hour."""

events = st.sampled_from(list(Happening)).flatmap(
    lambda what: st.builds(
        Event,
        at=st.integers(1, int(HOURS * 3600 * 0.6)).map(float),
        what=st.just(what),
        target=st.integers(0, 3),
        seconds=st.integers(*_LASTS.get(what, (60, 3600))).map(float),
        flag=st.booleans(),
    )
)

training_faults = st.builds(
    TrainingFault,
    trouble=st.sampled_from([Trouble.NETWORK, Trouble.NETWORK, Trouble.CRASH, Trouble.NAN]),
    step=st.integers(1, 4000),
    times=st.sampled_from([1, 1, 2, None]),
)

chains = st.builds(
    ChainPlan,
    hand_over=st.sampled_from([h for h in HandOver if h is not HandOver.ARGUMENT]),
    qos=st.sampled_from(["extra", "requeue", "normal"]),
    on_term=st.sampled_from(list(OnTerm)),
    faults=st.one_of(st.just(()), st.just(()), training_faults.map(lambda fault: (fault,))),
    teardown_crash=st.booleans(),
    hides_exit=st.booleans(),
    final_step=st.sampled_from([3000, 6000, 9000]),
    no_requeue=st.booleans(),
    time_limit=st.sampled_from([None, None, 40, 90]),
    unique_name=st.booleans(),
    site_delay=st.sampled_from([None, None, 20.0, 90.0, 200.0, 390.0]),
    site_copies_comment=st.booleans(),
    site_minds_cancelled=st.booleans(),
    standby=st.sampled_from([False, False, True]),
)

lost_calls = st.one_of(
    st.builds(
        Fault,
        method=st.just("submit"),
        nth=st.integers(1, 4),
        kind=st.sampled_from(FaultKind),
        late=st.sampled_from([5.0, 30.0, 60.0]),
    ),
    st.builds(
        Fault,
        method=st.sampled_from(["queue", "accounting", "cancel", "nodes"]),
        nth=st.integers(1, 20),
        kind=st.sampled_from([FaultKind.BEFORE, FaultKind.AFTER]),
    ),
)

deaths = st.one_of(st.integers(1, 40), st.sampled_from(POINTS))

plans = st.builds(
    Plan,
    chains=st.lists(chains, min_size=1, max_size=2).map(tuple),
    events=st.lists(events, min_size=2, max_size=14).map(lambda found: tuple(sorted(found, key=lambda e: e.at))),
    faults=st.lists(lost_calls, max_size=4, unique_by=lambda f: (f.method, f.nth)).map(tuple),
    deaths=st.lists(deaths, max_size=6).map(tuple),
    downtime=st.sampled_from([1.0, 90.0, 1200.0]),
    release=st.sampled_from(["22.05.8", "24.11.5"]),
    min_job_age=st.sampled_from([60.0, 300.0]),
    accounting_lag=st.sampled_from([0.7, 45.0]),
    completing=st.sampled_from([0.5, 3.0, 70.0]),
    seed=st.integers(0, 1000),
    hours=st.just(HOURS),
)
