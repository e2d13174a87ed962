"""Bytes in, models out: pure, without I/O."""

from seorep_async.normalisation.decoder import (
    Decoder as Decoder,
    FeedPage as FeedPage,
    ModelPage as ModelPage,
    decoder_for as decoder_for,
)
from seorep_async.normalisation.wire_names import engine_warning as engine_warning
