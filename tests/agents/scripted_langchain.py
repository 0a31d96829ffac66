"""A model for LangChain that follows a script, and how to call a tool without a model."""

import json

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult


class ScriptedModel(BaseChatModel):
    """Makes one call after the other, and keeps what it was shown."""

    calls: list
    last_words: str
    asked: int = 0
    listed: list = []
    answers: dict = {}

    def __init__(self, calls, last_words):
        super().__init__(calls=calls, last_words=last_words)

    def bind_tools(self, tools, **_):
        self.listed = [tool.name for tool in tools]
        return self

    def _generate(self, messages, stop=None, run_manager=None, **_):
        for message in messages:
            if isinstance(message, ToolMessage):
                self.answers[int(message.tool_call_id)] = (message.text, message.status == "error")
        message = AIMessage(self.last_words)
        if self.asked < len(self.calls):
            name, arguments = self.calls[self.asked]
            message = AIMessage("", tool_calls=[{"name": name, "args": json.loads(arguments), "id": str(self.asked)}])
        self.asked += 1
        return ChatResult(generations=[ChatGeneration(message=message)])

    @property
    def _llm_type(self):
        return "scripted"


async def call(gateway, name, arguments):
    """Calls a tool without asking whether it is listed."""
    async with gateway.session("toolgate") as session:
        return await session.call_tool(name, arguments)
