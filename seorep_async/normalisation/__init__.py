"""Bytes in, models out: pure, without I/O."""

from seorep_async.normalisation.decoder import Decoder, FeedPageDecode, decoder_for

__all__ = ["Decoder", "FeedPageDecode", "decoder_for"]
