"""The append-only log: what is written stays, what is torn is forgiven at the end and refused in the middle."""

import json
import multiprocessing
import os
from dataclasses import asdict, dataclass

import pytest

from apgcn.benchmark.jsonl_log import Log
from apgcn.errors import BrokenFile, InvalidInput


@dataclass(frozen=True)
class Note:
    key: str
    text: str = ""

    @property
    def line(self):
        return asdict(self)

    @classmethod
    def of_line(cls, line):
        if "text" not in line:
            raise InvalidInput("text must be there.")
        return cls(**line)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "notes.jsonl"


def log(path) -> Log[Note]:
    return Log(path, Note.of_line)


def test_what_is_appended_is_there_for_others_in_order(path):
    log(path).append([Note("b", "ü\n"), Note("a")])
    log(path).append([Note("c")])
    assert list(log(path).entries().values()) == [Note("b", "ü\n"), Note("a"), Note("c")]
    assert [json.loads(line)["key"] for line in path.read_text().splitlines()] == ["b", "a", "c"]


def test_a_log_that_is_not_there_is_empty(path):
    assert log(path).entries() == {}
    assert not path.exists()


def test_a_key_is_written_once_and_the_first_stays(path):
    mine, theirs = log(path), log(path)
    mine.append([Note("a", "first")])
    theirs.append([Note("a", "second"), Note("b")])
    assert mine.entries()["a"].text == theirs.entries()["a"].text == "first"
    assert len(path.read_text().splitlines()) == 2


@pytest.mark.parametrize(
    "torn", [b'{"key": "c", "te', b"{", b'{"key": "c", "text": "x"}', b"\x00\x00\x00", b"{broken}\n"]
)
def test_a_torn_last_line_is_forgiven_and_cut_off_by_the_next_writer(path, torn):
    log(path).append([Note("a"), Note("b")])
    with path.open("ab") as file:
        file.write(torn)
    assert list(log(path).entries()) == ["a", "b"]
    log(path).append([Note("d")])
    assert list(log(path).entries()) == ["a", "b", "d"]
    assert [json.loads(line)["key"] for line in path.read_text().splitlines()] == ["a", "b", "d"]


@pytest.mark.parametrize(
    "torn",
    ['{"key": "b", "te', '{"key": "b", "text": NaN}', "", "[1]", '{"text": "no key"}', '{"key": 3}', "[" * 100_000],
)
def test_a_torn_middle_is_refused_with_its_line(path, torn):
    path.write_text(f'{{"key": "a", "text": ""}}\n{torn}\n{{"key": "c", "text": ""}}\n')
    with pytest.raises(BrokenFile, match=r"line 2 of .*notes\.jsonl must be a JSON object with a key"):
        log(path).entries()
    with pytest.raises(BrokenFile, match="line 2"):
        log(path).append([Note("d")])
    assert path.read_text().count("\n") == 3  # nothing was changed


def test_a_line_with_other_fields_is_refused_with_its_number(path):
    path.write_text('{"key": "a", "text": ""}\n{"key": "b"}\n')
    with pytest.raises(BrokenFile, match=r"line 2 of .*: text must be there"):
        log(path).entries()


def test_a_torn_line_counts_for_line_numbers_after_more_was_read(path):
    reader = log(path)
    reader.append([Note("a"), Note("b")])
    reader.entries()
    with path.open("a") as file:
        file.write("broken\n" + json.dumps(Note("c").line) + "\n")
    with pytest.raises(BrokenFile, match="line 3"):
        reader.entries()


def test_a_file_that_was_replaced_is_read_anew(path):
    reader = log(path)
    reader.append([Note("a", "long"), Note("b")])
    assert len(reader.entries()) == 2
    path.write_text('{"key": "z", "text": ""}\n')
    assert list(reader.entries()) == ["z"]
    path.unlink()
    assert reader.entries() == {}


def test_a_file_that_was_replaced_by_a_longer_one_is_read_anew(path):
    reader = log(path)
    reader.append([Note("a")])
    path.unlink()
    log(path).append([Note("b", "longer"), Note("c", "longer still")])
    reader.append([Note("d")])
    assert list(log(path).entries()) == list(reader.entries()) == ["b", "c", "d"]


def test_every_line_is_synced_before_the_next_is_written(path, monkeypatch):
    sizes = []
    monkeypatch.setattr(os, "fsync", lambda number: sizes.append(os.fstat(number).st_size))
    log(path).append([Note("a"), Note("b"), Note("c")])
    ends = [place + 1 for place, letter in enumerate(path.read_text()) if letter == "\n"]
    assert sizes[1:4] == ends  # the first is the folder's, which has a new name in it


def write_many(path, name, together):
    mine = log(path)
    together.wait()
    for number in range(100):
        mine.append([Note(f"shared {number}", name), Note(f"{name} {number}", "x" * 3000)])


def test_several_processes_can_write_at_once(path):
    context = multiprocessing.get_context("spawn")
    together = context.Barrier(3)
    writers = [context.Process(target=write_many, args=(path, name, together)) for name in "abc"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(lines) == len({line["key"] for line in lines}) == 100 + 3 * 100
