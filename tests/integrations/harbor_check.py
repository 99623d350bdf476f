"""What harbor's own classes make of documents: `PYTHON -m tests.integrations.harbor_check FOLDER` (no import of ours).

Each document is validated as harbor does, read into its class, and written again in place.
"""

import json
import sys
from pathlib import Path

from harbor.models.trajectories import Trajectory
from harbor.utils.trajectory_validator import TrajectoryValidator

for path in sorted(Path(sys.argv[1]).glob("*.atif.json")):
    validator = TrajectoryValidator()
    if not validator.validate(path):
        sys.exit(f"{path.name}: {validator.get_errors()}")
    read = Trajectory.model_validate_json(path.read_text())
    path.write_text(json.dumps(read.to_json_dict()))
