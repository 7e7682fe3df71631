import { readFile } from "node:fs/promises";
import path from "node:path";
import { usageFailure } from "../failure.ts";
import type { Session } from "../session.ts";
import { readStdin } from "../terminal/stdin.ts";

const verbs = ["GET", "POST", "PUT", "PATCH", "DELETE"];

/** Makes one API call with the key and prints the response to stdout unchanged, including secrets. */
export async function api(
  session: Session,
  [verb = "", target = ""]: string[],
  options: { data?: string },
): Promise<void> {
  if (!verbs.includes(verb.toUpperCase())) throw usageFailure(`"${verb}" is not one of ${verbs.join(", ")}.`);
  const { url } = await session.connection();
  if (/^[a-z]+:\/\//i.test(target) && !target.startsWith(`${url}/`)) {
    throw usageFailure(`The key may only be sent to ${url}.`, "Use a path: pierhead api GET /v2/deployments");
  }
  const client = await session.client();
  const body = options.data === undefined ? undefined : await readBody(session, options.data);
  const answer = await client.request(verb, target.startsWith(`${url}/`) ? target.slice(url.length) : target, body, {
    signal: session.signal,
  });
  session.answer(answer ?? null, () => (answer === undefined ? undefined : JSON.stringify(answer, null, 2)));
}

/** Parses a body: JSON text, `@file`, or `-` for stdin. */
async function readBody({ context }: Session, data: string): Promise<unknown> {
  let content = data;
  try {
    if (data === "-") content = await readStdin(context);
    else if (data.startsWith("@")) content = await readFile(path.resolve(context.cwd, data.slice(1)), "utf8");
    return JSON.parse(content);
  } catch (error) {
    context.signal.throwIfAborted();
    throw usageFailure(
      `The body is not JSON: ${(error as Error).message}`,
      "Examples: -d '{\"a\": 1}', -d @body.json, -d -",
    );
  }
}
