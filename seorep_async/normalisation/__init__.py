"""Bytes in, models out: pure, without I/O."""

from seorep_async.normalisation.decoder import Decoder

__all__ = ["Decoder"]
