import { createHash } from "node:crypto";

/** The tracing backend of the operator, to which agents send their traces. */
export interface TracingBackend {
  /** `langsmith`: has a project per deployment. `otlp`: a collector without projects. */
  kind: "langsmith" | "otlp";
  /** Without a trailing slash: the API of a LangSmith-compatible server, or the OTLP endpoint. */
  url: string;
  key: string | null;
  /** Workspace in the backend, for keys that are valid for several. */
  workspaceId: string | null;
  /** For `otlp`: `name=value` pairs separated by commas, in OpenTelemetry's format. */
  headers: string | null;
}

/**
 * Returns the id of the tracing project with that name in a workspace. It is always the same, so that a project outlives
 * its deployment and the next deployment of that name finds it. A UUID of version 8 (RFC 9562), which allows custom formats.
 */
export function tracingProjectId(tenantId: string, name: string): string {
  const hex = createHash("sha256").update(`tracing/${tenantId}/${name}`).digest("hex");
  const variant = "89ab"[Number.parseInt(hex.slice(16, 17), 16) % 4];
  return [
    hex.slice(0, 8),
    hex.slice(8, 12),
    `8${hex.slice(13, 16)}`,
    `${variant}${hex.slice(17, 20)}`,
    hex.slice(20, 32),
  ].join("-");
}

/**
 * Returns the variables that make an agent server trace (contract 7.2). Variables in the deployment's own secrets take
 * precedence; a deployment that names a backend of its own gets none of the operator's.
 * @param own names of the deployment's secrets.
 */
export function tracingVariables(
  backend: TracingBackend,
  project: string,
  own: ReadonlySet<string>,
): Record<string, string> {
  const isElsewhere = (names: readonly string[]) => names.some((name) => own.has(name));
  const langsmith = isElsewhere(langsmithPlace) ? {} : langsmithVariables(backend, own);
  const otlp = backend.kind !== "otlp" || isElsewhere(otlpPlace) ? {} : otlpVariables(backend, project);
  return Object.fromEntries(Object.entries({ ...langsmith, ...otlp }).filter(([name]) => !own.has(name)));
}

const langsmithPlace = ["LANGSMITH_ENDPOINT", "LANGSMITH_API_KEY"] as const;
const otlpPlace = ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] as const;

function langsmithVariables(backend: TracingBackend, own: ReadonlySet<string>): Record<string, string> {
  // The older switch would override a user's LANGSMITH_TRACING=false.
  const isOn = { LANGSMITH_TRACING: "true", ...(!own.has("LANGSMITH_TRACING") && { LANGCHAIN_TRACING_V2: "true" }) };
  if (backend.kind === "otlp") return { ...isOn, LANGSMITH_OTEL_ENABLED: "true", LANGSMITH_OTEL_ONLY: "true" };
  const { url, key, workspaceId } = backend;
  return {
    ...isOn,
    LANGSMITH_ENDPOINT: url,
    LANGCHAIN_ENDPOINT: url,
    ...(key !== null && { LANGSMITH_API_KEY: key, LANGCHAIN_API_KEY: key }),
    ...(workspaceId !== null && { LANGSMITH_WORKSPACE_ID: workspaceId }),
  };
}

function otlpVariables({ url, headers }: TracingBackend, project: string): Record<string, string> {
  return {
    OTEL_EXPORTER_OTLP_ENDPOINT: url,
    OTEL_SERVICE_NAME: project,
    ...(headers !== null && { OTEL_EXPORTER_OTLP_HEADERS: headers }),
  };
}
