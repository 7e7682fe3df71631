import type { CallTrace, Client } from "../client/client.ts";
import { type Connection, type ConnectionOptions, findConnection } from "./connection.ts";
import type { CliContext } from "./context.ts";
import { lightSend } from "./light-send.ts";
import { maskSecrets } from "./terminal/mask.ts";
import type { Terminal } from "./terminal/terminal.ts";
import { duration } from "./terminal/text.ts";

export interface GlobalOptions extends ConnectionOptions {
  json?: boolean;
  verbose?: boolean;
  color?: boolean;
}

/** Context of a single command run. */
export interface Session {
  context: CliContext;
  terminal: Terminal;
  options: GlobalOptions;
  signal: AbortSignal;
  /** Prints the answer: a JSON document with `--json`, otherwise the text from `render`. Called at most once. */
  answer(data: unknown, render: () => string | undefined): void;
  hasAnswered(): boolean;
  connection(): Promise<Connection>;
  /** @param userId User for whom the OAuth service is called. Omit it to call for the key itself. */
  client(userId?: string): Promise<Client>;
}

export function createSession(context: CliContext, terminal: Terminal, options: GlobalOptions): Session {
  let answered = false;
  let found: Promise<Connection> | undefined;
  let client: Client | undefined;
  const connection = () => {
    found ??= findConnection(options, context);
    return found;
  };
  return {
    context,
    terminal,
    options,
    signal: context.signal,
    answer(data, render) {
      answered = true;
      const text = options.json ? JSON.stringify(data, null, 2) : render();
      if (text !== undefined) terminal.print(text);
    },
    hasAnswered: () => answered,
    connection,
    async client(userId) {
      const { url, apiKey, workspaceId } = await connection();
      const { createClient } = await import("../client/client.ts");
      const onCall = options.verbose ? { onCall: (call: CallTrace) => terminal.say(showCall(call, terminal)) } : {};
      const made = { baseUrl: url, apiKey, workspaceId, send: lightSend(context.env), ...onCall };
      if (userId !== undefined) return createClient({ ...made, userId });
      client ??= createClient(made);
      return client;
    },
  };
}

/** Formats a call: `> PATCH http://.../v2/deployments/x 200 34 ms req-1 {"secrets":[{"name":"A","value":"**********"}]}` */
function showCall(call: CallTrace, terminal: Terminal): string {
  const status = call.status === null ? "no answer" : String(call.status);
  const again = call.attempt > 1 ? ` (try ${call.attempt})` : "";
  const body = call.body === null || call.body === undefined ? "" : ` ${JSON.stringify(maskSecrets(call.body))}`;
  const request = call.requestId === null ? "" : ` ${call.requestId}`;
  const line = `> ${call.verb} ${call.url} ${status} ${duration(call.durationMs)}${request}${again}${body}`;
  return terminal.paintErr("dim", line);
}
