"""The reference's log-probabilities on disk: the same pairs are scored once for all trainings.

A file's name is a digest of all that decides about its numbers: the model's weights, the tokens and what is
scored of them, the reduction, the precision. It also holds these in words, so a file that was renamed or
damaged is refused.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from sweet_rl.chat.names import model_path
from sweet_rl.errors import UsageError
from sweet_rl.records import replace_file
from sweet_rl.training.checkpoints import downloaded
from sweet_rl.training.encoding import Encoded
from sweet_rl.types import digest

_TENSOR = "logps"


@dataclass(frozen=True, slots=True)
class ReferenceCache:
    """The numbers of some pairs under one model."""

    folder: Path
    identity: dict[str, str]

    @property
    def path(self) -> Path:
        """The file of these pairs and this model."""
        return self.folder / f"{digest(self.identity)}.safetensors"

    def load(self) -> Tensor | None:
        """[pairs, 3] as they were saved; None if they never were."""
        if not self.path.exists():
            return None
        try:
            with safe_open(self.path, framework="pt") as file:
                theirs, logps = file.metadata() or {}, file.get_tensor(_TENSOR)
        except (SafetensorError, OSError) as error:
            raise self._refused(f"is damaged ({error})") from error
        differs = [name for name in self.identity if theirs.get(name) != self.identity[name]]
        if differs:
            raise self._refused(f"was made with another {', another '.join(differs)}")
        if not logps.isfinite().all():
            row = int((~logps.isfinite()).any(dim=-1).nonzero()[0, 0])
            raise self._refused(f"holds a number that is not finite, for pair {row}")
        found: Tensor = logps
        return found

    def save(self, logps: Tensor) -> None:
        """Keep [pairs, 3], at once or not at all; not if a number is missing."""
        if logps.isfinite().all():
            self.folder.mkdir(parents=True, exist_ok=True)
            replace_file(self.path, [save({_TENSOR: logps.contiguous()}, metadata=self.identity)])

    def _refused(self, why: str) -> UsageError:
        return UsageError(
            f"The reference's log-probabilities in {str(self.path)!r} cannot be used: the file {why}. "
            "Delete it, and they are computed again."
        )


def weights_digest(name: str) -> str | None:
    """A fingerprint of a model's files, by content; None where they are not found."""
    folder = Path(model_path(name))
    if not folder.is_dir():
        folder = downloaded(name) or folder
    files = sorted(path for path in folder.glob("*") if path.suffix in {".safetensors", ".bin", ".json"})
    if not any(path.suffix != ".json" for path in files):
        return None
    total = hashlib.sha256()
    for path in files:
        if path.suffix == ".json" and path.name != "config.json":
            continue
        with path.open("rb") as file:
            total.update(path.name.encode() + hashlib.file_digest(file, "sha256").digest())
    return total.hexdigest()[:16]


def pairs_digest(pairs: Sequence[Encoded]) -> str:
    """A fingerprint of the tokens, the scored positions and the pictures."""
    total = hashlib.sha256()
    for pair in pairs:
        for side in pair.sides:
            for branch in side.branches:
                scored = [pair.index, side.denominator, *map(tuple, branch.scored)]
                total.update(json.dumps([branch.ids, scored]).encode())
                total.update("".join(picture.digest for picture in branch.pictures).encode())
    return total.hexdigest()[:16]
