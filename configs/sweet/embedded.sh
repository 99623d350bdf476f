PIPELINE=$(dirname "${BASH_SOURCE[0]}")/embedded.yaml # for scripts/sweet_backend.sh; new: sweet-rl run configs/sweet/embedded.yaml
