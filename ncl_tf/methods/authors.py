"""What the authors' code does differently from the paper; `gin/authors_code.gin` turns it on."""

import keras
import tensorflow as tf

from ncl_tf.data.augmentations import Draws, StaticDropout
from ncl_tf.data.cohort import SplitData
from ncl_tf.data.windows import Batch
from ncl_tf.methods.autoencoder import Autoencoder
from ncl_tf.methods.base import Step
from ncl_tf.methods.momentum import MomentumContrast, Queue
from ncl_tf.networks.decoder import Decoder
from ncl_tf.objective.losses import Anchors, Terms
from ncl_tf.objective.neighborhoods import Attributes


class OtherViewKeys(MomentumContrast):
    """Momentum contrast whose anchors have the N keys of the other view and then the whole queue, which view 1 enters.

    In the paper, the keys are the queue after both views have entered it.
    """

    keys_per_sample = 1

    def contrast(
        self, views: tf.Tensor, attributes: Attributes, keys: tf.Tensor, training: bool
    ) -> tuple[Terms, Queue]:
        """Evaluate L_NCL of each view against the N momentum projections of the other view before the whole queue."""
        newest, sample, total = self.newest_keys(keys, attributes)
        first, second = (Queue(*half) for half in _halves(newest))
        no_own = tf.fill(tf.shape(sample), -1)
        terms = []
        for (view, of_view), others in zip(_halves((views, attributes)), (second, first), strict=True):
            queue = self.queue.prepend(others, self.queue_size + total)
            terms.append(self.mean_terms(view, queue, Anchors(of_view, no_own, sample), training))
        mean = Terms(*((one + two) / 2 for one, two in zip(*terms, strict=True)))
        return mean, self.queue.prepend(first, self.queue_size)


class IndependentStart(MomentumContrast):
    """Momentum contrast whose f_m and h_m start from weights of their own; in the paper, they start as copies."""

    def start_momentum_networks(self) -> None:
        """Leave the momentum networks at their own initial weights."""


class EncoderStaticDropout(MomentumContrast):
    """Momentum contrast with dropout of the static values inside each encoder; in the paper, it is an augmentation.

    Args:
        static_dropout: its rate, below 1; the other arguments are those of `MomentumContrast`.
    """

    def __init__(self, *arguments, static_dropout: float, **settings) -> None:
        super().__init__(*arguments, **settings)
        self.static_dropout = StaticDropout(static_dropout, name="static_dropout")

    def compute_step(self, batch: Batch, training: bool) -> Step:
        """Contrast two views of each sample, in training with other static values for encoder and momentum encoder."""
        if not training:
            return super().compute_step(batch, training)
        views, attributes = self.two_views(batch, self.view_step(training))
        draws = self.draws(batch["window"], self.view_step(training), view=2, blocks=2)
        keys = self.momentum_projector(self.momentum_encoder(self._drop_static(views, draws.stream(1))))
        terms, queue = self.contrast(self._drop_static(views, draws.stream(2)), attributes, keys, training)
        return Step(terms, state=queue)

    def _drop_static(self, views: tf.Tensor, draws: Draws) -> tf.Tensor:
        """Drop out static values of the views [2n, T, C]."""
        columns = self.encoder.static_columns
        return tf.concat([self.static_dropout(views[:, :, :columns], draws=draws), views[:, :, columns:]], axis=2)


class AllSamplesAutoencoder(Autoencoder):
    """Auto-encoder whose forecasts are also learned from windows whose first half lies before the stay."""

    def sample_rows(self, split: SplitData) -> None:
        """Learn from every hour."""


class RectifiedDecoder(Decoder):
    """Decoder that ends with LayerNormalization and ReLU, so that it never returns negative standardized values."""

    def __init__(self, *arguments, **settings) -> None:
        super().__init__(*arguments, **settings)
        self.norms = [*self.norms, keras.layers.LayerNormalization(name=f"block_{len(self.norms) // 2}_norm_1")]


def momentum_contrast_class(
    other_view_keys: bool, independent_start: bool, encoder_static_dropout: bool
) -> type[MomentumContrast]:
    """Combine the chosen differences into one class; without any, it is the paper's."""
    chosen = {
        OtherViewKeys: other_view_keys,
        IndependentStart: independent_start,
        EncoderStaticDropout: encoder_static_dropout,
    }
    parts = tuple(part for part, wanted in chosen.items() if wanted)
    return type("AuthorsMomentumContrast", parts, {}) if parts else MomentumContrast


def _halves(both_views: tuple[tf.Tensor, Attributes]) -> list[tuple[tf.Tensor, Attributes]]:
    """Split tensors [2n, ...] into those of the first and of the second view."""
    values, attributes = both_views
    halves = (tf.split(value, 2) for value in (values, *attributes))
    return [(value, Attributes(*attribute)) for value, *attribute in zip(*halves, strict=True)]
