"""Bytes in, models out: pure, without I/O."""

from seorep_async.normalisation.decoder import Decoder, FeedPageDecode, decoder_for
from seorep_async.normalisation.wire_names import engine_warning

__all__ = ["Decoder", "FeedPageDecode", "decoder_for", "engine_warning"]
