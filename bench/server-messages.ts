/** Questions of the parent: resources used so far, or one row of the database, because an embedded one has one opener. */
export type Question =
  | { ask: "usage" }
  | { ask: "memory" }
  | { ask: "row"; text: string }
  | { ask: "writeEvents"; tenantId: string; count: number; perS: number }
  | { ask: "writeManyEvents"; tenantId: string; count: number }
  | { ask: "readBack"; tenantId: string; count: number };

export interface Usage {
  /** CPU time of all threads. */
  cpuMs: number;
  /** Statements sent to the database. */
  queries: number;
}
