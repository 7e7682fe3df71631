from langchain_core.messages import AIMessage
from langgraph.config import get_stream_writer
from langgraph.graph import END, START, MessagesState, StateGraph

from hello_agent.understand import Kind, understand


class State(MessagesState):
    """What a thread remembers between runs."""

    kind: Kind


def read(state: State):
    """First node. What it writes is streamed to clients that ask for `custom` events."""
    kind = understand(text_of(state))
    get_stream_writer()({"event": "understood", "kind": kind})
    return {"kind": kind}


def greet(state: State):
    return answer("Hello! I am a LangGraph agent in Python, running on Pierhead. Ask me something, or tell me something.")


def reply(state: State):
    words = text_of(state).split()
    turns = sum(message.type == "human" for message in state["messages"])
    what = "A question" if state["kind"] == "question" else "A statement"
    return answer(f'{what} of {len(words)} words, and your message number {turns} in this thread: "{" ".join(words)}"')


def answer(text: str):
    return {"messages": [AIMessage(text)]}


def text_of(state: State) -> str:
    return str(state["messages"][-1].content)


graph = (
    StateGraph(State)
    .add_node(read)
    .add_node(greet)
    .add_node(reply)
    .add_edge(START, "read")
    .add_conditional_edges("read", lambda state: "greet" if state["kind"] == "greeting" else "reply", ["greet", "reply"])
    .add_edge("greet", END)
    .add_edge("reply", END)
    .compile()
)
