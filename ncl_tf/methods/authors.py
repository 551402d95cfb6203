"""What the authors' code does otherwise than the paper in momentum contrast; `gin/authors_code.gin` turns it on."""

import tensorflow as tf

from ncl_tf.data.augmentations import Draws
from ncl_tf.methods.momentum import MomentumContrast, Queue
from ncl_tf.objective.losses import Terms
from ncl_tf.objective.neighborhoods import Attributes


class OtherViewKeys(MomentumContrast):
    """An anchor's keys are the N projections of the other view and then the whole queue, of which view 1 replaces N
    entries; in the paper, they are the queue after both views replaced 2N.
    """

    keys_per_sample = 1

    def contrast(
        self, views: tf.Tensor, anchors: Attributes, keys: tf.Tensor, training: bool = False, draws: Draws | None = None
    ) -> tuple[Terms, Queue]:
        """Per view, L_NCL against the N momentum projections of the other one before the whole queue."""
        newest, sample, total = self.newest_keys(keys, anchors)
        projections = self.projector(self.encoder(views, training=training, draws=draws))
        halves = [_half(part, newest) for part in range(2)]
        local = [_half(part, Queue(projections, anchors)) for part in range(2)]
        terms = []
        for view in range(2):
            queue = self.queue.prepend(halves[1 - view], self.queue_size + total)
            contrast = self.against(queue, own=tf.fill(tf.shape(sample), -1), other=sample)
            terms.append(contrast(*local[view], contrast.own, contrast.other))
        mean = Terms(*((first + second) / 2 for first, second in zip(*terms, strict=True)))
        return mean, self.queue.prepend(halves[0], self.queue_size)


def starting_independently(method: type[MomentumContrast]) -> type[MomentumContrast]:
    """The method with f_m and h_m started from weights of their own, not as copies."""

    class IndependentStart(method):
        def start_momentum_networks(self) -> None:
            """Leaves the momentum networks at their own initial weights."""

    return IndependentStart


def _half(part: int, both_views: Queue) -> Queue:
    """One view's half."""
    samples = tf.shape(both_views.keys)[0] // 2
    keys, *attributes = (
        value[part * samples : (part + 1) * samples] for value in (both_views.keys, *both_views.attributes)
    )
    return Queue(keys, Attributes(*attributes))
