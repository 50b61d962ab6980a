"""Disciplines: what is wrong with one is said, and what is not wrong with one the kernel can do."""

import re
from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from basics.bands import BAND_TOS
from policies.link import Demotion, Discipline, Port, ServerPort, ServiceClass, three_bands
from policies.link.discipline import LEVELS, MOST_WEIGHT, faults
from testbed.live import tc

SERVERS = tuple(ServerPort(f"job-{number}", 7000 + 2 * number) for number in range(5))
PORT = Port("h1-eth0", 10**9, 100, servers=SERVERS)


@st.composite
def disciplines(draw: st.DrawFn) -> Discipline:
    """Any that is in order: some bands, some servers, whatever else."""
    bands = draw(st.lists(st.sampled_from(list(BAND_TOS)), unique=True, min_size=1))
    servers = draw(st.lists(st.sampled_from(SERVERS), unique=True))
    rest = draw(st.sampled_from(bands))
    heads = [(band, {"bands": (band,), "rest": band == rest}) for band in bands]
    heads += [(f"rank-{at}", {"servers": (server,)}) for at, server in enumerate(servers)]
    floor = st.floats(0, 1 / len(heads))
    return Discipline(
        tuple(
            ServiceClass(
                name,
                level=draw(st.integers(0, LEVELS - 1)),
                floor=draw(floor),
                weight=draw(st.floats(1, MOST_WEIGHT)),
                queue_per_flow=draw(st.booleans()),
                limit_packets=draw(st.none() | st.integers(1, 10**6)),
                mark_ns=draw(st.none() | st.integers(0, 10**9)),
                **takes,  # type: ignore[arg-type]
            )
            for name, takes in heads
        )
    )


@given(disciplines())
def test_what_is_in_order_has_no_faults(discipline: Discipline) -> None:
    assert list(faults(discipline)) == []


Spoil = Callable[[Discipline], Discipline]


def first(**changes: object) -> Spoil:
    """A discipline whose first class is another."""

    def spoiled(discipline: Discipline) -> Discipline:
        head, *others = discipline.classes
        return replace(discipline, classes=(replace(head, **changes), *others))  # type: ignore[arg-type]

    return spoiled


def nobody_takes_the_rest(discipline: Discipline) -> Discipline:
    return replace(
        discipline, classes=tuple(replace(one, rest=False) for one in discipline.classes)
    )


def everybody_takes_the_rest(discipline: Discipline) -> Discipline:
    extra = ServiceClass("more", rest=True)
    return replace(discipline, classes=(*discipline.classes, extra))


def a_class_twice(discipline: Discipline) -> Discipline:
    return replace(discipline, classes=(*discipline.classes, discipline.classes[0]))


def more_than_the_line(discipline: Discipline) -> Discipline:
    extra = ServiceClass("more", servers=(ServerPort("more", 1),), floor=1.0)
    return replace(discipline, classes=(*(first(floor=0.1)(discipline)).classes, extra))


SPOILED: list[tuple[Spoil, str]] = [
    (first(level=LEVELS), "level 8; there are 8, from 0"),
    (first(level=-1), "level -1"),
    (first(floor=-0.1), "a floor of -0.1"),
    (first(floor=float("nan")), "a floor of nan"),
    (first(weight=0.0), "a weight of 0"),
    (first(weight=1e6), "more than 100 times another"),
    (first(limit_packets=0), "a queue of 0 packets"),
    (first(mark_ns=-1), "marks after -1 ns"),
    (first(bands=("highest",)), "the unknown band highest"),
    (first(demotion=Demotion(10, "nowhere")), "demotes to nowhere, which is no class"),
    (first(demotion=Demotion(0, "nowhere")), "demotes after 0 bytes"),
    (lambda discipline: Discipline(()), "no class takes the rest"),
    (nobody_takes_the_rest, "no class takes the rest"),
    (everybody_takes_the_rest, "exactly one has to"),
    (a_class_twice, "is there 2 times"),
    (more_than_the_line, "of the line; 1 is the most"),
    (lambda discipline: replace(discipline, least_bps=0), "htb needs 1 or more"),
]


@pytest.mark.parametrize(("spoil", "says"), SPOILED, ids=[says for _, says in SPOILED])
@given(discipline=disciplines())
@settings(max_examples=20)
def test_what_is_wrong_is_said(spoil: Spoil, says: str, discipline: Discipline) -> None:
    if "100 times" in says and len(discipline.classes) == 1:
        return  # nobody to weigh more than
    found = list(faults(spoil(discipline)))
    assert any(says in fault for fault in found)
    assert all(len(fault.splitlines()) == 1 for fault in found)


@pytest.mark.parametrize(
    ("demotions", "says"),
    [
        ({"high": Demotion(100, "middle"), "middle": Demotion(1000, "low")}, None),
        (
            {"high": Demotion(100, "middle"), "middle": Demotion(100, "low")},
            "already; a second threshold lies above the first",
        ),
        ({"middle": Demotion(100, "high")}, "which is not served later"),
        ({"low": Demotion(100, "low")}, "which is not served later"),
    ],
)
def test_a_flow_is_demoted_downwards_and_later_each_time(
    demotions: dict[str, Demotion], says: str | None
) -> None:
    classes = [replace(one, demotion=demotions.get(one.name)) for one in three_bands().classes]
    found = list(faults(Discipline(tuple(classes))))
    assert (found == []) if says is None else any(says in fault for fault in found)


def test_only_classes_with_bands_can_demote_because_senders_mark() -> None:
    server = ServiceClass("rank", servers=SERVERS[:1], demotion=Demotion(10, "low"))
    [fault] = faults(Discipline((*three_bands().classes, server)))
    assert "both need a band" in fault


def test_several_bands_are_named_as_files_name_them() -> None:
    urgent, other = ServiceClass("urgent", bands=("high",)), ServiceClass("low", rest=True)
    found = list(faults(Discipline((urgent, other))))
    assert [fault.partition(":")[0] for fault in found] == ["class urgent", "class low"]


def test_the_prio_qdisc_is_not_asked_for_what_it_cannot_do() -> None:
    prio = replace(three_bands(), mechanism="prio")
    assert list(faults(prio)) == []
    assert any("no floors" in fault for fault in faults(first(floor=0.5)(prio)))
    assert any("one class a level" in fault for fault in faults(first(level=1)(prio)))


# ---- what the kernel is told --------------------------------------------------------------


@given(disciplines())
def test_every_class_is_told_with_its_level_queue_and_filters(discipline: Discipline) -> None:
    told = "\n".join(tc.commands(discipline, PORT))
    for queue, one in zip(tc.queues(discipline, PORT), discipline.classes, strict=True):
        assert f"classid {queue.class_id} htb prio {one.level} " in told
        [kind] = re.findall(rf"parent {queue.class_id} handle \w+: (\w+) limit {queue.limit_packets}\b", told)  # fmt: skip  # noqa: E501
        marks = one.mark_ns_at(PORT)
        assert kind == ("fq_codel" if one.queue_per_flow else "codel" if marks else "pfifo")
        tos = [f"tos {BAND_TOS[band]:#04x} 0xfc flowid {queue.class_id}\n" for band in one.bands]
        sports = [f"sport {server.port} 0xffff flowid {queue.class_id}\n" for server in one.servers]
        assert all(match in f"{told}\n" for match in tos + sports)
        if one.rest:
            assert f"htb default {queue.class_id.removeprefix('1:')}\n" in told
    assert told.count("filter ") == sum(len(one.bands + one.servers) for one in discipline.classes)


@given(disciplines())
def test_guarantees_fit_into_the_line_and_nobody_owns_nothing(discipline: Discipline) -> None:
    told = "\n".join(tc.commands(discipline, PORT))
    own_bps = [int(rate) for rate in re.findall(r"parent 1:1 .* rate (\d+)bit", told)]
    assert min(own_bps) > 0
    assert sum(own_bps) <= PORT.rate_bps + len(own_bps) * discipline.least_bps


@given(disciplines())
def test_classes_of_one_level_take_turns_by_weight(discipline: Discipline) -> None:
    told = "\n".join(tc.commands(discipline, PORT))
    quanta = [int(quantum) for quantum in re.findall(r"parent 1:1 .* quantum (\d+)", told)]
    assert min(quanta) == tc.QUANTUM_BYTE  # less than a packet would be a packet all the same
    for one, quantum in zip(discipline.classes, quanta, strict=True):
        for other, others in zip(discipline.classes, quanta, strict=True):
            if one.level == other.level:
                assert quantum / others == pytest.approx(one.weight / other.weight, rel=1e-4)


@given(disciplines(), st.randoms(use_true_random=False))
def test_servers_that_change_places_are_moved_by_their_filters(
    discipline: Discipline, random: Random
) -> None:
    places = [one.servers for one in discipline.classes if one.servers]
    random.shuffle(places)
    turned = replace(
        discipline,
        classes=tuple(
            replace(one, servers=places.pop()) if one.servers else one for one in discipline.classes
        ),
    )
    assert turned.same_queues(discipline)
    before, after = tc.commands(discipline, PORT), tc.moves(turned, PORT)
    made = [re.findall(r"filter add (.*) u32 match .* flowid", line) for line in before]
    known = [words[0] for words in made if words]
    assert [line.split(" u32 ")[0].removeprefix("filter change ") for line in after] == known
    led = {line.rpartition(" ")[2] for line in after}
    assert led == {line.rpartition(" ")[2] for line in before if line.startswith("filter add")}
