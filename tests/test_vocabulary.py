"""The repository uses the field's words: those of docs/glossary.md, not the private ones that they
replaced."""

import re
import subprocess
from pathlib import Path

import pytest

REPLACED = {
    r"\bpric(e|es|ed|ing)\b": "cost, costed",
    r"\bwishes\b": "options",
    r"\b(verdicts?|hasty|despair|glances?)\b": "result, conclusive result, quick probe, deferred proof",
    r"\bhand[-_ ]overs?\b": "hand-off, cross-group",
    r"\brings?\b": "multi-buffered channel",
    r"\b([Ss]aid once|asked again|what it mends|is let on|found again)\b": "a plain sentence",
    r"(\b|_)(takes?[ _]turns|(in|by)[ _]turns?)(\b|_)": "alternate, share slots",
    r"(\b|_)(turned tiles?|when[ _](a|the)[ _]loop[ _]turns)(\b|_)": "transposed, back edge",
    r"\bbeside a busy\b": "under tensor core contention",
    r"\b(PutLoad|PutTile|wait_full|wait_empty)\b": "producer_acquire, consumer_wait",
    r"\bmeetings? of\b": "group barrier",
}
"""Words that have no other use here, and what to write instead."""

FILES = [
    path
    for path in subprocess.run(
        ["git", "ls-files"], capture_output=True, text=True, check=False
    ).stdout.splitlines()
    if path.endswith((".py", ".md", ".cuh", ".toml", ".j2", ".js", ".css"))
    and path != "tests/test_vocabulary.py"
]


@pytest.mark.skipif(not FILES, reason="not a git checkout")
@pytest.mark.parametrize("pattern", REPLACED, ids=lambda pattern: REPLACED[pattern])
def test_replaced_words_do_not_come_back(pattern: str) -> None:
    found = [
        f"{path}:{number}: {line.strip()}"
        for path in FILES
        if Path(path).exists()
        for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), 1)
        if re.search(pattern, line)
    ]
    assert not found, f"write {REPLACED[pattern]}:\n" + "\n".join(found)


def test_the_glossary_has_the_words_of_the_schedule_and_of_warp_programs() -> None:
    glossary = Path("docs/glossary.md").read_text()
    words = (
        "initiation interval",
        "iterations in flight",
        "slot",
        "producer_acquire",
        "ordering barrier",
        "slices",
    )
    assert all(word in glossary for word in words)
