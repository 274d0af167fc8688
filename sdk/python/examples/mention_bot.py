"""Answers whoever mentions this host in a topic, with what an agent says.

    python mention_bot.py [TOPIC] [AGENT]

It goes on where it was when it is started again: the place is kept in a file.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from hostel_sdk import House, Mesh, MeshError
from hostel_sdk.models import MessageEvent

PLACE = Path(os.environ.get("MENTION_BOT_PLACE", "mention_bot.place"))


async def answer(mesh: Mesh, house: House, agent: str, message: MessageEvent) -> None:
    session = await house.create_session(agent, mode="plan", session_id=f"mention-{message.id}")
    turn = await session.prompt(f"{message.sender_name} asks: {message.body}", approve=lambda request: "reject")
    await session.close()
    text = f"@{message.sender_name} {turn.content}"
    # Named after the question: if this is killed and done again, the answer is still one.
    key = f"answer-{message.id}"
    to = f"#{message.topic}" if message.topic else message.sender_name
    try:
        await mesh.send(to, text, reply_to=message.id, mentions=[message.sender_name], client_message_id=key)
    except MeshError as error:
        # Asked a second time an agent says other words; the first answer stands.
        if error.code != "idempotency_key_reused":
            raise


def keep(place: str) -> None:
    """Whole or not at all: whoever is killed while writing has the place before."""
    new = PLACE.with_name(PLACE.name + ".new")
    new.write_text(place)
    new.replace(PLACE)


async def main() -> None:
    topic = sys.argv[1] if len(sys.argv) > 1 else "general"
    agent = sys.argv[2] if len(sys.argv) > 2 else "echo"
    place = PLACE.read_text().strip() if PLACE.exists() else None
    async with await Mesh.connect() as mesh, await House.connect() as house:
        await mesh.subscribe(topic)
        async with mesh.events(["message"], topic=topic, last_event_id=place or None) as events:
            async for event in events:
                if event.message is not None and event.message.mention:
                    await answer(mesh, house, agent, event.message)
                if event.id:
                    keep(event.id)


if __name__ == "__main__":
    asyncio.run(main())
