"""What is changed about models when they are loaded changes nothing about what they say."""

from dataclasses import replace

import pytest
import torch
from transformers import AutoModelForCausalLM

from sweet_rl.errors import UsageError
from sweet_rl.online.reflect.models import load_policy, load_reflector, save_agent
from sweet_rl.training.models import bare_model
from tests.online.reflect import taxi


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return taxi.make_model(tmp_path_factory.mktemp("model"))


@pytest.mark.parametrize("compat", ["fixed", "published"])
def test_a_frozen_adapter_is_part_of_the_weights(tmp_path, model, compat):
    flags = taxi.settings(model, reflect=True)
    trained = load_policy(flags, ["0", "1"])
    with torch.no_grad():
        for parameter in trained.trainable():
            parameter.normal_(std=0.2, generator=torch.Generator().manual_seed(0))
    save_agent(trained.model, trained.tokenizer, tmp_path / "checkpoint-1")
    loaded = {"reflect_load_dir": str(tmp_path / "checkpoint-1"), "lora_alpha": flags.lora_alpha}
    reflector = load_reflector(taxi.settings(model, reflect=True, compat=compat, **loaded))
    ids = torch.tensor([[5, 6, 7, 8]])
    with torch.no_grad():
        expected, bare = trained.model(ids).logits, usual_model(model)(ids).logits
        assert torch.allclose(reflector.model(ids).logits, expected, atol=1e-4)
    assert not torch.allclose(expected, bare, atol=1e-2)
    assert hasattr(reflector.model, "peft_config") is (compat == "published")


def usual_model(model):
    return AutoModelForCausalLM.from_pretrained(model).eval()


def test_the_fused_activation_is_the_same_function(model):
    flags = taxi.settings(model)
    loaded, usual = bare_model(load_policy(flags, ["0", "1"]).model), usual_model(model)
    kinds = [{type(module).__name__ for module in one.modules()} for one in (loaded, usual)]
    assert ["NewGELUActivation" in kind for kind in kinds] == [False, True]
    ids = torch.tensor([[5, 6, 7, 8]])
    with torch.no_grad():
        assert torch.allclose(loaded(ids).logits, usual(ids).logits, atol=1e-5)


def test_reflections_may_have_a_temperature_of_their_own(model):
    flags = taxi.settings(model, reflect=True, temperature=0.7)
    for changed, expected in (({}, 0.7), ({"reflect_temperature": 0.2}, 0.2)):
        given = replace(flags, **changed)
        reflector = load_reflector(given)
        assert reflector is not None
        assert reflector.sampling.temperature == expected
        assert load_policy(given, ["0", "1"]).sampling.temperature == 0.7


def test_a_model_that_could_read_nothing_is_refused(model):
    flags = taxi.settings(model, reflect=True, reflect_max_new_tokens=100_000)
    with pytest.raises(
        UsageError, match=r"is to write 100,000: of a prompt nothing .* --reflect_max_new_tokens"
    ):
        load_reflector(flags)
