"""A message's pictures in the chat-completions protocol."""

from verdict_cli.llm.providers.chat_completions import message_content
from verdict_cli.llm.providers.model_checks import sees_images
from verdict_cli.messages import Message
from verdict_cli.model import Model

URL = "data:image/png;base64,AA=="


def test_a_message_without_pictures_is_its_text():
    assert message_content(Message("user", "Hi")) == "Hi"


def test_each_picture_is_in_its_place():
    parts = message_content(Message("user", "Before after", ((7, URL),)))
    assert [part["type"] for part in parts] == ["text", "image_url", "text"]
    assert parts[0]["text"] == "Before "
    assert parts[1]["image_url"] == {"url": URL}
    assert parts[2]["text"] == "after"


def test_pictures_alone_need_no_text():
    parts = message_content(Message("user", "", ((0, URL), (0, URL))))
    assert [part["type"] for part in parts] == ["image_url", "image_url"]


def test_models_that_read_text_only_are_recognized():
    assert sees_images(Model(name="gpt-3.5-turbo")) is False
    assert sees_images(Model(name="gpt-4o")) is True
    assert sees_images(Model(name="nobody/knows-this")) is None
