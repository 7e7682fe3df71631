import type { Readable, Writable } from "node:stream";

export type Environment = Record<string, string | undefined>;

export type Output = Writable & { isTTY?: boolean; columns?: number };
export type Input = Readable & { isTTY?: boolean };

/** A server in this process, as `pierhead up` needs it. */
export interface RunningServer {
  url: string;
  credentials: { adminKey: string; workspaceId: string };
  close(): Promise<void>;
}

export interface Restored {
  /** When the backup was made, ISO 8601. */
  madeAt: string;
  deployments: number;
  /** Of them: those that are deployed again when the server starts. */
  redeployed: number;
}

export type StartServer = (
  environment: Environment,
  options: { stopReplicasOnClose: boolean },
) => Promise<RunningServer>;

/** A data plane in this process, as `pierhead listener` needs it. */
export type StartListener = (environment: Environment) => Promise<{ url: string; close(): Promise<void> }>;

/** Everything the command line gets from the world around it. Nothing else is read. */
export interface CliContext {
  /** What follows the program's name. */
  argv: readonly string[];
  env: Environment;
  cwd: string;
  stdin: Input;
  stdout: Output;
  stderr: Output;
  /** Aborted by Ctrl-C. */
  signal: AbortSignal;
  startServer: StartServer;
  startListener: StartListener;
  /** Names of the migrations that were applied now. */
  migrate(environment: Environment): Promise<string[]>;
  /** Fills an empty database, and the data directory, with what a backup holds. */
  restore(environment: Environment, file: string, signal: AbortSignal): Promise<Restored>;
}
