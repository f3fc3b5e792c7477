"""Atomic writes: several writers of one file, links in their way, and files of processes that were killed."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from apgcn._utils import atomic
from apgcn._utils.atomic import atomic_write

WRITERS = 20


def test_a_writer_that_finishes_first_does_not_disturb_the_other(tmp_path):
    path = tmp_path / "both.csv"

    def write_and_be_overtaken(file):
        file.write(b"a" * 100_000)
        atomic_write(path, lambda other: other.write(b"b" * 1_000))
        assert path.read_bytes() == b"b" * 1_000
        file.write(b"a" * 100_000)

    atomic_write(path, write_and_be_overtaken)
    assert path.read_bytes() == b"a" * 200_000
    assert os.listdir(tmp_path) == ["both.csv"]


def test_twenty_simultaneous_writers_leave_one_whole_file(tmp_path):
    """Half of them fail while they write; each gets its own outcome."""
    path, together = tmp_path / "all.bin", threading.Barrier(WRITERS)

    def write(number):
        def content(file):
            for _ in range(50):
                together.wait()
                file.write(bytes([number]) * 1000)
            if number % 2:
                raise ValueError(number)

        atomic_write(path, content)

    with ThreadPoolExecutor(WRITERS) as pool:
        outcomes = [future.exception() for future in [pool.submit(write, number) for number in range(WRITERS)]]
    assert [error and error.args for error in outcomes] == [(n,) if n % 2 else None for n in range(WRITERS)]
    content = path.read_bytes()
    assert len(content) == 50_000
    assert len(set(content)) == 1
    assert content[0] % 2 == 0
    assert os.listdir(tmp_path) == ["all.bin"]


@pytest.mark.parametrize("name", [".partial-out.csv", ".partial-out.csv-0123456789abcdef"])
def test_a_link_at_the_temporary_name_is_not_followed(tmp_path, monkeypatch, name):
    """Where the link has the very name that would be used, the write is refused."""
    monkeypatch.setattr(atomic.secrets, "token_hex", lambda size: "0123456789abcdef")
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    (tmp_path / name).symlink_to(victim)
    try:
        atomic_write(tmp_path / "out.csv", lambda file: file.write(b"new"))
    except FileExistsError:
        assert name.endswith("f")
    assert victim.read_bytes() == b"precious"
    assert (tmp_path / name).is_symlink()


def test_files_of_killed_writers_are_removed_after_an_hour(tmp_path):
    names = [f".partial-{name}-0123456789abcde{digit}" for name in ("a.csv", "a.csv-b") for digit in (0, 1)]
    for name in (*names, ".partial-a.csv", ".partial-checkpoint.safetensors"):
        (tmp_path / name).write_bytes(b"half")
        if not name.endswith("0"):
            os.utime(tmp_path / name, (0, 0))
    atomic_write(tmp_path / "a.csv", lambda file: file.write(b"whole"))
    left = {"a.csv", ".partial-a.csv", ".partial-checkpoint.safetensors", names[0], names[2], names[3]}
    assert set(os.listdir(tmp_path)) == left
    assert atomic.STALE_SECONDS == 3600


@pytest.mark.parametrize("name", ["a" * 255, "\u00fc" * 127, "b.csv"])
def test_a_name_of_any_length_that_the_file_system_allows_is_written(tmp_path, name):
    atomic_write(tmp_path / name, lambda file: file.write(b"whole"))
    assert (tmp_path / name).read_bytes() == b"whole"
    assert os.stat(tmp_path / name).st_mode & 0o777 == 0o666 & ~atomic._umask()
