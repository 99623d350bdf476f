PIPELINE=$(dirname "${BASH_SOURCE[0]}")/llama8b.yaml # for scripts/sweet_backend.sh; new: sweet-rl run configs/sweet/llama8b.yaml
