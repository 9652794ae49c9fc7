"""Names, paths and numbers that a verb could take for an option, and arguments of wrong types."""

import os
import pickle
import shutil
from pathlib import Path

import numpy as np
import pyarrow
import pytest

import kinescope

TARGET = "software:mali-g71"


@pytest.fixture
def folder(samples, tmp_path, monkeypatch):
    """Returns an empty folder, which is the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def vecadd(samples):
    """Returns the sample of the vector addition."""
    return kinescope.open(samples / "vecadd.kine")


NAMES = ["-x.kine", "--json", "--limit=1", "-", "--", "a b.kine", "ü 日本.kine", "'\"$(x).kine", "new\nline.kine", "=x"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", [str, Path, os.fsencode])
def test_every_file_name_is_a_path(folder, samples, name, kind):
    shutil.copy(samples / "vecadd.kine", name)
    recording = kinescope.open(kind(name))
    assert recording.path == Path(name)
    assert recording.info() == kinescope.open(samples / "vecadd.kine").info()
    assert len(recording.check()) >= 0 and recording.text("info").startswith("GPU")
    assert recording.buffer("c").numpy(95).shape == (1024,)
    assert recording.link(3).startswith("kinescope:///")
    assert recording.picture("memory").png.startswith(b"\x89PNG")
    assert len(recording.references("c")) > 0
    same = recording.diff(kinescope.open(name))
    assert not same and str(same)
    outcome = recording.edit().plan(on=TARGET).run()
    assert outcome.matches and not recording.diff(outcome.recording)
    outcome.save(kind(name + "2"))
    assert kinescope.open(name + "2").event_count > 0


@pytest.mark.parametrize("name", ["-e.csv", "--to", "a b/ü.csv", "-"])
@pytest.mark.parametrize("kind", [str, Path, os.fsencode])
def test_every_file_name_is_written(folder, vecadd, name, kind):
    (folder / name).parent.mkdir(exist_ok=True)
    name += "" if name.endswith(".csv") else ".csv"
    vecadd.export(kind(name), table="events")
    assert len((folder / name).read_text().splitlines()) > 100
    vecadd.picture("memory").save(kind(name))
    assert (folder / name).read_bytes().startswith(b"\x89PNG")


def test_path_that_is_not_unicode_is_opened(folder, samples):
    shutil.copy(samples / "vecadd.kine", b"-\xff.kine")
    for path in (b"-\xff.kine", os.fsdecode(b"-\xff.kine"), Path(os.fsdecode(b"-\xff.kine"))):
        recording = kinescope.open(path)
        assert recording.info() and recording.memory(0x10, 0) == b"" and repr(recording)
    with pytest.raises(kinescope.OpenError) as info:
        kinescope.open(b"-\xfe.kine")
    assert str(info.value) and info.value.path


@pytest.mark.parametrize("wrong", [None, 5, 1.5, [], ["a.kine"], Ellipsis, "", b"", "a\0b", np.int64(3)], ids=repr)
def test_wrong_paths_are_refused(folder, vecadd, wrong):
    for call in (
        lambda: kinescope.open(wrong),
        lambda: kinescope.Recording(wrong),
        lambda: vecadd.export(wrong, table="events"),
        lambda: vecadd.picture("memory").save(wrong),
    ):
        with pytest.raises(kinescope.ArgumentError):
            call()
    assert not list(folder.iterdir())


@pytest.mark.parametrize("name", ["-c", "--buffer", "--", "-1", "--writes", "-h", "--json", "=", "-c=1", "@x", "*"])
def test_every_text_is_a_value(vecadd, name):
    """The value arrives at the verb, which then refuses it by its name."""
    for call in (
        lambda: vecadd.buffer(name).numpy(),
        lambda: vecadd.references(name),
        lambda: vecadd.edit().plan(on=name),
        lambda: kinescope.diff(vecadd, vecadd, tolerance=name),
        lambda: kinescope.diff(vecadd, vecadd, ignore=[name]),
        lambda: vecadd.export("e.csv", table=name),
        lambda: vecadd.export("e.csv", format=name),
        lambda: vecadd.table(name),
    ):
        with pytest.raises(kinescope.Error) as info:
            call()
        assert name in str(info.value) and "unexpected argument" not in str(info.value)
    with pytest.raises(kinescope.FilterError):
        vecadd.export("e.csv", table="events", where=name)
    if "=" not in name:
        with pytest.raises(kinescope.Error, match="no buffer") as info:
            vecadd.edit(**{name: np.zeros(4, np.float32)}).plan(on=TARGET)
        assert f"'{name}'" in str(info.value)


@pytest.mark.parametrize("name", ["-layer", "--repeat", "-1"])
def test_every_text_is_a_value_of_a_tuning(stand_in, samples, name, monkeypatch):
    # A worker that waits for a next request keeps its environment, which other tests need.
    monkeypatch.setenv("STAND_IN_PACE", "1")
    net = kinescope.open(samples / "cuda/net.kine")
    for call in (
        lambda: kinescope.tune(net.launch(name), {"block": [32]}),
        lambda: kinescope.tune(net.launch("layer:0"), {"block": name}),
        lambda: kinescope.tune(net.launch("layer:0"), {"cache": [name]}),
        lambda: kinescope.tune(net.launch("layer:0"), {"module": name}),
        lambda: kinescope.tune(net.launch("layer:0"), {"block": [32]}, name),
        lambda: kinescope.tune(net.launch("layer:0"), {"block": [32]}, on=name),
        lambda: kinescope.tune(net.launch("layer:0"), {"block": [32]}, inputs={name: np.zeros(4, np.float32)}),
    ):
        with pytest.raises(kinescope.Error) as info:
            call()
        assert name in str(info.value) and "unexpected argument" not in str(info.value)


WRONG_NUMBERS = [-1, 2**64, 1 << 70, 1.0, "5", True, None, [1], np.float64(1), np.bool_(True), np.array([1, 2]), b"1"]


@pytest.mark.parametrize("wrong", WRONG_NUMBERS, ids=repr)
def test_wrong_numbers_are_refused(vecadd, wrong):
    calls = [
        lambda: vecadd.memory(wrong, 4),
        lambda: vecadd.memory(0x10, wrong),
        lambda: vecadd.memory(0x10, 4, space=wrong),
        lambda: vecadd.references(0x10, space=wrong),
        lambda: vecadd.link(wrong),
    ]
    if wrong is not None:
        calls += [
            lambda: vecadd.registers(wrong),
            lambda: vecadd.buffer("c").numpy(wrong),
            lambda: vecadd.memory(0x10, 4, wrong),
            lambda: vecadd.picture("memory", event=wrong),
        ]
    if not isinstance(wrong, str):
        calls += [lambda: vecadd.references(wrong), lambda: vecadd.launch(wrong)]
    for call in calls:
        with pytest.raises(kinescope.ArgumentError):
            call()


def test_numbers_of_numpy_are_numbers(vecadd):
    row = next(r for r in pyarrow.table(vecadd.buffers()).to_pylist() if r["name"] == "c")
    va, size = np.uint64(row["va"]), np.int32(row["bytes"])
    assert vecadd.memory(va, size, np.int64(95), space=np.uint8(0)) == vecadd.memory(row["va"], row["bytes"], 95)
    np.testing.assert_array_equal(vecadd.buffer("c").numpy(np.int16(95)), vecadd.buffer("c").numpy(95))
    table = pyarrow.table
    assert table(vecadd.registers(np.array(95))) == table(vecadd.registers(95))
    assert table(vecadd.references(va, space=np.int8(0))) == table(vecadd.references(row["va"]))
    assert vecadd.link(np.uint16(5)) == vecadd.link(5)
    assert vecadd.picture("memory", event=np.int64(5), size=(np.float32(640), np.int64(480)), light=np.bool_(True)).png
    assert vecadd.launch(np.int64(5)) == vecadd.launch(5)
    assert vecadd.report("link", "--at", np.int64(5)) == vecadd.report("link", "--at", 5)


def test_ranges_beyond_the_address_space_and_the_events_are_refused(vecadd):
    with pytest.raises(kinescope.ArgumentError, match="64 bits"):
        vecadd.memory(2**64 - 2, 4)
    for call in (vecadd.registers, vecadd.buffer("c").numpy, vecadd.link, lambda e: vecadd.picture(event=e)):
        with pytest.raises(kinescope.Error, match=r"event 143|event 10000"):
            call(143 if call != vecadd.link else 10000)


@pytest.mark.parametrize("wrong", [5, b"write", ["write"], Ellipsis, "\udcff"], ids=repr)
def test_wrong_texts_are_refused(vecadd, wrong):
    calls = [
        lambda: vecadd.events(wrong),
        lambda: vecadd.stream_events(wrong),
        lambda: vecadd.table(wrong),
        lambda: vecadd.buffer(wrong),
        lambda: vecadd.picture(wrong),
        lambda: vecadd.edit().plan(on=wrong),
        lambda: vecadd.export("e.csv", table=wrong),
        lambda: vecadd.export("e.csv", format=wrong),
        lambda: vecadd.export("e.csv", table="events", where=wrong),
        lambda: vecadd.edit(**{"\udcff": np.zeros(3)}),
        lambda: kinescope.tune(vecadd.launch("x"), {"block": [32]}, on=wrong),
    ]
    if wrong != ["write"]:
        calls += [
            lambda: vecadd.events(columns=wrong),
            lambda: kinescope.diff(vecadd, vecadd, tolerance=wrong),
            lambda: kinescope.diff(vecadd, vecadd, ignore=wrong),
            lambda: vecadd.edit().plan(on=TARGET, options=wrong),
            lambda: kinescope.tune(vecadd.launch("x"), {"block": [32]}, wrong),
        ]
    if wrong != 5:
        calls += [lambda: vecadd.references(wrong), lambda: vecadd.launch(wrong)]
    for call in calls:
        with pytest.raises(kinescope.ArgumentError):
            call()


def test_wrong_objects_are_refused(vecadd, samples):
    for call, message in (
        (lambda: kinescope.diff(vecadd, str(samples / "vecadd.kine")), "kinescope.open"),
        (lambda: kinescope.diff(None, vecadd), "Recording"),
        (lambda: vecadd.diff(5), "Recording"),
        (lambda: kinescope.tune(5, {}), "Recording.launch"),
        (lambda: kinescope.tune(vecadd.launch("x"), ["block"]), "dictionary"),
        (lambda: kinescope.tune(vecadd.launch("x"), {}, inputs=["a"]), "dictionary"),
        (lambda: vecadd.events(progress="yes"), "progress"),
        (lambda: kinescope.open(vecadd.path, progress=5), "progress"),
        (lambda: vecadd.picture(size=5), "size"),
        (lambda: vecadd.picture(size=(1, 2, 3)), "size"),
        (lambda: vecadd.picture(size=("a", "b")), "size"),
        (lambda: vecadd.picture(scale="x"), "scale"),
        (lambda: vecadd.picture(light="yes"), "light"),
        (lambda: vecadd.edit().plan(on=TARGET, options="--graph"), r"\['--graph'\]"),
        (lambda: vecadd.edit().plan(on=TARGET).run(options="--graph"), r"\['--graph'\]"),
        (lambda: vecadd.report("link", "--at", None), "None"),
        (lambda: vecadd.report(5), "verb"),
        (lambda: kinescope.mark(None), "None"),
        (lambda: kinescope.mark("\udcff"), "Unicode"),
        (lambda: kinescope.name(5, np.zeros(3)), "5"),
        (lambda: kinescope.name("\udcff", np.zeros(3)), "Unicode"),
        (lambda: kinescope.range(5).__enter__(), "5"),
    ):
        with pytest.raises(kinescope.ArgumentError, match=message):
            call()


def test_words_of_reports_are_texts_numbers_and_paths(folder, vecadd):
    vecadd.report("memory", "c", "--event", 95, "-o", Path("-c.bin"))
    assert (folder / "-c.bin").read_bytes() == vecadd.buffer("c").numpy(95).tobytes()
    plan = vecadd.edit().plan(on=TARGET, options=["--time-limit", 30])
    assert plan.run().matches
    assert vecadd.report("diff", vecadd.path, "--tolerance", "buffer c absolute 1")["same"]


def test_inputs_of_other_types_are_converted_or_refused(vecadd):
    expected = vecadd.buffer("a").numpy()
    for array in (expected.astype(">f4"), expected.reshape(2, -1), expected.tobytes(), bytearray(expected.tobytes())):
        assert vecadd.edit(a=array).plan(on=TARGET).run().matches
    for wrong in (
        "x",
        None,
        object(),
        [[1], [1, 2]],
        np.zeros(3, "i4,f4"),
        np.zeros(1024, np.complex64),
        np.zeros(1024, np.longdouble),
        np.zeros(1024, "datetime64[s]"),
    ):
        with pytest.raises(kinescope.ArgumentError, match="'a'"):
            vecadd.edit(a=wrong)
    # A buffer may have any name.
    with pytest.raises(kinescope.Error, match="'self'"):
        vecadd.edit(self=np.zeros(3, np.float32)).plan(on=TARGET)
    with pytest.raises(kinescope.ArgumentError, match="''"):
        vecadd.edit(**{"": expected})


def test_values_of_lists_are_checked(vecadd):
    assert vecadd.events(columns=np.array(["kind"])).column_names == ["kind"]
    assert vecadd.events(columns=("kind", np.str_("value"))).column_names == ["kind", "value"]
    for columns in (5, [5], [None], b"kind", {"kind": 1}.values()):
        with pytest.raises(kinescope.ArgumentError):
            vecadd.events(columns=columns)


def test_exceptions_are_pickled():
    error = pickle.loads(pickle.dumps(kinescope.FilterError("a text", "a.kine")))
    assert (type(error), str(error), error.path) == (kinescope.FilterError, "a text", "a.kine")
