"""Mutants of models and training: what is learned, from what, and how it is measured meanwhile."""

from __future__ import annotations

from tests.mutants import Mutant

OBJECTIVE = "training/test_objective.py"

LEARNING = (
    Mutant(
        "rewards are learned with the opposite sign",
        "training/objective.py",
        "batch.rewards[:, -steps:].sign()",
        "batch.rewards[:, -steps:].neg().sign()",
        f"{OBJECTIVE}::test_rewards_and_ends_of_the_last_steps_are_learned_with_their_signs",
    ),
    Mutant(
        "the first rewards of a window are learned and not the last",
        "training/objective.py",
        "batch.rewards[:, -steps:]",
        "batch.rewards[:, :steps]",
        f"{OBJECTIVE}::test_rewards_and_ends_of_the_last_steps_are_learned_with_their_signs",
    ),
    Mutant(
        "the first ends of a window are learned and not the last",
        "training/objective.py",
        "batch.ends[:, -steps:]",
        "batch.ends[:, :steps]",
        f"{OBJECTIVE}::test_rewards_and_ends_of_the_last_steps_are_learned_with_their_signs",
    ),
    Mutant(
        "the first frames of a window are the targets and not the last",
        "training/objective.py",
        "batch.frames[:, -predictions.frames.shape[1] :]",
        "batch.frames[:, : predictions.frames.shape[1]]",
        f"{OBJECTIVE}::test_the_last_frames_of_a_window_are_the_targets",
    ),
    Mutant(
        "the trainer never feeds predictions back",
        "training/trainer.py",
        "feed_back=phase.feed_back",
        "feed_back=False",
        f"{OBJECTIVE}::test_each_phase_decides_whether_predictions_are_fed_back",
    ),
    Mutant(
        "pixel training of several steps sees real frames only",
        "models/pixel.py",
        "state = self._next(state, self._frame(chosen), chosen, outcome)",
        "state = self.observe(frames[:, : seen + step + 1])",
        "models/test_pixel_feed_back.py::test_the_second_step_is_trained_on_the_prediction_of_the_first",
    ),
    Mutant(
        "pixel training of several steps stays at the first",
        "models/pixel.py",
        "state = self._next(state, self._frame(chosen), chosen, outcome)",
        "state = state",
        "models/test_pixel_feed_back.py::test_the_second_step_is_trained_on_the_prediction_of_the_first",
    ),
    Mutant(
        "sampled background cells weigh as much as others",
        "models/pixel.py",
        "torch.where(live[row, cell], 1.0, float(still))",
        "torch.where(live[row, cell], 1.0, 1.0)",
        "models/test_pixel.py::test_still_cells_are_sampled_without_bias",
    ),
    Mutant(
        "after a prediction the two newest frames change places",
        "models/pixel.py",
        "torch.stack((state.classes[:, 1], classes), 1)",
        "torch.stack((classes, state.classes[:, 1]), 1)",
        "models/test_pixel.py::test_predictions_are_frames_of_the_palette",
    ),
    Mutant(
        "corrupted frames are also the targets",
        "models/pixel.py",
        "            classes = self._window_classes(frames, predict)\n        if not feed_back",
        "            classes = self._window_classes(frames, predict)\n"
        "            targets = classes[:, 2:]\n        if not feed_back",
        "models/test_spoiling.py::test_a_network_sees_spoiled_frames_and_is_to_predict_the_real_ones",
    ),
    Mutant(
        "the loss lacks its factor of one half",
        "models/loss.py",
        "(2 * rows * steps)",
        "(rows * steps)",
        "models/test_loss.py::test_hand_computed_case",
    ),
    Mutant(
        "predictions are fed back as the oldest frame",
        "models/history.py",
        "torch.cat((state.frames[:, state.unread.shape[1] :], state.unread), 1)",
        "torch.cat((state.unread, state.frames[:, state.unread.shape[1] :]), 1)",
        "models/test_feed_back_order.py::test_a_prediction_becomes_the_newest_frame",
    ),
    Mutant(
        "a rollout starts from the oldest of too many frames",
        "models/rollout.py",
        "frames[:, -predictor.context :]",
        "frames[:, : predictor.context]",
        "models/test_predictor_contract.py::test_rollout_without_batch_and_with_more_frames_uses_the_last_context",
    ),
    Mutant(
        "two gates of the LSTM change places",
        "models/lstm.py",
        "i, f, o, g = gates",
        "i, f, g, o = gates",
        "models/test_lstm.py::test_equals_torch_cell_with_reordered_weights",
    ),
    Mutant(
        "gate gradients are clipped on one side only",
        "models/lstm.py",
        "gradient.clamp(-self.gate_clip, self.gate_clip)",
        "gradient.clamp(max=self.gate_clip)",
        "models/test_lstm.py::test_clipped_gradients_equal_a_hand_written_reference",
    ),
    Mutant(
        "the action is added to factors and not multiplied",
        "models/transform.py",
        "self.decoded(self.encoded(h_enc) * self.action(",
        "self.decoded(self.encoded(h_enc) + self.action(",
        "models/test_transform.py::test_factored_is_equation_4_entry_by_entry",
    ),
    Mutant(
        "pixels are cut off and not rounded",
        "models/normaliser.py",
        "pixels.round_().clamp_(0, 255)",
        "pixels.clamp_(0, 255)",
        "models/test_normaliser.py::test_output_is_rounded_and_clamped",
    ),
    Mutant(
        "Graves' RMSProp forgets the squared mean",
        "training/optimisers.py",
        "torch._foreach_addcmul(squares, means, means, value=-1)",
        "torch._foreach_addcmul(squares, means, means, value=0)",
        "training/test_optimisers.py::test_graves_rmsprop_by_hand",
    ),
    Mutant(
        "warm-up is a step ahead",
        "training/curriculum.py",
        "(steps + 1) / (self.warmup + 1)",
        "(steps + 2) / (self.warmup + 1)",
        "training/test_curriculum.py::test_warm_up_and_cosine",
    ),
    Mutant(
        "the held-out score is that of the last step only",
        "training/heldout.py",
        "score=sum(errors) / len(errors)",
        "score=errors[-1]",
        "training/test_trainer.py::test_errors_are_what_they_say",
    ),
    Mutant(
        "a later phase is out of patience by the best score of an earlier one",
        "training/snapshot.py",
        "self.stale = 0 if score < self.phase_best",
        "self.stale = 0 if score < self.best",
        "training/test_position.py::test_patience_counts_within_a_phase_and_the_best_score_over_the_run",
    ),
    Mutant(
        "held-out windows come from the training part",
        "training/batches.py",
        "Windows(self.test, window, None",
        "Windows(self.train, window, None",
        "training/test_batches.py::test_held_out_windows_are_of_the_test_part",
    ),
    Mutant(
        "the mean image is of test episodes too",
        "training/batches.py",
        "mean_frame(self.train,",
        "mean_frame(self.store,",
        "training/test_batches.py::test_the_mean_image_is_of_the_training_part_alone",
    ),
)
