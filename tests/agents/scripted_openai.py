"""A model for the OpenAI Agents SDK that follows a script, and how to call a tool without a model."""

from agents import Model, ModelResponse, Usage
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText


class ScriptedModel(Model):
    """Makes one call after the other, and keeps what it was shown."""

    def __init__(self, calls, last_words):
        self.calls, self.last_words, self.asked = calls, last_words, 0
        self.listed, self.answers = [], {}

    async def get_response(self, system_instructions, input, model_settings, tools, *_, **__):
        self.listed = [tool.name for tool in tools]
        for item in input if isinstance(input, list) else []:
            if item.get("type") == "function_call_output":
                # The SDK does not tell the model which answers are errors.
                self.answers[int(item["call_id"])] = (text_of(item["output"]), None)
        item = self.next_item()
        self.asked += 1
        return ModelResponse(output=[item], usage=Usage(), response_id=None)

    def next_item(self):
        if self.asked < len(self.calls):
            name, arguments = self.calls[self.asked]
            return ResponseFunctionToolCall(type="function_call", call_id=str(self.asked), name=name, arguments=arguments)
        words = ResponseOutputText(type="output_text", text=self.last_words, annotations=[])
        return ResponseOutputMessage(id="last", type="message", role="assistant", status="completed", content=[words])

    def stream_response(self, *_, **__):
        raise NotImplementedError("the pages do not stream")


def text_of(output):
    return output if isinstance(output, str) else "".join(part.get("text", "") for part in output)


async def call(gateway, name, arguments):
    """Calls a tool without asking whether it is listed."""
    async with gateway:
        return await gateway.call_tool(name, arguments)
