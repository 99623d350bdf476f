#!/usr/bin/env bash
# The simulated human with eyes of the published runs on Frontend Design: a vision model that is shown two pictures.
# Usage: configs/sweet_rl/serve_human_72b_vl.sh MODEL [further arguments of the server]
# Then:  scripts/simulate_interactions.py --task_type html --hostname THIS_HOST --port 8000 --env_model auto ...
set -euo pipefail
model=${1:?name a model folder or hub name, for example Qwen/Qwen2-VL-72B-Instruct}
# IMAGES=image=2 for a vLLM that is too old to read JSON here
exec "$(dirname "${BASH_SOURCE[0]}")/serve_human_70b.sh" "$model" --limit-mm-per-prompt "${IMAGES:-{\"image\": 2\}}" "${@:2}"
