"""The experts of a Mixture-of-Experts layer on a GPU, with gradients, and their pipeline over a slow link.

>>> from interlock.gpu.moe import experts
>>> y = experts(x, gate_up, down, topk_idx, topk_weights)  # doctest: +SKIP

On a Hopper GPU with bfloat16 that is one launch of our kernel; elsewhere plain torch computes the same.
"""

from interlock.gpu.moe.layer import Layer, experts

__all__ = ["Layer", "experts"]
