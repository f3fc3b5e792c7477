"""The number of CPU threads: what is requested, the cores there are, and what PyTorch uses meanwhile."""

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from apgcn._utils import limits
from apgcn.errors import InvalidInput
from apgcn.ops import threads
from apgcn.ops.threads import available_cores, cpu_quota, get_num_threads, kernel_threads, resolve_threads


@pytest.fixture(autouse=True)
def no_variables(monkeypatch):
    for name in ("APGCN_THREADS", "OMP_NUM_THREADS", "TORCHELASTIC_RUN_ID"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def eight_cores(monkeypatch):
    monkeypatch.setattr(threads, "available_cores", lambda: 8)


@pytest.fixture
def control_groups(monkeypatch, tmp_path):
    """A function that writes files of control groups and returns the quota that is read from them."""
    monkeypatch.setattr(limits, "CONTROL_GROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(limits, "MEMBERSHIP", tmp_path / "membership")

    def write(files: dict[str, str], membership: str = "0::/") -> float:
        (tmp_path / "membership").write_text(membership)
        for name, text in files.items():
            path = tmp_path / "cgroup" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        cpu_quota.cache_clear()
        return cpu_quota()

    yield write
    cpu_quota.cache_clear()


# --- requests ---


@pytest.mark.parametrize("requested", [0, -1, "two", "2", 1.5, 2.0, True, float("nan")])
def test_a_number_that_is_no_positive_integer_is_refused_with_one_sentence(requested, eight_cores):
    with pytest.raises(InvalidInput) as error:
        resolve_threads(requested)
    sentence = f"threads must be an integer >= 1, got {requested!r}; leave it out to use the 8 cores that this process"
    assert str(error.value) == f"{sentence} may use."


@pytest.mark.parametrize("requested", ["0", "-1", "two", "1.5", "1e3", "٠", "9" * 5000])
def test_an_invalid_variable_is_refused_by_its_name(requested, eight_cores, monkeypatch):
    monkeypatch.setenv("APGCN_THREADS", requested)
    with pytest.raises(InvalidInput, match=r"^APGCN_THREADS must be an integer >= 1, got '.*'; unset it to use the 8"):
        resolve_threads()
    assert resolve_threads(3) == 3, "an argument comes first"


@pytest.mark.parametrize(
    ("requested", "workers", "expected"),
    [
        (None, 1, 8),
        (None, 2, 4),
        (None, 3, 2),  # two cores stay free: five threads for two workers and three for the third would be no better
        (None, 8, 1),
        (None, 1000, 1),
        (1, 1, 1),
        (5, 1, 5),
        (5, 2, 4),
        (10_000, 1, 8),
        (10_000, 4, 2),
        (10**30, 1, 8),
        (2, 100, 1),
    ],
)
def test_workers_share_the_cores_and_no_request_exceeds_them(requested, workers, expected, eight_cores, monkeypatch):
    assert resolve_threads(requested, workers=workers) == expected
    if requested:
        monkeypatch.setenv("APGCN_THREADS", f" {requested} ")
        assert resolve_threads(workers=workers) == expected, "the variable is treated as the argument is"


def test_an_empty_variable_is_none(eight_cores, monkeypatch):
    monkeypatch.setenv("APGCN_THREADS", "")
    assert resolve_threads() == 8


def test_the_limit_of_other_libraries_limits_the_default(eight_cores, monkeypatch):
    """joblib and Ray set it in their processes, which would otherwise use all cores each."""
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert (resolve_threads(), resolve_threads(workers=4), resolve_threads(6)) == (3, 2, 6)
    monkeypatch.setenv("OMP_NUM_THREADS", "2,1")
    assert resolve_threads() == 2
    monkeypatch.setenv("OMP_NUM_THREADS", "many")
    assert resolve_threads() == 8
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "run")
    assert resolve_threads(workers=2) == 4, "torchrun sets 1, however many cores a rank has"
    monkeypatch.setenv("APGCN_THREADS", "3")
    assert resolve_threads() == 3


# --- cores ---


def test_a_process_that_may_use_one_core_uses_one_thread():
    code = (
        "import os; os.sched_setaffinity(0, list(os.sched_getaffinity(0))[:1]); "
        "from apgcn.ops.threads import available_cores, resolve_threads; "
        "print(available_cores(), resolve_threads(), resolve_threads(10_000), resolve_threads(workers=2))"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).split() == ["1", "1", "1", "1"]


def test_the_cores_of_this_process_are_those_of_its_affinity():
    assert 1 <= available_cores() <= os.cpu_count()


@pytest.mark.parametrize(
    ("text", "quota", "cores"),
    [
        ("100000 100000\n", 1.0, 1),
        ("150000 100000\n", 1.5, 2),
        ("10000 100000\n", 0.1, 1),
        ("max 100000\n", float("inf"), 64),
        ("9000000 100000\n", 90.0, 64),
        ("nonsense", float("inf"), 64),
        ("100000 0", float("inf"), 64),
    ],
)
def test_the_quota_of_a_container_limits_the_cores(text, quota, cores, control_groups, monkeypatch):
    monkeypatch.setattr(os, "process_cpu_count", lambda: 64, raising=False)
    assert control_groups({"cpu.max": text}) == quota
    assert available_cores() == cores
    assert resolve_threads(10_000) == cores


@pytest.mark.parametrize(("quota", "cores"), [("100000", 1), ("150000", 2), ("-1", 64)])
@pytest.mark.parametrize("folder", ["cpu", "cpu,cpuacct"])
def test_control_groups_of_version_1_count_too(quota, cores, folder, control_groups, monkeypatch):
    monkeypatch.setattr(os, "process_cpu_count", lambda: 64, raising=False)
    files = {f"{folder}/cpu.cfs_quota_us": f"{quota}\n", f"{folder}/cpu.cfs_period_us": "100000\n"}
    control_groups(files, membership="4:cpu,cpuacct:/docker/0a1b\n1:name=systemd:/docker/0a1b\n")
    assert available_cores() == cores


def test_the_smallest_quota_of_the_groups_around_a_process_counts(control_groups):
    files = {"a.slice/cpu.max": "400000 100000", "a.slice/b/cpu.max": "300000 100000", "c/cpu.max": "100000 100000"}
    assert control_groups(files, membership="0::/a.slice/b/leaf\n") == 3.0
    files = {"cpu,cpuacct/job/cpu.cfs_quota_us": "200000", "cpu,cpuacct/job/cpu.cfs_period_us": "100000"}
    assert control_groups(files, membership="3:cpu,cpuacct:/job\n2:memory:/c\n") == 2.0


def test_a_machine_without_control_groups_has_no_quota(monkeypatch, tmp_path):
    monkeypatch.setattr(limits, "CONTROL_GROUPS", tmp_path / "none")
    monkeypatch.setattr(limits, "MEMBERSHIP", tmp_path / "none either")
    cpu_quota.cache_clear()
    assert cpu_quota() == float("inf")
    cpu_quota.cache_clear()


# --- blocks ---


@pytest.fixture
def two_torch_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    assert torch.get_num_threads() == 2
    torch.set_num_threads(before)


def test_nested_blocks_restore_what_was_before(two_torch_threads, eight_cores):
    assert get_num_threads() == 1
    with kernel_threads(4):
        assert (get_num_threads(), resolve_threads(), resolve_threads(workers=2)) == (4, 4, 2)
        with kernel_threads(3):
            assert (get_num_threads(), resolve_threads(), torch.get_num_threads()) == (3, 3, 1)
            assert resolve_threads(5) == 5, "a request comes first"
        assert (get_num_threads(), torch.get_num_threads()) == (4, 1)
    assert (get_num_threads(), torch.get_num_threads()) == (1, 2)


def test_a_block_that_raises_restores_what_was_before(two_torch_threads):
    with pytest.raises(ZeroDivisionError), kernel_threads(4):
        1 / 0  # noqa: B018
    assert get_num_threads() == 1


def test_blocks_that_end_in_another_order_restore_what_was_before(two_torch_threads):
    """As those of two generators that are suspended inside a block."""
    first, second = kernel_threads(4), kernel_threads(3)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert (get_num_threads(), torch.get_num_threads()) == (3, 1)
    second.__exit__(None, None, None)
    assert (get_num_threads(), torch.get_num_threads()) == (1, 2)


def test_threads_that_leave_in_another_order_do_not_disturb_each_other(two_torch_threads):
    """The first to enter leaves first; the other still has one PyTorch thread, and both have two afterwards."""
    entered, left = threading.Event(), threading.Event()
    seen = {}

    def other():
        with kernel_threads(3):
            entered.set()
            left.wait(10)
            seen["inside"] = get_num_threads(), torch.get_num_threads()
        seen["outside"] = get_num_threads(), torch.get_num_threads()

    thread = threading.Thread(target=other)
    with kernel_threads(4):
        thread.start()  # it gets PyTorch's number while that is 1 here
        assert entered.wait(10)
        assert (get_num_threads(), torch.get_num_threads()) == (4, 1)
    assert (get_num_threads(), torch.get_num_threads()) == (1, 2)
    left.set()
    thread.join()
    assert seen == {"inside": (3, 1), "outside": (1, 2)}
    assert torch.get_num_threads() == 2


def test_many_threads_enter_and_leave_at_random_times(two_torch_threads):
    barrier = threading.Barrier(4)

    def work(number):
        barrier.wait(10)
        for turn in range(200):
            with kernel_threads(number + 2):
                assert (get_num_threads(), torch.get_num_threads()) == (number + 2, 1)
                if turn % (number + 1):
                    with kernel_threads(number + 20):
                        assert (get_num_threads(), torch.get_num_threads()) == (number + 20, 1)
            assert (get_num_threads(), torch.get_num_threads()) == (1, 2)
        return True

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(4)))


def test_the_backward_pass_has_the_threads_of_the_block():
    """PyTorch computes it on the Python thread that calls it."""
    seen = []

    class Identity(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            seen.append(get_num_threads())
            return gradient

    with kernel_threads(3):
        Identity.apply(torch.ones(2, requires_grad=True)).sum().backward()
    assert seen == [3]
