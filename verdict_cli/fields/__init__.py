"""Fields and their types: what a unit's response, input and output schemas are made of."""

from verdict_cli.fields.fits import fits
from verdict_cli.fields.image import Image, image_url, is_url
from verdict_cli.fields.keys import PLAIN, Enum, FieldKey, Fields, field_type, record
from verdict_cli.fields.types import (
    INTEGER,
    NUMBER,
    TEXT,
    TRUTH,
    Distribution,
    FieldType,
    OnScale,
    Plain,
    Record,
    TextList,
    Transcript,
    Unknown,
)

__all__ = [
    "INTEGER",
    "NUMBER",
    "PLAIN",
    "TEXT",
    "TRUTH",
    "Distribution",
    "Enum",
    "FieldKey",
    "FieldType",
    "Fields",
    "Image",
    "OnScale",
    "Plain",
    "Record",
    "TextList",
    "Transcript",
    "Unknown",
    "field_type",
    "fits",
    "image_url",
    "is_url",
    "record",
]
