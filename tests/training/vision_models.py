"""A tiny Qwen2-VL in a folder, made from a configuration and a seed, and pictures for it."""

import base64
import io
import random
from pathlib import Path

from tests.tiny_models import tiny_tokenizer
from tests.training.pairs import WORDS

START, END = "<|im_start|>", "<|im_end|>"
VISION = ["<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"]

CHAT_TEMPLATE = (
    "{% for m in messages %}{% if loop.first and m['role'] != 'system' %}<|im_start|>system\nYou help.<|im_end|>\n"
    "{% endif %}{{ '<|im_start|>' + m['role'] + '\n' }}{% if m['content'] is string %}{{ m['content'] }}"
    "{% else %}{% for part in m['content'] %}{% if part['type'] == 'image' %}"
    "<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ part['text'] }}{% endif %}{% endfor %}{% endif %}"
    "{{ '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
"""As Qwen2-VL's, without its videos."""


def save_tiny_qwen2_vl(folder: Path, *, seed: int = 0) -> Path:
    """Two text layers and one vision layer; pictures of 4 to 16 tokens."""
    import torch
    from transformers import Qwen2VLConfig, Qwen2VLForConditionalGeneration, Qwen2VLImageProcessorPil

    tokenizer = tiny_tokenizer(CHAT_TEMPLATE)
    tokenizer.add_special_tokens({"additional_special_tokens": [START, END, *VISION], "eos_token": END})
    start, end, image, video = tokenizer.convert_tokens_to_ids(VISION)
    torch.manual_seed(seed)
    config = Qwen2VLConfig(
        text_config={
            "vocab_size": len(tokenizer),
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "max_position_embeddings": 1024,
            "initializer_range": 0.2,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 1, 1]},
            "bos_token_id": tokenizer.bos_token_id,
            "eos_token_id": tokenizer.eos_token_id,
        },
        vision_config={
            "depth": 1,
            "embed_dim": 16,
            "hidden_size": 32,
            "num_heads": 2,
            "mlp_ratio": 2,
            "initializer_range": 0.2,
        },
        image_token_id=image,
        video_token_id=video,
        vision_start_token_id=start,
        vision_end_token_id=end,
    )
    Qwen2VLForConditionalGeneration(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    Qwen2VLImageProcessorPil(min_pixels=4 * 28**2, max_pixels=16 * 28**2).save_pretrained(folder)
    return folder


def png(width: int, height: int, seed: int) -> bytes:
    """A picture of four colours."""
    from PIL import Image

    draw = random.Random(seed)
    image = Image.new("RGB", (2, 2))
    image.putdata([tuple(draw.randrange(256) for _ in range(3)) for _ in range(4)])
    buffer = io.BytesIO()
    image.resize((width, height), Image.Resampling.NEAREST).save(buffer, "PNG")
    return buffer.getvalue()


def data_url(data: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(data).decode()


def picture_pairs(folder: Path, count: int, *, seed: int = 0, text_only: int = 0) -> list[dict]:
    """Pairs of dialogues that show no picture to three, of different sizes; the last ones show none.

    Pictures are named by relative path, by absolute path and as data URLs.
    """
    draw = random.Random(seed)
    (folder / "shown").mkdir(parents=True, exist_ok=True)

    def words():
        return " ".join(draw.choices(WORDS, k=draw.randint(1, 8)))

    def picture(number):
        data = png(draw.randint(30, 130), draw.randint(30, 130), number)
        path = folder / "shown" / f"{number}.png"
        path.write_bytes(data)
        source = (f"shown/{number}.png", str(path.absolute()), data_url(data))[number % 3]
        return {"type": "image", "image": source}

    rows = []
    for row in range(count):
        shown = 0 if row >= count - text_only else 1 + row % 3
        opening = [{"type": "text", "text": words()}]
        opening += [picture(10 * row + place) for place in range(min(shown, 2))]
        messages = [{"role": "user", "content": opening}, {"role": "assistant", "content": words()}]
        more = [{"type": "text", "text": words()}] + ([picture(10 * row + 5)] if shown == 3 else [])
        rejected = [*messages, {"role": "user", "content": more}, {"role": "assistant", "content": words()}]
        rows.append(
            {"chosen": [messages[0], {"role": "assistant", "content": words()}], "rejected": rejected}
        )
    return rows
