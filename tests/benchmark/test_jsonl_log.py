"""The append-only log: complete lines stay, an incomplete last line is ignored, and one in the middle is refused."""

import json
import multiprocessing
import os
from dataclasses import asdict, dataclass

import pytest

from apgcn.benchmark.jsonl_log import JSONLinesLog
from apgcn.errors import BrokenFile, InvalidInput


@dataclass(frozen=True)
class Note:
    key: str
    text: str = ""

    def to_json(self):
        return asdict(self)

    @classmethod
    def from_json(cls, line):
        if "text" not in line:
            raise InvalidInput("text must be there.")
        return cls(line["key"], line["text"])  # other fields are ignored, as those of a record are


@pytest.fixture
def path(tmp_path):
    return tmp_path / "notes.jsonl"


def log(path) -> JSONLinesLog[Note]:
    return JSONLinesLog(path, Note.from_json)


def test_appended_entries_are_read_in_order_by_others(path):
    log(path).append([Note("b", "ü\n"), Note("a")])
    log(path).append([Note("c")])
    assert list(log(path).entries().values()) == [Note("b", "ü\n"), Note("a"), Note("c")]
    assert [json.loads(line)["key"] for line in path.read_text().splitlines()] == ["b", "a", "c"]


def test_log_without_a_file_is_empty(path):
    assert log(path).entries() == {}
    assert not path.exists()


def test_first_entry_of_a_key_stays(path):
    first, second = log(path), log(path)
    first.append([Note("a", "first")])
    second.append([Note("a", "second"), Note("b")])
    assert first.entries()["a"].text == second.entries()["a"].text == "first"
    assert len(path.read_text().splitlines()) == 2


@pytest.mark.parametrize("incomplete", [b'{"key": "c", "te', b"{", b'{"key": "c", "text": "x"}', b"\x00\x00\x00"])
def test_incomplete_last_line_is_ignored_and_cut_off_by_the_next_writer(path, incomplete):
    log(path).append([Note("a"), Note("b")])
    with path.open("ab") as file:
        file.write(incomplete)
    assert list(log(path).entries()) == ["a", "b"]
    log(path).append([Note("d")])
    assert list(log(path).entries()) == ["a", "b", "d"]
    assert [json.loads(line)["key"] for line in path.read_text().splitlines()] == ["a", "b", "d"]


@pytest.mark.parametrize(
    "broken",
    ['{"key": "b", "te', '{"key": "b", "text": NaN}', "", "[1]", '{"text": "no key"}', '{"key": 3}', "[" * 100_000],
)
def test_broken_line_in_the_middle_is_refused_with_its_number(path, broken):
    path.write_text(f'{{"key": "a", "text": ""}}\n{broken}\n{{"key": "c", "text": ""}}\n')
    with pytest.raises(BrokenFile, match=r"line 2 of .*notes\.jsonl must be a JSON object with a key"):
        log(path).entries()
    with pytest.raises(BrokenFile, match="line 2"):
        log(path).append([Note("d")])
    assert path.read_text().count("\n") == 3  # nothing was changed


def test_broken_last_line_that_was_ended_is_refused_because_no_killed_writer_leaves_one(path):
    log(path).append([Note("a")])
    with path.open("ab") as file:
        file.write(b"{broken}\n")
    with pytest.raises(BrokenFile, match="line 2"):
        log(path).entries()


@pytest.mark.parametrize("count", [1, 3])
def test_every_flip_of_one_bit_is_refused(path, count):
    """Also in the checksum, in its name and in the line break of the last line."""
    log(path).append([Note(f"key {number}", "ü text") for number in range(count)])
    content = path.read_bytes()
    for place in range(len(content)):
        for bit in range(8):
            flipped = bytearray(content)
            flipped[place] ^= 1 << bit
            path.write_bytes(flipped)
            with pytest.raises(BrokenFile, match="line "):
                log(path).entries()


def test_lines_without_a_checksum_are_read_beside_lines_with_one(path):
    """Those that apgcn 0.2 wrote."""
    path.write_text('{"key": "a", "text": "older"}\n')
    log(path).append([Note("b")])
    assert list(log(path).entries()) == ["a", "b"]
    assert ["checksum" in json.loads(line) for line in path.read_text().splitlines()] == [False, True]


def test_two_entries_of_one_key_are_refused_unless_they_are_equal(path):
    line = '{"key": "a", "text": "first"}\n'
    path.write_text(line * 2)
    assert list(log(path).entries().values()) == [Note("a", "first")]
    path.write_text(line * 2 + line.replace("first", "second"))
    with pytest.raises(BrokenFile, match=r"line 3 of .* must be the only one of its key, .* 'a'; remove one"):
        log(path).entries()


def test_line_with_other_fields_is_refused_with_its_number(path):
    path.write_text('{"key": "a", "text": ""}\n{"key": "b"}\n')
    with pytest.raises(BrokenFile, match=r"line 2 of .*: text must be there"):
        log(path).entries()


def test_line_numbers_count_lines_of_earlier_reads(path):
    reader = log(path)
    reader.append([Note("a"), Note("b")])
    reader.entries()
    with path.open("a") as file:
        file.write("broken\n" + json.dumps(Note("c").to_json()) + "\n")
    with pytest.raises(BrokenFile, match="line 3"):
        reader.entries()


def test_replaced_file_is_read_anew(path):
    reader = log(path)
    reader.append([Note("a", "long"), Note("b")])
    assert len(reader.entries()) == 2
    path.write_text('{"key": "z", "text": ""}\n')
    assert list(reader.entries()) == ["z"]
    path.unlink()
    assert reader.entries() == {}


def test_file_replaced_by_a_longer_one_is_read_anew(path):
    reader = log(path)
    reader.append([Note("a")])
    path.unlink()
    log(path).append([Note("b", "longer"), Note("c", "longer still")])
    reader.append([Note("d")])
    assert list(log(path).entries()) == list(reader.entries()) == ["b", "c", "d"]


def test_each_line_is_synced_before_the_next_is_written(path, monkeypatch):
    sizes = []
    monkeypatch.setattr(os, "fsync", lambda number: sizes.append(os.fstat(number).st_size))
    log(path).append([Note("a"), Note("b"), Note("c")])
    ends = [place + 1 for place, letter in enumerate(path.read_text()) if letter == "\n"]
    assert sizes[1:4] == ends  # the first sync is that of the folder, which has a new file


def write_many(path, name, barrier):
    writer = log(path)
    barrier.wait()
    for number in range(100):
        writer.append([Note(f"shared {number}", name), Note(f"{name} {number}", "x" * 3000)])


def test_several_processes_can_write_at_once(path):
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(3)
    writers = [context.Process(target=write_many, args=(path, name, barrier)) for name in "abc"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(lines) == len({line["key"] for line in lines}) == 100 + 3 * 100
