"""The graphs of engines/langgraph-js-postgres/example/agent.mjs, in Python."""

import asyncio
import json
import operator
import os
import time
from typing import Annotated, Any
from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel, GenericFakeChatModel
from langchain_core.messages import AIMessage
from langgraph.config import get_config, get_store, get_stream_writer
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command, Send, interrupt
from typing_extensions import TypedDict


class State(TypedDict, total=False):
    total: int
    ms: int
    answer: Any
    done: Annotated[list, operator.add]


def note(event, step):
    file = os.environ.get("JOURNAL")
    if file:
        configurable = get_config()["configurable"]
        line = {"event": event, "run_id": str(configurable.get("run_id")), "thread_id": configurable.get("thread_id"), "step": step, "pid": os.getpid(), "at": time.time() * 1000}
        with open(file, "a") as opened:
            opened.write(json.dumps(line) + "\n")


async def step(state):
    number = len(state.get("done", [])) + 1
    note("begin", number)
    get_stream_writer()({"step": number})
    await asyncio.sleep((state.get("ms") or 0) / 1000)
    note("end", number)
    return {"done": [number]}


steps = (
    StateGraph(State)
    .add_node("step", step)
    .add_edge(START, "step")
    .add_conditional_edges("step", lambda state: "step" if len(state["done"]) < (state.get("total") or 1) else END, ["step", END])
    .compile()
)

approval = (
    StateGraph(State)
    .add_node("ask", lambda state: {"answer": interrupt({"question": "Continue?"})})
    .add_node("finish", lambda state: {"done": [f"answered {state['answer']}"]})
    .add_edge(START, "ask")
    .add_edge("ask", "finish")
    .add_edge("finish", END)
    .compile()
)


def fail(state):
    raise RuntimeError("second step failed")


failing = (
    StateGraph(State)
    .add_node("first", lambda state: {"done": ["first"]})
    .add_node("second", fail)
    .add_edge(START, "first")
    .add_edge("first", "second")
    .add_edge("second", END)
    .compile()
)


def connect(state):
    """Fails with an error of a connection of the agent's own: nothing listens there."""
    import psycopg  # which the server in memory lacks

    note("begin", 1)
    psycopg.connect("postgresql://127.0.0.1:1/agent", connect_timeout=5)


unreachable = StateGraph(State).add_node("connect", connect).add_edge(START, "connect").add_edge("connect", END).compile()


async def remember(state):
    store = get_store()
    item = await store.aget(("counters", "runs"), "count")
    count = 0 if item is None else item.value["count"]
    await store.aput(("counters", "runs"), "count", {"count": count + 1})
    return {"answer": count + 1}


memory = StateGraph(State).add_node("remember", remember).add_edge(START, "remember").add_edge("remember", END).compile()


async def talk(state):
    model = GenericFakeChatModel(messages=iter([AIMessage("one two three four five six")]))
    return {"messages": [await model.ainvoke(state["messages"])]}


chat = StateGraph(MessagesState).add_node("talk", talk).add_edge(START, "talk").add_edge("talk", END).compile()

async def bill(state):
    """A model that reports its tokens, and a second call of it whose answer is not in the state."""
    usage = {"input_tokens": 10, "output_tokens": 3, "total_tokens": 13}
    model = FakeMessagesListChatModel(responses=[AIMessage("one two three", usage_metadata=usage)])
    await model.ainvoke("a guess")
    return {"messages": [await model.ainvoke(state["messages"])]}


billed = StateGraph(MessagesState).add_node("bill", bill).add_edge(START, "bill").add_edge("bill", END).compile()

child = StateGraph(State).add_node("inner", lambda state: {"done": [f"inner {state.get('total')}"]}).add_edge(START, "inner").compile()


def split(_state):
    return Command(goto=[Send("branch", {"total": total, "done": []}) for total in (1, 2)])


branches = (
    StateGraph(State)
    .add_node("split", split, destinations=("branch",))
    .add_node("branch", lambda state: {"done": [f"branch {state['total']}"]})
    .add_node("child", child)
    .add_edge(START, "split")
    .add_edge("branch", "child")
    .compile()
)
