"""Cosines of pictures' features, by tiny models that are made here."""

import numpy as np
import pytest
from PIL import Image

from sweet_rl.errors import UsageError
from sweet_rl.grading.pages.embedding import ClipEmbedder, cosine, squares
from tests.grading.pages.pages_by_hand import SHOP, draw, moved
from tests.grading.pages.tiny_clip import save_tiny_clip


@pytest.fixture(scope="module", params=["clip", "siglip"])
def folder(request, tmp_path_factory):
    return str(save_tiny_clip(tmp_path_factory.mktemp(request.param), request.param))


def embed(embedder, *images):
    return embedder.embed([embedder.prepare(image) for image in images])


def test_published_preprocessing_and_features(folder):
    """What the model's own processor and model give, one picture at a time."""
    import torch
    from transformers import AutoImageProcessor, AutoModel

    images = [draw(SHOP), draw(moved(SHOP, 60), height=1500), draw(SHOP[:3], width=400)]
    vectors = embed(ClipEmbedder(folder, device="cpu", batch_size=2), *images)
    processor, model = (
        AutoImageProcessor.from_pretrained(folder, backend="pil"),
        AutoModel.from_pretrained(folder),
    )
    with torch.inference_mode():
        for image, vector in zip(images, vectors, strict=True):
            features = model.get_image_features(**processor(images=image, return_tensors="pt")).pooler_output
            np.testing.assert_allclose(vector, features[0].numpy(), rtol=1e-4, atol=1e-5)
    assert not np.allclose(vectors[0], vectors[1])


def test_a_picture_is_exactly_like_itself_whatever_the_batch(folder):
    embedder = ClipEmbedder(folder, device="cpu")
    first, other, again = embed(embedder, draw(SHOP), draw(SHOP[:2]), draw(SHOP))
    assert cosine(first, again) == 1
    assert 0 <= cosine(first, other) < 1


def test_center_sees_the_middle_of_a_long_page_and_tile_all_of_it(tmp_path):
    folder = str(save_tiny_clip(tmp_path, "clip"))
    long = draw(SHOP, width=400, height=2000)
    end_changed = long.copy()
    end_changed.paste("red", (0, 1800, 400, 2000))
    center, tile = ClipEmbedder(folder, device="cpu"), ClipEmbedder(folder, device="cpu", long_page="tile")
    assert cosine(*embed(center, long, end_changed)) == 1
    assert cosine(*embed(tile, long, end_changed)) < 1 - 1e-4
    square = draw(SHOP, width=300, height=300)
    np.testing.assert_array_equal(*[embed(way, square)[0] for way in (center, tile)])


def test_the_tiles_vector_is_the_mean_of_unit_vectors(tmp_path):
    folder = str(save_tiny_clip(tmp_path, "clip"))
    page = draw(SHOP, width=400, height=1000)
    center, tile = ClipEmbedder(folder, device="cpu"), ClipEmbedder(folder, device="cpu", long_page="tile")
    parts = embed(center, *[page.crop((0, top, 400, top + 400)) for top in (0, 400, 600)])
    expected = np.mean([part / np.linalg.norm(part) for part in parts], axis=0)
    np.testing.assert_allclose(embed(tile, page)[0], expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("size", "starts"),
    [((10, 10), [0]), ((10, 25), [0, 10, 15]), ((25, 10), [0, 10, 15]), ((10, 20), [0, 10])],
)
def test_squares(size, starts):
    image = Image.new("RGB", size)
    for y in range(size[1]):
        for x in range(size[0]):
            image.putpixel((x, y), (x, y, 0))
    tiles = squares(image)
    assert [tile.size for tile in tiles] == [(10, 10)] * len(starts)
    assert [max(tile.getpixel((0, 0))) for tile in tiles] == starts


def test_a_very_long_page_has_sixteen_squares():
    tiles = squares(Image.new("RGB", (10, 5000)))
    assert len(tiles) == 16


def test_cosine_by_hand():
    def vector(*values):
        return np.array(values, np.float32)

    assert cosine(vector(3, 0), vector(0.6, 0.8)) == pytest.approx(0.6)
    assert cosine(vector(1, 0), vector(-1, 0.001)) == 0
    assert cosine(vector(0, 0), vector(1, 0)) == 0
    assert cosine(vector(2, 1), vector(4, 2)) == pytest.approx(1)


def test_what_is_no_clip_model_is_said(tmp_path):
    from tests.tiny_models import save_tiny_llama

    with pytest.raises(UsageError, match="no such folder"):
        ClipEmbedder(str(tmp_path / "nowhere"), device="cpu")
    with pytest.raises(UsageError, match="CLIP"):
        ClipEmbedder(str(save_tiny_llama(tmp_path / "llama")), device="cpu")
