"""A model for Pydantic AI that follows a script, and how to call a tool without a model."""

from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel


class ScriptedModel(FunctionModel):
    """Makes one call after the other, and keeps what it was shown."""

    def __init__(self, calls, last_words):
        super().__init__(self.respond)
        self.calls, self.last_words, self.asked = calls, last_words, 0
        self.listed, self.answers = [], {}

    async def respond(self, messages, info):
        self.listed = [tool.name for tool in info.function_tools]
        for part in (part for message in messages for part in message.parts):
            if isinstance(part, ToolReturnPart):
                self.answers[int(part.tool_call_id)] = (part.model_response_str(), part.outcome != "success")
        part = TextPart(self.last_words)
        if self.asked < len(self.calls):
            name, arguments = self.calls[self.asked]
            part = ToolCallPart(name, arguments, tool_call_id=str(self.asked))
        self.asked += 1
        return ModelResponse(parts=[part])


async def call(gateway, name, arguments):
    """Calls a tool without asking whether it is listed."""
    async with gateway:
        return await gateway.direct_call_tool(name, arguments)
