import type { Readable, Writable } from "node:stream";

export type Environment = Record<string, string | undefined>;

export type Output = Writable & { isTTY?: boolean; columns?: number; rows?: number };
export type Input = Readable & { isTTY?: boolean; setRawMode?: (isRaw: boolean) => void };

/** Server that `pierhead up` runs in this process. */
export interface RunningServer {
  url: string;
  credentials: { adminKey: string; workspaceId: string };
  close(): Promise<void>;
}

/** Result of a restore. */
export interface Restored {
  /** When the backup was made, ISO 8601. */
  madeAt: string;
  deployments: number;
  /** How many of them the server redeploys when it starts. */
  redeployed: number;
}

export type StartServer = (
  environment: Environment,
  options: { stopReplicasOnClose: boolean },
) => Promise<RunningServer>;

/** Starts the data plane that `pierhead listener` runs in this process. */
export type StartListener = (environment: Environment) => Promise<{ url: string; close(): Promise<void> }>;

/** All inputs and outputs of the command line. Commands access the process only through it. */
export interface CliContext {
  /** Arguments without the program name. */
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
  /** Starts a replica of the gateway in a cluster, which `pierhead listener gateway` runs in this process. */
  startClusterGateway: StartListener;
  /** Migrates the database and returns the names of the applied migrations. */
  migrate(environment: Environment): Promise<string[]>;
  /** Restores a backup into an empty database and the data directory. */
  restore(environment: Environment, file: string, signal: AbortSignal): Promise<Restored>;
}
