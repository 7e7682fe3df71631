/** The parts of langgraph.json that a server is told (contract 7.5). The build has checked them. */
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
  webhooks?: unknown;
  dependencies?: string[];
}

/** Sets what langgraph.json says and nobody else did: deployment secrets and injected names win (contract 7.2). */
export function environmentOf(config: LanggraphConfig): { file: string } | { variables: [string, string][] } {
  if (typeof config.env === "string") return { file: config.env };
  // A list names variables that are to be given from outside: there is nothing to set.
  if (config.env === undefined || Array.isArray(config.env)) return { variables: [] };
  return { variables: Object.entries(config.env).map(([name, value]) => [name, String(value)]) };
}
