# docker build -t sweet_rl .      then: docker run --rm -v "$PWD/outputs:/work/outputs" sweet_rl demo
# The versions are those of constraints.txt. torch's build: cpu, or auto (the GPU of the building machine), cu128, ...
FROM python:3.11-slim

ARG TORCH_BACKEND=cpu
ARG EXTRAS=training,lora,archer,reflect,hub,pages,plots

# The browser draws pages of Frontend Design; nothing else needs a Debian package.
RUN apt-get update \
    && apt-get install -y --no-install-recommends chromium chromium-driver \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /opt/sweet_rl
COPY constraints.txt ./
RUN pip install --no-cache-dir uv \
    && uv pip install --system --no-cache --torch-backend="$TORCH_BACKEND" "$(grep '^torch==' constraints.txt)"

COPY pyproject.toml setup.py README.md LICENSE ./
COPY sweet_rl sweet_rl
COPY sweet_rl_verifiers sweet_rl_verifiers
RUN uv pip install --system --no-cache --torch-backend="$TORCH_BACKEND" -c constraints.txt ".[$EXTRAS]"

# Answers of models are graded here: not as root, in a folder of its own.
RUN useradd --create-home agent && mkdir -p /work/outputs && chown -R agent /work
USER agent
WORKDIR /work
ENTRYPOINT ["sweet-rl"]
CMD ["--help"]
