"""Tiny CLIP and SigLIP models in folders, made from a configuration and a seed."""


def save_tiny_clip(folder, kind="clip", seed=0):
    import torch
    from transformers import CLIPConfig, CLIPModel, SiglipConfig, SiglipModel
    from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
    from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    small = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    vision = small | {"image_size": 32, "patch_size": 16, "initializer_range": 0.5}
    if kind == "clip":
        config = CLIPConfig(text_config=small | {"vocab_size": 32}, vision_config=vision, projection_dim=8)
        model, processor = (
            CLIPModel(config),
            CLIPImageProcessorPil(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}),
        )
    else:
        config = SiglipConfig(text_config=small | {"vocab_size": 32}, vision_config=vision)
        model, processor = SiglipModel(config), SiglipImageProcessorPil(size={"height": 32, "width": 32})
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder
