import assert from "node:assert/strict";
import type { ReplicaState } from "../../../src/compute/compute.ts";

/** A run with ten steps that streams an event after each step. */
export const stepsRun = { assistant_id: "steps", input: { messages: [] }, stream_mode: "updates" };

export const urlOf = ({ address }: ReplicaState, target: string) => `http://${address?.host}:${address?.port}${target}`;

export const get = (state: ReplicaState, target: string, headers: Record<string, string> = {}) =>
  fetch(urlOf(state, target), { headers });

export async function post(state: ReplicaState, target: string, body: object): Promise<Response> {
  const headers = { "content-type": "application/json" };
  const response = await fetch(urlOf(state, target), { method: "POST", headers, body: JSON.stringify(body) });
  assert.equal(response.status, 200, target);
  return response;
}

export async function newThread(state: ReplicaState): Promise<string> {
  return ((await (await post(state, "/threads", {})).json()) as { thread_id: string }).thread_id;
}

type Values = { messages: { content: string }[] };

/** Sends a message in a thread and returns the agent's answer. */
export async function ask(
  state: ReplicaState,
  thread: string,
  content: string,
  agent = "agent",
): Promise<string | undefined> {
  const input = { messages: [{ role: "user", content }] };
  const response = await post(state, `/threads/${thread}/runs/wait`, { assistant_id: agent, input });
  return ((await response.json()) as Values).messages.at(-1)?.content;
}

export async function messagesOf(state: ReplicaState, thread: string): Promise<string[]> {
  const { values } = (await (await get(state, `/threads/${thread}/state`)).json()) as { values: Values };
  return values.messages.map((message) => message.content);
}

/** Streams a run of ten steps and calls `remove` after the first. Every step must arrive, and the removal must end. */
export async function streamAllSteps(at: ReplicaState, thread: string, remove: () => Promise<void>): Promise<void> {
  const stream = await post(at, `/threads/${thread}/runs/stream`, stepsRun);
  const reader = (stream.body as ReadableStream<Uint8Array>).pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  while (!text.includes('"step0"')) text += (await reader.read()).value ?? assert.fail(`no first step: ${text}`);
  const removal = remove();
  for (let chunk = await reader.read(); !chunk.done; chunk = await reader.read()) text += chunk.value;
  for (let step = 0; step < 10; step++) assert.ok(text.includes(`"step${step}":`), text);
  await removal;
}
