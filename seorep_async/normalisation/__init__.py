"""Bytes in, models out: pure, without I/O."""

from seorep_async.normalisation.decoder import Decoder, decoder_for
from seorep_async.normalisation.wire_names import engine_warning

__all__ = ["Decoder", "decoder_for", "engine_warning"]
