"""Bytes in, models out: pure, without I/O."""

from seorep_async.normalisation.decoder import Decoder, decoder_for

__all__ = ["Decoder", "decoder_for"]
