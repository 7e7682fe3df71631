import re
from typing import Literal

Kind = Literal["greeting", "question", "statement"]


def understand(text: str) -> Kind:
    """What kind of message this is, without a model and without a key."""
    if re.match(r"(hi|hello|hey|good (morning|day|evening))\b", text, re.IGNORECASE):
        return "greeting"
    return "question" if text.strip().endswith("?") else "statement"
