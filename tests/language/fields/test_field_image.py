"""Pictures in a column: read early, put at their place in the prompt, refused where nobody sees them."""

import base64

import pytest

from verdict_cli.errors import ReplyError, RowError
from verdict_cli.language.fields.types import ImageType, RecordType, image_url
from verdict_cli.plan.row_types import row_converter

PNG = b"\x89PNG\r\n\x1a\n" + bytes(16)


def test_bytes_become_a_data_url_of_their_kind():
    assert ImageType().read(PNG) == "data:image/png;base64," + base64.b64encode(PNG).decode()
    assert ImageType().read(b"\xff\xd8\xff" + bytes(8)).startswith("data:image/jpeg;base64,")


@pytest.mark.parametrize("value", [b"not a picture", "", 3, None, "no/such/file.png", ["a.png"]])
def test_what_is_no_picture_is_refused(value):
    with pytest.raises(ReplyError):
        ImageType().read(value)


@pytest.mark.parametrize("url", ["https://example.org/a.png", "data:image/png;base64,AA=="])
def test_a_url_stays_as_it_is(url):
    assert ImageType().read(url) == url
    assert image_url(url) == url


def test_a_path_is_taken_from_the_datasets_folder_and_read_when_it_is_sent(tmp_path):
    (tmp_path / "a.png").write_bytes(PNG)
    row = row_converter(RecordType({"photo": ImageType()}), tmp_path)({"photo": "a.png"})
    assert row["photo"] == str(tmp_path / "a.png")
    assert image_url(row["photo"]) == ImageType().read(PNG)


def test_a_missing_file_is_reported_when_the_rows_are_checked(tmp_path):
    with pytest.raises(ValueError, match="no image file"):
        row_converter(RecordType({"photo": ImageType()}), tmp_path)({"photo": "a.png"})


def test_a_file_that_is_missing_when_it_is_sent_fails_the_row(tmp_path):
    with pytest.raises(RowError, match="cannot be read"):
        image_url(str(tmp_path / "gone.png"))
