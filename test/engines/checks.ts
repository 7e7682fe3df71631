import { eventually } from "../support/eventually.ts";

/** The SDK is installed with the engine's packages, which the type check of the repository does not need. */
// biome-ignore lint/suspicious/noExplicitAny: answers of an untyped client
export type Loose = any;

export interface Target {
  client: Loose;
  url: string;
}

export type Check = [name: string, act: (target: Target) => Promise<void>];

export const collect = async (stream: AsyncIterable<Loose>): Promise<Loose[]> => {
  const all: Loose[] = [];
  for await (const part of stream) all.push(part);
  return all;
};

/** Runs a graph on a new thread to its end. */
export async function ran({ client }: Target, graph: string, input: Loose, options: Loose = {}) {
  const thread = await client.threads.create();
  const values = await client.runs.wait(thread.thread_id, graph, { input, ...options, raiseError: false });
  return { id: thread.thread_id as string, values };
}

export const settled = ({ client }: Target, id: string) =>
  eventually(
    () => client.threads.get(id),
    (thread: Loose) => thread.status !== "busy",
    { timeoutMs: 20_000, what: "the end of the run" },
  );

export const statusOf = (promise: Promise<unknown>) =>
  promise.then(() => 200).catch((error: { status?: number }) => error.status);

export const send = async (
  { url }: Target,
  path: string,
  body?: Loose,
  method = body === undefined ? "GET" : "POST",
) => {
  const answer = await fetch(url + path, {
    method,
    headers: { "content-type": "application/json" },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  const text = await answer.text();
  return { status: answer.status, body: text === "" ? undefined : JSON.parse(text) };
};
