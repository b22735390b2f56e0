"""Share a predictor: save it as a Hugging Face folder and load it back; upload it with push_to_hub."""

from pathlib import Path

import numpy as np

import acvp


def main(name: str = "freeway", folder: Path = Path("shared/freeway")) -> acvp.Predictor:
    predictor = acvp.load(name)  # comes with acvp; a run folder works too
    predictor.save_pretrained(folder)  # config.json, model.safetensors, README.md (the model card)
    # predictor.push_to_hub("owner/name") would save the same files and upload them to that repository of the hub.
    # Anyone can then call acvp.Predictor.from_pretrained("owner/name"): weights and JSON only, no code is run.
    loaded = acvp.Predictor.from_pretrained(folder)
    frames = np.zeros((predictor.context, *predictor.config.frame), np.uint8)
    actions = np.arange(predictor.actions)
    assert np.array_equal(acvp.rollout(loaded, frames, actions), acvp.rollout(predictor, frames, actions))
    return loaded


if __name__ == "__main__":
    print(main().about)
