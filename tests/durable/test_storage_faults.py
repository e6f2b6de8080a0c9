"""Storage that fails in every way it can: no wrong answer ever, and the flow can be opened again."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import penstock
from durable.judged import Wrong, check_flow
from durable.small_limits import small_limits
from durable.workload import steps
from penstock.base.errors import CorruptState, PenstockError
from penstock.commit import places
from penstock.engine import opening
from penstock.store.faulty import FaultyObjects, Rates
from penstock.store.location import Location
from penstock.store.objects import Objects
from penstock.store.open import open_objects
from store.fault_proxy import FaultProxy, ProxyRates
from store.s3_server import S3Server


@pytest.fixture(autouse=True)
def limits() -> Iterator[None]:
    with small_limits(STORAGE_CALL_SECONDS_MAX=30):
        yield


class Voyage:
    """A workload on storage with faults: after each error the flow is opened again, and judged."""

    def __init__(self, location: Location, seed: int, cache: Path, mode: str = "durable") -> None:
        self._location = location
        self._seed = seed
        self._cache = cache
        self._mode = mode
        self.acknowledged = 0
        self.started = 0
        self.errors: list[PenstockError] = []

    def open(self) -> penstock.Flow:
        return penstock.Flow(
            self._location.url,
            storage_options=self._location.options,
            cache_dir=self._cache,
            commit=self._mode,
            commit_interval="10 ms",
        )

    def judge(self, flow: penstock.Flow) -> int:
        self.acknowledged = self.started = check_flow(flow, self._seed, self.acknowledged, self.started)
        return self.acknowledged

    def sail(self, last: int) -> None:
        """Open the flow, and work until the last step or the first error."""
        flow = self.open()
        try:
            at = self.judge(flow)
            for step, _ in steps(self._seed):
                if step.number <= at:
                    continue
                if step.number > last:
                    break
                self.started = step.number
                step.run(flow)
                if self._mode == "durable" or step.is_definition:
                    self.acknowledged = step.number
            flow.flush()
            self.acknowledged = self.started
        except PenstockError as error:
            self.errors.append(error)
        finally:
            try:
                flow.close()
            except PenstockError as error:
                self.errors.append(error)

    def arrive(self, last: int, lives_max: int = 200) -> None:
        for _ in range(lives_max):
            try:
                self.sail(last)
            except PenstockError as error:  # it could not even be opened
                self.errors.append(error)
            if self.acknowledged >= last:
                return
        raise Wrong(f"it came to step {self.acknowledged} of {last} only: {self.errors[-1]}")


def inject(monkeypatch: pytest.MonkeyPatch, seed: int, rates: Rates) -> list[FaultyObjects]:
    """Every flow that is opened from now on has faulty objects."""
    made: list[FaultyObjects] = []
    rng = random.Random(seed)

    def faulty(location: Location) -> Objects:
        made.append(FaultyObjects(open_objects(location, retry_s=5), rng, rates, slow_s=0.01))
        return made[-1]

    for module in (opening, places):  # the probe at opening, and the files of the flow
        monkeypatch.setattr(module, "open_objects", faulty)
    return made


TRANSIENT = {
    "time-outs": Rates(time_out_before=0.1, time_out_after=0.1),
    "throttling": Rates(throttled=0.2),
    "false failures": Rates(false_failure=0.1),
    "slow and stale listings": Rates(slow_list=0.5, stale_list=0.5),
    "all of them": Rates(0.03, 0.03, 0.03, 0.03, 0.3, 0.3),
}


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["durable", "visible"])
@pytest.mark.parametrize("name", TRANSIENT)
def test_faults_that_pass(
    location: Location, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, mode: str
) -> None:
    if location.scheme == "s3" and (name != "all of them" or mode != "durable"):
        pytest.skip("one of them there: it is slow")
    rates = TRANSIENT[name]
    if location.scheme == "memory":  # nothing is tried again there, and opening reads every file
        often = {
            name: getattr(rates, name) / 10 for name in ("time_out_before", "time_out_after", "throttled")
        }
        rates = replace(rates, **often)
    made = inject(monkeypatch, 1, rates)
    voyage = Voyage(location, 1, tmp_path / "cache", mode)
    for last in (12, 25) if location.scheme == "s3" else (15, 30, 45, 60):
        voyage.arrive(last)
    while not any(f.injected.total() for f in made):  # rare ones may need more requests
        assert last < 600
        last += 30
        voyage.arrive(last)
    assert not [e for e in voyage.errors if isinstance(e, CorruptState)]
    for module in (opening, places):
        monkeypatch.setattr(module, "open_objects", open_objects)
    with voyage.open() as flow:
        voyage.judge(flow)


@pytest.mark.slow
def test_bits_that_flip_on_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads of remote files come back wrong now and then: they are read again, or refused by name."""
    location = Location.parse(f"memory://{tmp_path.name}-flips")
    made = inject(monkeypatch, 2, Rates(flipped=0.03))
    voyage = Voyage(location, 3, tmp_path / "cache")
    for last in range(10, 61, 5):
        voyage.arrive(last)
    assert sum(f.injected["flipped"] for f in made) > 0
    for error in voyage.errors:
        assert isinstance(error, PenstockError)
        assert '"batches/' in str(error) or "corrupt" in str(error), error


@pytest.mark.slow
def test_the_network_fails(s3_server: S3Server, tmp_path: Path) -> None:
    """SlateDB's own requests meet faults too: through a proxy."""
    s3_server.make_bucket("network")
    rates = ProxyRates(slow_down=0.03, closed_before=0.03, closed_after=0.03, delayed=0.1)
    proxy = FaultProxy(s3_server.port, random.Random(5), rates, delay_s=0.02)
    try:
        location = s3_server.location("network", "flow", endpoint=proxy.endpoint)
        voyage = Voyage(location, 5, tmp_path / "cache")
        voyage.arrive(40)
        assert proxy.injected.total() > 0
    finally:
        proxy.close()
    straight = Voyage(s3_server.location("network", "flow"), 5, tmp_path / "cache")
    straight.acknowledged = straight.started = voyage.acknowledged
    with straight.open() as flow:
        straight.judge(flow)


# -- damage that stays -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A flow as its process left it when it was killed: files, chunks, a log that is not flushed yet."""
    folder = tmp_path_factory.mktemp("sound")
    left = folder / "left"
    with small_limits():
        voyage = Voyage(Location.parse(folder / "flow"), 7, folder)
        voyage.arrive(50)
        with voyage.open() as flow:
            for step, _ in steps(7):
                if step.number > 50:
                    step.run(flow)
                if step.number == 70:
                    break
            flow._store._join_background()  # type: ignore[union-attr]  # a copy has no half-written file
            shutil.copytree(folder / "flow", left)
    return left


def damaged_copies(
    sound: Path, tmp_path: Path, kind: str, where: str, count: int
) -> Iterator[tuple[Path, Path]]:
    """Copies of the flow, each with one file damaged: the copy, and the file."""
    rng = random.Random(f"{kind} {where}")
    files = sorted(p.relative_to(sound) for p in (sound / where).rglob("*") if p.is_file())
    for number in range(count):
        copy = tmp_path / str(number)
        shutil.copytree(sound, copy)
        file = copy / rng.choice(files)
        data = bytearray(file.read_bytes())
        if not data:
            continue
        if kind == "flipped":
            bit = rng.randrange(8 * len(data))
            data[bit // 8] ^= 1 << bit % 8
        else:
            del data[rng.randrange(len(data)) :]
        file.write_bytes(data)
        yield copy, file


def judged(copy: Path) -> str:
    """What the flow answers: empty if it is right, or its error. Anything wrong raises."""
    voyage = Voyage(Location.parse(copy), 7, copy)
    voyage.acknowledged = voyage.started = 70
    try:
        with voyage.open() as flow:
            voyage.judge(flow)
            for step, _ in steps(7):
                if step.number > 70:
                    step.run(flow)
                if step.number == 80:
                    break
            voyage.acknowledged = voyage.started = 80
            voyage.judge(flow)
    except PenstockError as error:
        return str(error)
    return ""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["flipped", "torn"])
def test_a_damaged_batch_is_named(sound: Path, tmp_path: Path, kind: str) -> None:
    """Whoever uses it is told its name; verify() tells of those too that nobody has used."""
    for copy, file in damaged_copies(sound, tmp_path, kind, "batches", 8):
        try:
            with penstock.Flow(copy) as flow:
                bad = [f'"{check.name}"' for check in flow.verify() if check.kind == "file"]
        except PenstockError as error:
            bad = [str(error)]
        assert (bad and f'"batches/{file.name}"' in bad[0]) or not file.exists(), bad
        said = judged(copy)
        assert not said or f'"batches/{file.name}"' in said, said


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["flipped", "torn"])
def test_a_damaged_database_gives_no_wrong_answer(sound: Path, tmp_path: Path, kind: str) -> None:
    # SlateDB reads some torn files for ever: what it does not answer soon it will never answer.
    with small_limits(STORAGE_CALL_SECONDS_MAX=4):
        for copy, _ in damaged_copies(sound, tmp_path, kind, "db", 12):
            judged(copy)
