/** The parts of langgraph.json that the server needs (contract 7.5). The build has validated them. */
export interface LanggraphConfig {
  graphs: Record<string, string | { path: string; description?: string }>;
  env?: string | Record<string, unknown> | unknown[];
  auth?: { path?: string; disable_studio_auth?: boolean };
  http?: { app?: string; disable_meta?: boolean; [key: string]: unknown };
  ui?: Record<string, string>;
  ui_config?: unknown;
  store?: unknown;
  checkpointer?: { path?: string; [key: string]: unknown };
  encryption?: { path?: string; [key: string]: unknown };
  /** Python only: a function that orders the runs of the queue. */
  priority?: { path?: string; [key: string]: unknown };
  webhooks?: unknown;
  dependencies?: string[];
}

/** Returns the variables of langgraph.json. Deployment secrets and injected variables take precedence (contract 7.2). */
export function environmentOf(config: LanggraphConfig): { file: string } | { variables: [string, string][] } {
  if (typeof config.env === "string") return { file: config.env };
  // A list contains names of variables that must be set elsewhere, so there is nothing to set.
  if (config.env === undefined || Array.isArray(config.env)) return { variables: [] };
  return { variables: Object.entries(config.env).map(([name, value]) => [name, String(value)]) };
}
