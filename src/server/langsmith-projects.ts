import type { TracingBackend } from "../domain/tracing.ts";
import { langsmithProjects, type TracingProjects } from "../integrations/langsmith-projects.ts";
import type { Config } from "./config.ts";

export interface Tracing {
  backend: TracingBackend | null;
  /** null when tracing is off or the backend has no projects. */
  projects: TracingProjects | null;
}

/** Returns the backend of the agents' traces. @throws Error naming the variable that is missing or wrong. */
export function openTracing(config: Config): Tracing {
  const { tracing: kind, tracingUrl, tracingKey, tracingWorkspace, tracingHeaders } = config;
  if (kind === "none") return { backend: null, projects: null };
  if (tracingUrl === undefined || !/^https?:$/.test(URL.parse(tracingUrl)?.protocol ?? "")) {
    throw new Error(`PIERHEAD_TRACING_URL must be an http or https URL when PIERHEAD_TRACING is ${kind}`);
  }
  const backend = {
    kind,
    url: tracingUrl.replace(/\/+$/, ""),
    key: tracingKey ?? null,
    workspaceId: tracingWorkspace ?? null,
    headers: tracingHeaders ?? null,
  };
  return { backend, projects: kind === "langsmith" ? langsmithProjects(backend) : null };
}
