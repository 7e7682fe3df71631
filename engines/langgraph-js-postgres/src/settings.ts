/** Settings of the engine. Only `connectionString` has no default. */
export interface EngineOptions {
  /** Address of the PostgreSQL database, 13 or later. */
  connectionString: string;
  /** Schema of the engine's tables. Deployments that share a database use a schema each. Default: `langgraph`. */
  schema?: string;
  /** Connections for queries, between 2 and 100. One more listens and renews leases. Default: 8. */
  maxConnections?: number;
  /** `api` answers requests and runs nothing, `worker` runs and has no agent routes. Default: `all`. */
  role?: "all" | "api" | "worker";
  /** A run whose replica does not renew its lease for so long goes to another replica. Default: 10,000. */
  leaseMs?: number;
  /**
   * A run that replicas have lost this often in a row, without a new checkpoint, ends with an error, because it may crash them.
   * Default: 3.
   */
  lossesMax?: number;
  /** How long `close` waits for running runs before it hands them over. Default: 3,000. */
  handoverMs?: number;
  /** How long the events of an ended run can be read. Default: one hour. */
  eventTtlMs?: number;
  /** Threads without a change for so long are deleted, unless they have runs in progress. Default: never. */
  threadTtlMs?: number;
  /** Items of the store without a write for so long are deleted. Default: never. */
  itemTtlMs?: number;
  /** How often expired rows are deleted. Default: one minute. */
  sweepIntervalMs?: number;
  /** Deadline of one webhook delivery. Default: 10,000. */
  webhookTimeoutMs?: number;
  /** Working directory of the file engine. Its threads, runs and store are copied once, before the first request. */
  importFrom?: string;
  /** File URL of the `@langchain/langgraph-api/server` module. Default: the one that this package resolves. */
  serverUrl?: string;
}

export type Settings = Required<Omit<EngineOptions, Absent>> & Pick<EngineOptions, Absent>;

type Absent = "threadTtlMs" | "itemTtlMs" | "importFrom" | "serverUrl";

const defaults = {
  schema: "langgraph",
  maxConnections: 8,
  role: "all",
  leaseMs: 10_000,
  lossesMax: 3,
  handoverMs: 3_000,
  eventTtlMs: 3_600_000,
  sweepIntervalMs: 60_000,
  webhookTimeoutMs: 10_000,
} as const;

/** Fills in the defaults. @throws with the name of the first setting that is out of bounds. */
export function readSettings(options: EngineOptions): Settings {
  const settings: Settings = { ...defaults, ...options };
  if (!settings.connectionString)
    throw new Error("connectionString is missing: give the address of a PostgreSQL database");
  if (!/^[a-z_][a-z0-9_]{0,62}$/.test(settings.schema))
    throw new Error(
      `schema ${JSON.stringify(settings.schema)} is invalid: use up to 63 of a-z, 0-9 and _, not a digit first`,
    );
  if (!["all", "api", "worker"].includes(settings.role))
    throw new Error(`role ${JSON.stringify(settings.role)} is invalid: use all, api or worker`);
  const bounds: [keyof Settings, number, number][] = [
    ["maxConnections", 2, 100],
    ["leaseMs", 1_000, 600_000],
    ["lossesMax", 1, 1_000],
    ["handoverMs", 0, 3_600_000],
    ["eventTtlMs", 1_000, 2_592_000_000],
    ["sweepIntervalMs", 100, 86_400_000],
    ["webhookTimeoutMs", 100, 60_000],
  ];
  for (const [name, least, most] of bounds) {
    const value = settings[name] as number;
    if (!(value >= least && value <= most)) throw new Error(`${name} is ${value}: use ${least} to ${most}`);
  }
  return settings;
}
