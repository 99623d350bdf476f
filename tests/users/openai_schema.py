"""A strict reading of OpenAI's chat completions: what their reference allows in a request, and nothing else."""

import base64
import io
import re

from PIL import Image

ROLES = {"system", "developer", "user", "assistant"}
DATA_URL = re.compile(r"data:(image/(?:png|jpeg|gif|webp));base64,([A-Za-z0-9+/]+={0,2})")


def problems(body, *, lenient_type=False):
    """Everything that is wrong with a request; `lenient_type` allows what only vLLM does (no subtype)."""
    found = []
    for key in set(body) - {"model", "messages", "max_tokens", "temperature"}:
        found.append(f"unknown field {key}")
    if not isinstance(body.get("model"), str):
        found.append("model")
    if not isinstance(body.get("max_tokens"), int) or body["max_tokens"] < 1:
        found.append("max_tokens")
    if not isinstance(body.get("temperature"), int | float) or not 0 <= body["temperature"] <= 2:
        found.append("temperature")
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        return [*found, "messages"]
    for i, message in enumerate(messages):
        if set(message) != {"role", "content"} or message["role"] not in ROLES:
            found.append(f"messages[{i}]")
            continue
        parts = message["content"]
        if isinstance(parts, list) and parts:
            found += [
                f"messages[{i}].content[{j}]: {problem}"
                for j, part in enumerate(parts)
                for problem in _part(part, message["role"], lenient_type)
            ]
        elif not isinstance(parts, str):
            found.append(f"messages[{i}].content")
    return found


def _part(part, role, lenient_type):
    match part:
        case {"type": "text", "text": str(text), **rest} if not rest:
            return [] if text else ["empty text"]
        case {"type": "image_url", "image_url": {"url": str(url), **options}, **rest} if not rest:
            if role != "user":
                return ["only users send images"]
            if set(options) - {"detail"}:
                return ["image_url has unknown fields"]
            return _image(url, lenient_type)
        case _:
            return [f"is no content part: {sorted(part)}"]


def _image(url, lenient_type):
    if lenient_type and url.startswith("data:image;base64,"):
        url = url.replace("data:image;", "data:image/png;", 1)
    found = DATA_URL.fullmatch(url)
    if found is None:
        return [f"is no data URL of a picture: {url[:40]}"]
    picture = Image.open(io.BytesIO(base64.b64decode(found[2], validate=True)))
    picture.load()
    return (
        []
        if picture.get_format_mimetype() == found[1]
        else [f"{found[1]} is {picture.get_format_mimetype()}"]
    )
