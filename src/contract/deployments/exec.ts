import { type Static, Type } from "typebox";
import { optional } from "../schema.ts";

/**
 * A program that runs beside an agent (decision 0069). The client asks for `GET /v2/deployments/{deployment_id}/exec` with
 * `Upgrade: pierhead-exec`. After `101` both sides send frames (`src/base/frames.ts`) on these channels.
 */
export const execProtocol = "pierhead-exec";

/**
 * A connection to an agent through its listener (decision 0074). The client asks for `GET /v2/deployments/{deployment_id}/connect`
 * with `Upgrade: pierhead-connect`. After `101` it sends HTTP to the agent.
 */
export const connectProtocol = "pierhead-connect";

export const execChannels = {
  /** To the server, first: `ExecStart` as JSON. */
  start: 0,
  /** To the server: input. An empty frame ends it. */
  input: 1,
  /** To the client. */
  output: 2,
  /** To the client: standard error. A terminal has none of its own. */
  errors: 3,
  /** To the server: `TerminalSize` as JSON. */
  resize: 4,
  /** To the client, first: `ExecStarted` as JSON. */
  started: 5,
  /** To the client, last: `ExecEnd` as JSON. */
  end: 6,
  /** To the client, empty, every 15 s. It has no meaning: proxies close quiet connections. */
  alive: 7,
} as const;

/** Maximum payload of a frame. */
export const execFrameBytesMax = 256 * 1024;

export const TerminalSize = Type.Object({
  columns: Type.Integer({ minimum: 1, maximum: 10_000 }),
  rows: Type.Integer({ minimum: 1, maximum: 10_000 }),
});
export type TerminalSize = Static<typeof TerminalSize>;

export const ExecStart = Type.Object({
  argv: Type.Array(Type.String({ maxLength: 32_768 }), { minItems: 1, maxItems: 1_000 }),
  /** Absent: no terminal, so that output and errors stay apart. */
  terminal: optional(TerminalSize),
  /** Absent: the newest ready replica. */
  replica_id: optional(Type.String({ maxLength: 128 })),
});
export type ExecStart = Static<typeof ExecStart>;

export interface ExecStarted {
  replica_id: string;
  /** Whether the program got the terminal that it asked for. */
  has_terminal: boolean;
}

export interface ExecEnd {
  /** Exit code of the program; null: it was ended. */
  exit_code: number | null;
  /** Why the server ended it, or could not start it. */
  message: string | null;
}
