/** What the parent may ask: what was used so far, or one row of the database, which has one opener if it is embedded. */
export type Question =
  | { ask: "usage" }
  | { ask: "memory" }
  | { ask: "row"; text: string }
  | { ask: "writeEvents"; tenantId: string; count: number; perS: number }
  | { ask: "writeManyEvents"; tenantId: string; count: number }
  | { ask: "readBack"; tenantId: string; count: number };

export interface Usage {
  /** Of all threads. */
  cpuMs: number;
  /** Statements sent to the database. */
  queries: number;
}
