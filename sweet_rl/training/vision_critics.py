"""Vision-language models with a regression head, which transformers has no classes for."""

from __future__ import annotations

from typing import Any

from transformers import Qwen2_5_VLConfig, Qwen2VLConfig
from transformers.modeling_layers import GenericForSequenceClassification
from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import Qwen2_5_VLPreTrainedModel
from transformers.models.qwen2_vl.modeling_qwen2_vl import Qwen2VLPreTrainedModel


class Qwen2VLForSequenceClassification(GenericForSequenceClassification, Qwen2VLPreTrainedModel):  # type: ignore[no-untyped-call]
    """Qwen2-VL's backbone and a head `score`; its weights have the names that they have in Qwen2-VL."""


class Qwen2_5_VLForSequenceClassification(  # type: ignore[no-untyped-call]  # the usual name
    GenericForSequenceClassification, Qwen2_5_VLPreTrainedModel
):
    """A Qwen2.5-VL with a regression head."""


KINDS: dict[type, Any] = {
    Qwen2VLConfig: Qwen2VLForSequenceClassification,
    Qwen2_5_VLConfig: Qwen2_5_VLForSequenceClassification,
}
"""By the class of a model's configuration."""
