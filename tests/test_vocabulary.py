"""Code and pages use the field's words: those that the tables below replace are found only in the listed exceptions.

Run it on some files or folders to list what is left there: python tests/test_vocabulary.py src/apgcn/io docs
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# Words and phrases that stand nowhere, in prose or in code.
PROSE = {
    r"listen(?:s|ed|er|ers|ing)?": "propagate",
    r"hear(?:s|d|ing)?": "receive",
    r"says?|said|saying": "report, print, state, output",
    r"ask(?:s|ed|er|ers|ing)?": "query, request",
    r"whom": "in-neighbours",
    r"packs?": "run batch",
    r"written[- ]out": "kernel, fused",
    r"processors?": "CPU",
    r"coins?": "dropout mask",
    r"tapes?": "random stream",
    r"toss(?:es|ed|ing)?": "draw",
    r"dearer|price of a step": "larger penalty",
    r"whole numbers?": "integer",
    r"truths?": "bool",
    r"made graphs?": "synthetic graph",
    r"rivals?": "baselines",
    r"one's own": "custom graph, user graph",
    r"certainty": "confidence",
    r"catalogued?|catalogues": "registry",
    r"exhibits?": "artifact",
    r"go(?:es)? on changing": "unfrozen",
    r"seed_dropout": "z0_dropout",
    r"halting_every": "halting_interval",
    r"stop_on": "early_stop_mode",
    r"per_class(?!es)": "train_per_class",
    r"pack_runs": "batch_runs",
    r"steps_deviation": "steps_std",
    r"accuracy_interval": "accuracy_ci95",
    r"listening_seconds": "propagation_seconds",
    r"--settings": "--preset",
    r"--test-share": "--test-size",
    r"--words": "--bag-of-words",
    r"--packs": "--batch-sizes",
    r"--rounds": "--repeats",
}

# Names of variables, functions, classes, attributes and modules; their words may stand in prose.
NAMES = set(
    """
    given own loops words share shares whole turned seeds_of tried watched purpose initialisation heard
    texts checks cleaning interrupts leaving noise pattern tensors asking estimator ranks combining compiling parts
    products network clock objective repeating searching solving judging holdout fitting fitted
    assembling settling extending comparable scope_of standing sweep exchange owners behind contents drawing
    spreadsheet peers starting filling watching
    Propagated Listening _asked _written_out Noise Coins loops_for plainly Pattern multiply pair_sums row_softmax
    heard_matrix TwoLayers Given decayed learns by_rows in_loops Pack remember leave Repeated Heard Listeners Asker Work
    Reading assemble settled hold_out Fitted judged Condition Mean Exhibit Nobody InProcess Processes OnRay
    all_say swap sums from_first to_first check_whole check_share check_truth
    """.split()  # noqa: SIM905
) | {"MOST"}
NAME_PATTERNS = (r"MOST_\w+", r"LEAST_\w+")

OLD_OPTIONS = ("--settings", "--test-share", "--words", "--packs", "--rounds")  # of version 0.1
OLD_HYPERPARAMETERS = ("seed_dropout", "halting_every", "stop_on")  # of version 0.1

# file or folder -> words that may stand there, and why
EXCEPTIONS: dict[str, tuple[str, ...]] = {
    "tests/test_vocabulary.py": ("*",),  # the list itself
    "src/apgcn/ops/devices.py": ("processor",),  # platform.processor of the standard library
    "src/apgcn/ops/kernels/cpu/simd_rows.py": ("extending",),  # the module numba.extending
    "src/apgcn/ops/kernels/cpu/parallel.py": ("extending",),  # the module numba.extending
    "tests/test_sklearn.py": ("estimator",),  # the argument of scikit-learn's checks
    "src/apgcn/training/search_space.py": ("ask",),  # optuna's ask-and-tell interface
    "tests/nn/test_halting.py": ("given",),  # the decorator of hypothesis
    "tests/io/test_fuzz.py": ("given",),  # the decorator of hypothesis
    "tests/training/test_batch_invariance.py": ("given",),  # the decorator of hypothesis
    "tests/_utils/test_roc_auc.py": ("given",),  # the decorator of hypothesis
    "src/apgcn/cli/__init__.py": OLD_OPTIONS,  # messages that name the replacement of an option
    "tests/cli/test_fit.py": OLD_OPTIONS,  # the test of these messages
    "src/apgcn/errors.py": OLD_HYPERPARAMETERS,  # the message that names the replacement of a hyperparameter
    "tests/cli/test_train.py": OLD_HYPERPARAMETERS,  # the test of this message
    "benchmarks/README.md": (*OLD_OPTIONS, "processor"),  # quotes a command as it was typed, and the name of a CPU
    "docs/halting.md": ("processor",),  # quotes the name of a CPU
    "scripts/migrate_records": ("*",),  # the field names of version 0.1
    "tests/benchmark/test_migrate_records.py": ("*",),  # the field names of version 0.1
}

SUFFIXES = {".py", ".md", ".html", ".js", ".css", ".toml", ""}
FOLDERS = ("src", "tests", "docs", "examples", "benchmarks", "scripts", ".ci")
FILES = ("README.md", "CONTRIBUTING.md", "Makefile", "pyproject.toml")


def files() -> list[Path]:
    found = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.is_file()]
    found += [ROOT / name for name in FILES]
    ignored = ("results", "__pycache__", "fixtures")
    return sorted(path for path in found if path.suffix in SUFFIXES and not set(ignored) & set(path.parts))


def allowed(path: Path) -> tuple[str, ...]:
    name = str(path.relative_to(ROOT))
    return tuple(word for place, words in EXCEPTIONS.items() if name.startswith(place) for word in words)


def is_python(path: Path, text: str) -> bool:
    return path.suffix == ".py" or (path.suffix == "" and text.startswith("#!") and "python" in text.split("\n")[0])


def left_over(path: Path) -> Iterator[str]:
    """Each place where an old word stands, as line: word -> the field's."""
    text = path.read_text()
    exceptions = allowed(path)
    if "*" in exceptions:
        return
    for pattern, instead in PROSE.items():
        for match in re.finditer(rf"(?<![\w-])(?:{pattern})(?![\w-])", text, re.IGNORECASE):
            if match.group().lower() not in exceptions:
                yield f"{text.count(chr(10), 0, match.start()) + 1}: {match.group()!r} -> {instead}"
    if is_python(path, text):
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            old = token.string in NAMES or any(re.fullmatch(one, token.string) for one in NAME_PATTERNS)
            if token.type == tokenize.NAME and old and token.string not in exceptions:
                yield f"{token.start[0]}: name {token.string!r}"


def questions(path: Path) -> Iterator[str]:
    """Docstrings whose first line is a question."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = (ast.get_docstring(node) or "").split("\n")[0]
            if "?" in first:
                yield f"{getattr(node, 'lineno', 1)}: docstring begins with a question: {first!r}"


def problems(path: Path) -> list[str]:
    found = list(left_over(path))
    if path.suffix == ".py":
        found += questions(path)
    return found


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_only_the_fields_words(path):
    assert not problems(path)


if __name__ == "__main__":
    chosen = [Path(name).resolve() for name in sys.argv[1:]] or [ROOT]
    for path in files():
        if any(path == one or one in path.parents for one in chosen):
            for problem in problems(path):
                print(f"{path.relative_to(ROOT)}:{problem}")
